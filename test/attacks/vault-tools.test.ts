import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { encodingsOf, leaksIn } from "../support/encodings.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { scoreOf } from "../support/score.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { storedBytes } from "../support/snapshot.ts";
import { newMasterKey } from "../support/vault.ts";

// Agents' tools use secrets at a site that sends them back. An attacker who then reads the disk, a dump, the logs or every
// answer finds no value in any encoding.

const VALUE = "sk_live_thief_9fZq/77+KdwE=3x";
const ECHOES: Record<string, (text: string) => string> = {
  "/raw": (text) => text,
  "/hex": (text) => Buffer.from(text).toString("hex"),
  "/base64": (text) => Buffer.from(text).toString("base64"),
  "/url": encodeURIComponent,
  "/quiet": () => "nothing",
};
const site = createServer((request, response) => {
  const path = (request.url ?? "").split("?")[0] ?? "";
  const key = new URL(request.url ?? "", "http://site").searchParams.get("key") ?? "";
  const sent = `${request.headers.authorization ?? ""} ${request.headers["x-key"] ?? ""} ${key}`;
  response.writeHead(200, { "content-type": "text/html", "x-echo": encodeURIComponent(ECHOES[path]?.(sent) ?? "") });
  response.end(`<p>${ECHOES[path]?.(sent)}</p>`);
});

const score = scoreOf("stored, answered and logged after tools", "leaks");
/** One search for each encoding of each value. */
function searched(bytes: Buffer) {
  const leaks = leaksIn(bytes, [VALUE]);
  for (const value of [VALUE]) score.tried(encodingsOf(value).size);
  score.slipped(...leaks);
  return leaks;
}

let database: TestDatabase;
let service: RunningProcess;
let url: string;
let host: string;
const answers: string[] = [];

beforeAll(async () => {
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  host = `127.0.0.1:${(site.address() as AddressInfo).port}`;
  database = await createTestDatabase();
  const { data_dir, database_url } = database;
  service = startProcess({
    PORT: "0",
    DATA_DIR: data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: newMasterKey("k1"),
    PURSER_EGRESS_ALLOW: host,
    LOG_LEVEL: "debug",
    ...(database_url === null ? {} : { DATABASE_URL: database_url }),
  });
  url = await service.listening;
});
afterAll(async () => {
  service.signal("SIGKILL");
  await service.ended;
  await database.drop();
  site.closeAllConnections();
  site.close();
});

async function call(key: string, method: string, path: string, body?: unknown) {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Prefer: "wait=30" };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${url}/api/v1${path}`, { method, headers, ...sent });
  const text = await response.text();
  answers.push(JSON.stringify([...response.headers]), text);
  return JSON.parse(text);
}

test("no answer, no log at debug level and no stored data contains a value that tools used", async () => {
  const { api_key } = await call(ADMIN_KEY, "POST", "/admin/users", { email: "ada@example.com" });
  const slots = [
    { type: "bearer" },
    { type: "basic", username: "ada" },
    { type: "header", name: "X-Key" },
    { type: "query", name: "key" },
  ];
  for (const [n, inject] of slots.entries()) {
    for (const path of Object.keys(ECHOES)) {
      const name = `S${n}_${path.slice(1)}`;
      await call(api_key.key, "POST", "/secrets", { name, value: VALUE });
      const web_fetch = { enabled: true, auth: [{ secret: name, hosts: [host], inject }] };
      const send_webhook = { enabled: true, urls: [`http://${host}${path}?hook`], secret: name };
      const agent = await call(api_key.key, "POST", "/agents", {
        name,
        model_id: "purser/rehearsal",
        run_prompt: `Read http://${host}${path} and send a summary to http://${host}${path}?hook`,
        tools_config: { web_fetch, send_webhook },
      });
      const run = await call(api_key.key, "POST", `/agents/${agent.id}/runs`);
      expect(run.error?.code ?? run.status).toBe(path === "/quiet" ? "succeeded" : "secret_reflected");
      await call(api_key.key, "GET", `/agents/${agent.id}/runs/${run.id}`);
    }
  }
  for (const list of ["/secrets", "/notices", "/agents", "/users/me/transactions"])
    await call(api_key.key, "GET", list);
  service.signal("SIGTERM");
  const { stdout, stderr } = await service.ended;
  expect(searched(Buffer.from(answers.join("\n")))).toEqual([]);
  expect(searched(Buffer.from(stdout + stderr))).toEqual([]);
  const stored = await storedBytes({ database });
  expect(stored.includes("S0_base64")).toBe(true); // the search can find text
  expect(searched(stored)).toEqual([]);
}, 180_000);
