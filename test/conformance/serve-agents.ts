import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { startProcess } from "../support/process.ts";
import { renameTool, startSlowSite, suiteAgents } from "./suite-tools.ts";

const ADMIN = "operator-key-of-the-suite";

/**
 * Purser with its agents, as an MCP server. The suite sends no key, so a small proxy adds it. Purser still sees the
 * client's own address.
 */
export async function serveAgents(): Promise<{ url: string; stop(): Promise<void> }> {
  const data_dir = mkdtempSync(join(tmpdir(), "purser-suite-"));
  const site = await startSlowSite();
  const service = startProcess({
    DATA_DIR: data_dir,
    PORT: "0",
    PURSER_ADMIN_KEY: ADMIN,
    PURSER_EGRESS_ALLOW: new URL(site.url).host,
    LOG_LEVEL: "silent",
  });
  const address = await service.listening;
  const post = async (path: string, body: object, key: string) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    return (await fetch(`${address}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
  };
  const { user, api_key } = await post("/api/v1/admin/users", { email: "suite@example.com" }, ADMIN);
  const reporter = { name: "Reporter", model_id: "purser/rehearsal", run_prompt: "Say hello." };
  for (const agent of [reporter, ...suiteAgents(site.url)]) await post("/api/v1/agents", agent, api_key.key);
  const scopes = ["agents:read", "agents:write", "agents:approve", "chat:write"];
  const wanted = { name: "suite", scopes, reason: "its user decides" };
  const { key } = await post(`/api/v1/admin/users/${user.id}/api-keys`, wanted, ADMIN);
  const proxy = createServer(async (incoming, outgoing) => {
    const sent = renameTool(await buffer(incoming), incoming.headers);
    const headers = { ...sent.headers, authorization: `Bearer ${key}` };
    if (headers.origin?.endsWith(`:${port()}`)) headers.origin = address;
    const to = request(
      `${address}/api/v1/mcp`,
      { method: incoming.method ?? "POST", headers, agent: false },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    to.on("error", () => outgoing.destroy());
    outgoing.on("close", () => to.destroy());
    to.end(sent.body);
  });
  const port = () => (proxy.address() as AddressInfo).port;
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  return {
    url: `http://127.0.0.1:${port()}/mcp`,
    async stop() {
      proxy.close();
      proxy.closeAllConnections();
      service.signal("SIGTERM");
      await service.ended;
      site.close();
      rmSync(data_dir, { recursive: true, force: true });
    },
  };
}
