import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";

interface Session {
  child: ChildProcess;
  /** The open answers by the id of their request. */
  waiting: Map<unknown, ServerResponse>;
}

/** MCP servers that speak only stdio, over streamable HTTP: one process for each session, as in real bridges. */
export interface StdioBridge {
  /** The endpoint. */
  url: string;
  /** As PURSER_EGRESS_ALLOW takes it. */
  host: string;
  /** The sessions that began and ended. */
  sessions: { begun: number; ended: number };
  stop(): Promise<void>;
}

/** Starts the bridge on a free port of loopback. `main` is the server's module; it gets these arguments. */
export async function startStdioBridge(
  main: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<StdioBridge> {
  const open = new Map<string, Session>();
  const sessions = { begun: 0, ended: 0 };

  function begin(): string {
    sessions.begun += 1;
    const id = `session-${sessions.begun}`;
    const child = spawn(process.execPath, [main, ...args], {
      stdio: ["pipe", "pipe", "ignore"],
      env: { PATH: process.env.PATH ?? "", ...env },
    });
    const waiting: Session["waiting"] = new Map();
    createInterface({ input: child.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      const response = waiting.get(message.id);
      waiting.delete(message.id);
      response?.writeHead(200, { "content-type": "application/json", "mcp-session-id": id }).end(line);
    });
    open.set(id, { child, waiting });
    return id;
  }

  const server = createServer(async (request, response) => {
    const body = await text(request);
    const message = body === "" ? {} : JSON.parse(body);
    const given = request.headers["mcp-session-id"];
    const id = message.method === "initialize" ? begin() : String(given);
    const session = open.get(id);
    if (session === undefined) return response.writeHead(given === undefined ? 400 : 404).end();
    if (request.method === "DELETE") {
      session.child.kill();
      open.delete(id);
      sessions.ended += 1;
      return response.writeHead(200).end();
    }
    if (request.method !== "POST") return response.writeHead(405).end();
    if (message.id !== undefined) session.waiting.set(message.id, response);
    session.child.stdin?.write(`${JSON.stringify(message)}\n`);
    if (message.id === undefined) response.writeHead(202).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}/mcp`,
    host,
    sessions,
    async stop() {
      for (const { child } of open.values()) child.kill();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
