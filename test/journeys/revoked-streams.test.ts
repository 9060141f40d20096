import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ask, LAB_KEY, labConfig } from "../support/lab.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { delta, event, hanging, startUpstream, type Upstream } from "../support/upstream.ts";
import { newMasterKey } from "../support/vault.ts";

// Two service processes over one PostgreSQL; embedded storage has one process, which plays both. A caller's key or user is
// revoked, suspended or erased on one node while the other node streams to the caller.

const WITHIN_MS = 1000;

let database: TestDatabase;
let upstream: Upstream;
const processes: RunningProcess[] = [];
let here: string;
let there: string;
beforeAll(async () => {
  [database, upstream] = await Promise.all([createTestDatabase(), startUpstream()]);
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  const env: Record<string, string> = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: newMasterKey("k1"),
    PURSER_CONFIG: config,
    LAB_KEY,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const count = database.kind === "postgres" ? 2 : 1;
  for (let n = 0; n < count; n += 1) processes.push(startProcess(env));
  const urls = await Promise.all(processes.map(({ listening }) => listening));
  [here = "", there = here] = urls;
});
afterAll(async () => {
  expect((await call(here, ADMIN_KEY, "GET", "/admin/audit")).body).toMatchObject({ ok: true });
  for (const each of processes) each.signal("SIGKILL");
  await Promise.all(processes.map(({ ended }) => ended));
  await upstream.close();
  await database.drop();
});
beforeEach(() => {
  const role = event({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] });
  upstream.answer(hanging(role, delta("a few words")));
});

function send(url: string, key: string, method: string, path: string, body?: object) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${key}` };
  return fetch(`${url}/api/v1${path}`, { method, headers, body: body ? JSON.stringify(body) : null });
}
async function call(url: string, key: string, method: string, path: string, body?: object) {
  const response = await send(url, key, method, path, body);
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: a test reads any field
  const answer: any = text === "" ? null : JSON.parse(text);
  return { status: response.status, body: answer };
}

let sequence = 0;
/** A user with an agent. The user's second key calls the other node. */
async function doomedCaller() {
  sequence += 1;
  const email = `user${sequence}@example.com`;
  const { user, api_key } = (await call(here, ADMIN_KEY, "POST", "/admin/users", { email })).body;
  const { id, key } = (await call(here, api_key.key, "POST", "/api-keys", { name: "doomed" })).body;
  const wanted = { name: "Scout", model_id: "lab/plain", run_prompt: "Look around" };
  const agent = (await call(here, key, "POST", "/agents", wanted)).body;
  return { user_id: user.id as string, own: api_key.key as string, key_id: id as string, key, agent_id: agent.id };
}
type Doomed = Awaited<ReturnType<typeof doomedCaller>>;

const messages = [{ role: "user", content: "Hello?" }];
const streams: Record<string, (doomed: Doomed) => Promise<Response>> = {
  "a chat completion": ({ key }) => send(there, key, "POST", "/chat/completions", ask("lab/plain", { stream: true })),
  "a chat with an agent": ({ key, agent_id }) =>
    send(there, key, "POST", `/agents/${agent_id}/chat`, { messages, stream: true }),
  "a chat that continues without its caller": ({ key, agent_id }) =>
    send(there, key, "POST", `/agents/${agent_id}/chat`, { messages, stream: true, on_disconnect: "continue" }),
  "an agent as a model": ({ key, agent_id }) =>
    send(there, key, "POST", "/chat/completions", ask(`agent/${agent_id}`, { stream: true })),
  "a run's events": async ({ key, agent_id }) => {
    const run = (await call(there, key, "POST", `/agents/${agent_id}/runs`)).body;
    return send(there, key, "GET", `/agents/${agent_id}/runs/${run.id}/events`);
  },
};
const ends: Record<string, [string, (doomed: Doomed) => Promise<unknown>]> = {
  "its key revoked": ["revoked_api_key", ({ own, key_id }) => call(here, own, "DELETE", `/api-keys/${key_id}`)],
  "its user suspended": [
    "account_suspended",
    ({ user_id }) => call(here, ADMIN_KEY, "POST", `/admin/users/${user_id}/suspend`),
  ],
  "its user erased": ["invalid_api_key", ({ user_id }) => call(here, ADMIN_KEY, "DELETE", `/admin/users/${user_id}`)],
};
const cases = Object.keys(streams).flatMap((stream) => Object.keys(ends).map((end) => [stream, end] as const));

describe("a stream to a caller who has lost access", () => {
  test.each(cases)(
    "%s ends with an error event within a second, %s on another node",
    { retry: 2 },
    async (stream, end) => {
      const doomed = await doomedCaller();
      const response = (await streams[stream]?.(doomed)) as Response;
      expect(response.status).toBe(200);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const decoder = new TextDecoder();
      let text = decoder.decode((await reader.read()).value);
      const [code, carryOut] = ends[end] ?? ["", async () => {}];
      await carryOut(doomed);
      const since = performance.now();
      for (let read = await reader.read(); !read.done; read = await reader.read()) text += decoder.decode(read.value);
      const ended_ms = performance.now() - since;
      expect(text.trim().split("\n").at(-1)).toContain(`"code":"${code}"`);
      expect(ended_ms).toBeLessThan(WITHIN_MS);
    },
  );

  test("is cancelled upstream if it is a chat completion, and its output so far is charged", async () => {
    const doomed = await doomedCaller();
    const response = (await streams["a chat completion"]?.(doomed)) as Response;
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    const before = upstream.hangUps;
    await call(here, doomed.own, "DELETE", `/api-keys/${doomed.key_id}`);
    await upstream.until(() => upstream.hangUps > before);
    const balance = async () => (await call(here, doomed.own, "GET", "/users/me")).body.balance;
    await expect.poll(async () => (await balance()).held).toBe(0);
    expect((await balance()).available).toBeLessThan(625_000);
  });

  test("answers with the rejection before the first output, also without streaming, and is cancelled upstream", async () => {
    upstream.answer(hanging());
    const in_one_piece = ({ key, agent_id }: Doomed) =>
      send(there, key, "POST", `/agents/${agent_id}/chat`, { messages });
    const names = ["a chat completion", "a chat that continues without its caller", "an agent as a model"];
    for (const [stream, ask_for] of [...names.map((name) => [name, streams[name]] as const), ["chat", in_one_piece]]) {
      const doomed = await doomedCaller();
      const asked = upstream.requests.length;
      const answer = (ask_for as typeof in_one_piece)(doomed);
      await upstream.until(() => upstream.requests.length > asked);
      await call(here, doomed.own, "DELETE", `/api-keys/${doomed.key_id}`);
      const response = await answer;
      expect([stream, response.status]).toEqual([stream, 401]);
      expect((await response.json()).error.code).toBe("revoked_api_key");
    }
  });
});

describe("runs that a stolen key started", () => {
  const runsOf = async ({ own, agent_id }: Doomed) =>
    (await call(here, own, "GET", `/agents/${agent_id}/runs`)).body.runs;
  const statuses = async (doomed: Doomed) => (await runsOf(doomed)).map(({ status }: { status: string }) => status);

  test("end with the reason when another node revokes the key, running and queued ones; runs of other keys continue", async () => {
    const doomed = await doomedCaller();
    const { own, key, key_id, agent_id } = doomed;
    const kept = (await call(there, own, "POST", `/agents/${agent_id}/runs`)).body;
    const begun = upstream.requests.length;
    // At most ten runs of a user execute at the same time.
    for (let n = 0; n < 11; n += 1) {
      expect((await call(there, key, "POST", `/agents/${agent_id}/runs`)).status).toBe(202);
    }
    await upstream.until(() => upstream.requests.length >= begun + 9);
    await expect.poll(async () => new Set(await statuses(doomed))).toEqual(new Set(["queued", "running"]));
    expect((await call(here, own, "DELETE", `/api-keys/${key_id}`)).status).toBe(204);
    await expect.poll(async () => (await statuses(doomed)).sort()).toEqual([...Array(11).fill("cancelled"), "running"]);
    for (const run of await runsOf(doomed)) {
      if (run.id === kept.id) expect(run).toMatchObject({ status: "running", error: null });
      else expect(run.error).toMatchObject({ code: "key_revoked", message: expect.stringContaining("was revoked") });
    }
    const { notices } = (await call(here, own, "GET", "/notices")).body;
    expect(notices.filter(({ event: name }: { event: string }) => name === "run.failed")).toEqual([]);
    await call(here, own, "POST", `/agents/${agent_id}/runs/${kept.id}/cancel`);
    await expect.poll(() => statuses(doomed)).toEqual(Array(12).fill("cancelled"));
  });

  test("end also if they are chats whose caller has disconnected", async () => {
    const doomed = await doomedCaller();
    const { own, key, key_id, agent_id } = doomed;
    const caller = new AbortController();
    const asked = upstream.requests.length;
    const body = JSON.stringify({ messages, stream: true, on_disconnect: "continue" });
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${key}` };
    const url = `${there}/api/v1/agents/${agent_id}/chat`;
    fetch(url, { method: "POST", headers, body, signal: caller.signal }).catch(() => {});
    await upstream.until(() => upstream.requests.length > asked);
    caller.abort();
    expect(await statuses(doomed)).toEqual(["running"]);
    await call(here, own, "DELETE", `/api-keys/${key_id}`);
    await expect.poll(() => statuses(doomed)).toEqual(["cancelled"]);
    expect((await runsOf(doomed))[0].error.code).toBe("key_revoked");
  });
});
