import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../support/free-port.ts";
import { type ServerProcess, startServer } from "../support/processes.ts";

const PACKAGE = "@portkey-ai/gateway@1.15.2";
/**
 * The published version answers 500 to every stream: it writes headers into a fetch response, which are immutable (its
 * issues 1389 and 1550). A copy of the response has its own headers.
 */
const MUTABLE_HEADERS = `data:text/javascript,${encodeURIComponent(`
  const original = globalThis.fetch;
  globalThis.fetch = async (...sent) => {
    const { body, status, statusText, headers } = await original(...sent);
    return new Response(body, { status, statusText, headers });
  };
`)}`;

/** Installs the gateway into a temporary folder and starts it. Throws when the registry cannot be reached. */
export async function startPortkey(): Promise<ServerProcess> {
  const folder = mkdtempSync(join(tmpdir(), "portkey-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    execFileSync("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", "--no-package-lock", PACKAGE], {
      stdio: "ignore",
      timeout: 120_000,
    });
    const main = join(folder, "node_modules/@portkey-ai/gateway/build/start-server.js");
    const command = [process.execPath, "--import", MUTABLE_HEADERS, main, `--port=${await freePort()}`, "--headless"];
    const server = await startServer(command, { core: "service", cwd: folder });
    const stop = () => server.kill().finally(remove);
    return { ...server, stop, kill: stop };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The header with the destination of a request. */
export function portkeyHeaders(upstream_url: string): Record<string, string> {
  return {
    "x-portkey-provider": "openai",
    "x-portkey-custom-host": `${upstream_url}/v1`,
    authorization: "Bearer none",
  };
}
