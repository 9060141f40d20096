import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** The server would listen on every address. This makes it use a free port of loopback, and print it. */
const ON_LOOPBACK = `
  import { Server } from "node:net";
  const { listen } = Server.prototype;
  Server.prototype.listen = function (_port, ...rest) {
    this.once("listening", () => console.error("port " + this.address().port + " it is"));
    return listen.call(this, 0, "127.0.0.1", rest.find((each) => typeof each === "function"));
  };`;

export interface McpServerProcess {
  /** Its endpoint. */
  url: string;
  /** As PURSER_EGRESS_ALLOW takes it. */
  host: string;
  stop(): Promise<void>;
}

/** The MCP project's reference server, over streamable HTTP. */
export async function startMcpServer(): Promise<McpServerProcess> {
  const main = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"));
  const preload = `data:text/javascript,${encodeURIComponent(ON_LOOPBACK)}`;
  const child = spawn(process.execPath, ["--import", preload, main, "streamableHttp"], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env.PATH ?? "" },
  });
  const port = await new Promise<string>((resolve, reject) => {
    let output = "";
    child.stderr.on("data", (bytes) => {
      output += bytes;
      const found = /port (\d+) it is/.exec(output)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", () => reject(new Error(`the MCP server ended: ${output}`)));
  });
  const host = `127.0.0.1:${port}`;
  return {
    url: `http://${host}/mcp`,
    host,
    async stop() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
    },
  };
}
