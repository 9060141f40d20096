import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { NATIVE_APIS, NATIVE_ENV, NATIVE_KINDS, nativeConfig, threeFetches } from "../support/native-apis/lab.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { type Reply, startUpstream, type Upstream, type UpstreamRequest } from "../support/upstream.ts";

// The process is killed while the model works on its third call. The next process sends the reasoning of the first two,
// which the fakes check.

let database: TestDatabase;
let upstream: Upstream;
let site: Site;
const running: RunningProcess[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  upstream = await startUpstream();
  const page = { body: "<p>The door is green.</p>" };
  site = await startSite({ "/one": page, "/two": page, "/three": page });
});
afterAll(async () => {
  for (const each of running) each.signal("SIGKILL");
  await Promise.all(running.map(({ ended }) => ended));
  await upstream.close();
  await site.close();
  await database.drop();
});

test("the reasoning of finished steps survives kill -9, for each native API", async () => {
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(nativeConfig(upstream)));
  const env: Record<string, string> = {
    ...NATIVE_ENV,
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_CONFIG: config,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_EGRESS_ALLOW: site.host,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const apis = Object.fromEntries(NATIVE_KINDS.map((kind) => [kind, NATIVE_APIS[kind].create(threeFetches(site.url))]));
  const kindOf = ({ path }: UpstreamRequest) =>
    path.endsWith("/responses") ? "openai" : path.endsWith("/messages") ? "anthropic" : "google";
  const callsOf = (kind: string) => upstream.requests.filter((request) => kindOf(request) === kind);
  const answer: Reply = (response, request) => {
    const kind = kindOf(request);
    // The third call of each model is never answered in the first process.
    return callsOf(kind).indexOf(request) === 2 ? undefined : apis[kind]?.reply(response, request);
  };
  upstream.answer(answer);

  const first = await start(env);
  const made = await call(first.url, ADMIN_KEY, "/api/v1/admin/users", { email: "killed@example.com", trial: false });
  const { key } = made.api_key;
  const grant = { amount_tokens: 100_000_000, source: "top_up" };
  await call(first.url, ADMIN_KEY, `/api/v1/admin/users/${made.user.id}/grants`, grant);
  const runs: string[] = [];
  for (const kind of NATIVE_KINDS) {
    const wanted = {
      name: kind,
      model_id: `native/${kind}`,
      run_prompt: `What colour is the door of ${site.url}/one ${site.url}/two ${site.url}/three ?`,
      tools_config: { web_fetch: { enabled: true, hosts: [site.host] } },
      model_settings: { reasoning_effort: "high" },
    };
    const agent = `/api/v1/agents/${(await call(first.url, key, "/api/v1/agents", wanted)).id}`;
    runs.push(`${agent}/runs/${(await call(first.url, key, `${agent}/runs`, {})).id}`);
  }
  await upstream.until(() => NATIVE_KINDS.every((kind) => callsOf(kind).length >= 3));
  await call(first.url, key, "/api/v1/agents", { name: "Other", model_id: "native/openai" });
  first.process.signal("SIGKILL");
  await first.process.ended;
  const db = await database.open();
  await db.query({ text: "update run set lease_until = now() where lease_until is not null" });
  await db.close();

  const second = await start(env);
  for (const run of runs) {
    await expect.poll(async () => (await call(second.url, key, run)).finished_at).not.toBeNull();
    const record = await call(second.url, key, run);
    expect(record).toMatchObject({ status: "succeeded", attempt: 2, output: "It is green.", steps_count: 7 });
    for (const { type, result } of record.steps) if (type === "model") expect(result.note).toBeUndefined();
  }
  // Four answers and the lost call.
  expect(NATIVE_KINDS.map((kind) => callsOf(kind).length)).toEqual([5, 5, 5]);
});

async function start(env: Record<string, string>): Promise<{ process: RunningProcess; url: string }> {
  const process = startProcess(env);
  running.push(process);
  return { process, url: await process.listening };
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads any field of the answer
async function call(url: string, key: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(`${url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.json();
}
