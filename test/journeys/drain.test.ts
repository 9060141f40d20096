import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { ask, LAB_KEY, LAB_MODELS, labConfig } from "../support/lab.ts";
import { startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, delta, event, hanging, startUpstream } from "../support/upstream.ts";
import { newMasterKey } from "../support/vault.ts";

const messages = [{ role: "user", content: "Hello?" }];
const MODEL = "lab/plain";
const VECTORS = { id: "lab/vectors", kind: "embedding", input_rate: 1, output_rate: 0 };
/** A call by its path and body, and the last event of its stream in the shape of its API. */
const streams: Record<string, { path: string; body: object; last: RegExp }> = {
  "a chat completion": {
    path: "/chat/completions",
    body: ask(MODEL, { stream: true }),
    last: /data: \{"error":\{"type":"api_error","code":"overloaded"/,
  },
  "a response": {
    path: "/responses",
    body: { model: MODEL, input: "Hello?", stream: true },
    last: /event: response\.failed\ndata: .*"code":"server_error","message":"This node stops/,
  },
  "a message": {
    path: "/messages",
    body: { model: MODEL, messages, max_tokens: 100, stream: true },
    last: /event: error\ndata: \{"type":"error","error":\{"type":"(overloaded_error|api_error)"/,
  },
  "a chat with an agent": {
    path: "/agents/AGENT/chat",
    body: { messages, stream: true },
    last: /data: \{"error":\{"type":"api_error","code":"overloaded"/,
  },
};

test("calls that outlast PURSER_DRAIN_SECONDS end with an error in their shape, a second SIGTERM changes nothing, and holds are settled", {
  timeout: 120_000,
}, async () => {
  const [database, upstream] = await Promise.all([createTestDatabase(), startUpstream()]);
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream, [...LAB_MODELS, VECTORS])));
  const env = {
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: newMasterKey("k1"),
    PURSER_CONFIG: config,
    PURSER_DRAIN_SECONDS: "3",
    LAB_KEY,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  const role = event({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] });
  upstream.answer(hanging(role, delta("a few words")));
  const service = startProcess(env);
  const url = await service.listening;
  const send = (key: string, path: string, body?: object) =>
    fetch(`${url}/api/v1${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const made = await (await send(ADMIN_KEY, "/admin/users", { email: "user@example.com" })).json();
  const key: string = made.api_key.key;
  const agent = await (await send(key, "/agents", { name: "Scout", model_id: MODEL, run_prompt: "Look" })).json();

  const opened = await Promise.all(
    Object.entries(streams).map(async ([name, { path, body, last }]) => {
      const response = await send(key, path.replace("AGENT", agent.id), body);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const first = new TextDecoder().decode((await reader.read()).value);
      return { name, reader, first, last };
    }),
  );
  const whole = [
    send(key, "/chat/completions", ask(MODEL)),
    send(key, "/embeddings", { model: VECTORS.id, input: "one two three" }),
  ];
  await expect.poll(() => upstream.requests.length).toBe(opened.length + whole.length);
  service.signal("SIGTERM");
  service.signal("SIGTERM");
  for (const { name, reader, first, last } of opened) {
    const decoder = new TextDecoder();
    let text = first;
    for (let read = await reader.read(); !read.done; read = await reader.read()) text += decoder.decode(read.value);
    expect.soft(text, name).toMatch(last);
  }
  for (const answer of await Promise.all(whole)) {
    expect([answer.status, (await answer.json()).error.code]).toEqual([503, "overloaded"]);
  }
  expect(await service.ended).toMatchObject({ code: 0 });

  const db = await database.open();
  expect(await db.query({ text: "select count(*)::int as open from hold" })).toEqual([{ open: 0 }]);
  const asked = await db.query({
    text: "select input_tokens::int from usage_event where model = $1",
    values: [VECTORS.id],
  });
  expect(asked).toEqual([{ input_tokens: 4 }]);
  await db.close();
  await upstream.close();
  await database.drop();
});

test("for PURSER_LAME_DUCK_SECONDS a stopping node is not ready and serves everything; then it closes its listener", async () => {
  const [database, upstream] = await Promise.all([createTestDatabase(), startUpstream()]);
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream)));
  const service = startProcess({
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: newMasterKey("k1"),
    PURSER_CONFIG: config,
    PURSER_LAME_DUCK_SECONDS: "4",
    LAB_KEY,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  });
  const url = await service.listening;
  /** On a connection of its own, as a new caller has. */
  const send = async (key: string, path: string, body?: object) => {
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${key}`, Connection: "close" };
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const answer = await fetch(url + path, { headers, ...sent });
    return { status: answer.status, body: await answer.json() };
  };
  const made = await send(ADMIN_KEY, "/api/v1/admin/users", { email: "user@example.com" });
  const key: string = made.body.api_key.key;
  const agent = { name: "Scout", model_id: MODEL, run_prompt: "Look" };
  const { id } = (await send(key, "/api/v1/agents", agent)).body;
  upstream.answer(completion("Here."));
  const began_ms = performance.now();
  service.signal("SIGTERM");
  await expect
    .poll(async () => (await send(key, "/readyz")).body, { interval: 20 })
    .toMatchObject({ reason: "stopping" });
  expect((await send(key, "/livez")).status).toBe(200);
  expect((await send(key, "/api/v1/chat/completions", ask(MODEL))).status).toBe(200);
  const turn = await send(key, `/api/v1/agents/${id}/chat`, { messages });
  expect([turn.status, turn.body.choices[0].message.content]).toEqual([200, "Here."]);
  await expect
    .poll(() => send(key, "/livez").catch((error: Error) => (error.cause as { code?: string }).code), { interval: 20 })
    .toBe("ECONNREFUSED");
  expect(performance.now() - began_ms).toBeGreaterThan(3_900);
  expect(await service.ended).toMatchObject({ code: 0 });
  await upstream.close();
  await database.drop();
});
