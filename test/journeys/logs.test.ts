import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ask, LAB_KEY, LAB_MODELS, labConfig } from "../support/lab.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, delta, events, hanging, json, startUpstream, type Upstream } from "../support/upstream.ts";
import { newMasterKey } from "../support/vault.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const MCP_MEDIA = "application/json, text/event-stream";
/** Text that callers and providers write. It may be in no line. */
const PRIVATE = "marzipan-of-the-caller";
/** An error that no code handles, on SIGHUP. Its stack has this text, so the message is put together. */
const THROWING = `--import=data:text/javascript,process.once('SIGHUP',()=>{throw(new(Error)(${PRIVATE.split("-")
  .map((word) => `'${word}'`)
  .join("+'-'+")}))})`;

let database: TestDatabase;
let upstream: Upstream;
let service: RunningProcess;
let url: string;
let user: { id: string; key: string };

beforeAll(async () => {
  [database, upstream] = await Promise.all([createTestDatabase(), startUpstream()]);
  const config = join(database.data_dir, "purser.json");
  writeFileSync(config, JSON.stringify(labConfig(upstream, LAB_MODELS, { concurrent_runs_per_user: 1 })));
  service = startProcess({
    PORT: "0",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: newMasterKey("k1"),
    PURSER_CONFIG: config,
    LOG_LEVEL: "trace",
    NODE_OPTIONS: THROWING,
    LAB_KEY,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  });
  url = await service.listening;
  const made = await send("POST", "/admin/users", { email: `${PRIVATE}@example.com` }, { key: ADMIN_KEY });
  user = { id: made.body.user.id, key: made.body.api_key.key };
});
afterAll(async () => {
  service.signal("SIGTERM");
  await service.ended;
  await upstream.close();
  await database.drop();
});

async function send(
  method: string,
  path: string,
  body?: unknown,
  { key = user.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
) {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}`, ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const request_id = response.headers.get("X-Request-Id");
  return { status: response.status, request_id, text, body: text.startsWith("{") ? JSON.parse(text) : null };
}

type Line = Record<string, unknown> & { msg: string };
const lines = (): Line[] =>
  service
    .stderr()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
const lineOf = async (request_id: string | null) => {
  const find = () => lines().find((line) => line.msg === "request" && line.request_id === request_id);
  await expect.poll(find).toBeDefined();
  return find();
};

const hasFields = (line: Omit<Line, "msg">, fields: object) =>
  Object.entries(fields).every(([name, value]) => line[name] === value);

test("every line has its node, its role and the version, and the first line is that of the start", async () => {
  const started = () => lines().find(({ msg }) => msg === "started");
  await expect.poll(started).toBeDefined();
  for (const line of lines()) {
    expect(line).toMatchObject({ node: expect.any(String), role: "all", version: expect.stringMatching(/^\d+\.\d+/) });
  }
  expect(started()).toMatchObject({
    storage: database.kind,
    models: expect.any(Number),
    url,
  });
});

test("a model call has one line with its user, route, model, provider, tokens and trace", async () => {
  upstream.answer(completion());
  const headers = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };
  const { request_id } = await send("POST", "/chat/completions", ask("lab/plain"), { headers });
  expect(await lineOf(request_id)).toMatchObject({
    user_id: user.id,
    trace_id: TRACE,
    method: "POST",
    route: "/api/v1/chat/completions",
    status: 200,
    ms: expect.any(Number),
    model: "lab/plain",
    provider: "lab",
    tokens: expect.any(Number),
    cost_tokens: expect.any(Number),
  });
  expect(lines().filter((line) => line.msg === "request" && line.request_id === request_id)).toHaveLength(1);
});

test.each([
  ["GET", "/agents/any", undefined, { Authorization: "Bearer wrong" }, "/api/v1/agents/{id}", 401],
  ["POST", "/agents", "{", {}, "/api/v1/agents", 400],
  ["POST", "/chat/completions", "{", {}, "/api/v1/chat/completions", 400],
  ["POST", "/responses", "{}", { Authorization: "Bearer wrong" }, "/api/v1/responses", 401],
  ["GET", "/nowhere", undefined, {}, "/api/v1/*", 404],
] as const)(
  "%s %s that is rejected before its endpoint has its route in the line",
  async (...[method, path, body, headers, route, status]) => {
    const { request_id } = await send(method, path, body, { headers });
    expect(await lineOf(request_id)).toMatchObject({ method, route, status });
  },
);

test("a stream has its line at its end, with its tokens", async () => {
  upstream.answer(events(delta("a word"), "data: [DONE]\n\n"));
  const { request_id } = await send("POST", "/chat/completions", ask("lab/plain", { stream: true }));
  expect(await lineOf(request_id)).toMatchObject({ status: 200, model: "lab/plain", tokens: expect.any(Number) });
});

test("a provider's error reaches the caller with its message, and the log with its status and code only", async () => {
  upstream.answer(json({ error: { message: `no ${PRIVATE} here`, code: "bad_prompt" } }, 400));
  const { request_id, body } = await send("POST", "/chat/completions", ask("lab/plain"));
  expect(body.error).toMatchObject({
    code: "invalid_value",
    param: null,
    metadata: { provider: { status: 400, code: "bad_prompt", message: `no ${PRIVATE} here` } },
  });
  const line = await lineOf(request_id);
  expect(line).toMatchObject({ status: 400, code: "invalid_value", provider_status: 400, provider_code: "bad_prompt" });
});

test("a stream whose provider disconnects has the code of its error event in its line", async () => {
  upstream.answer(events(delta("a word")));
  const { request_id, text } = await send("POST", "/chat/completions", ask("lab/plain", { stream: true }));
  expect(text).toContain('"code":"upstream_error"');
  expect(await lineOf(request_id)).toMatchObject({ status: 200, code: "upstream_error" });
});

test.each([
  ["/chat/completions", (model: string) => ask(model)],
  ["/responses", (model: string) => ({ model, input: "hello" })],
])("a broken stream of an agent as a model has its error code in its line: %s", async (path, bodyOf) => {
  const agent = await send("POST", "/agents", { name: "Breaking", model_id: "lab/plain" });
  upstream.answer(events(delta("a word")));
  const { request_id } = await send("POST", path, { ...bodyOf(`agent/${agent.body.id}`), stream: true });
  expect(await lineOf(request_id)).toMatchObject({ status: 200, code: "upstream_error" });
});

test.each(["sk-abcdefgh12345678", "user_1234567890", "a code of words", "A".repeat(30)])(
  "a provider's code with the shape of a key, an id or a text is not logged: %s",
  async (code) => {
    upstream.answer(json({ error: { message: "no", code } }, 400));
    const { request_id } = await send("POST", "/chat/completions", ask("lab/plain"));
    expect(await lineOf(request_id)).toMatchObject({ provider_status: 400, provider_code: null });
  },
);

test.each([false, true])("a chat with an agent has its model and its cost in its line (stream: %s)", async (stream) => {
  const agent = await send("POST", "/agents", { name: "Chatter", model_id: "lab/plain" });
  upstream.answer(completion());
  const messages = [{ role: "user", content: "hello" }];
  const { request_id } = await send("POST", `/agents/${agent.body.id}/chat`, { messages, stream });
  const cost = { tokens: expect.any(Number), cost_tokens: expect.any(Number) };
  expect(await lineOf(request_id)).toMatchObject({ model: "lab/plain", ...cost });
});

/** Each cancels a queued run in a separate transaction. `key` is the key that began the runs. */
const CANCELS: Record<string, (of: { key: string; key_id: string; user_id: string; agent_id: string }) => unknown> = {
  "agent is deactivated": ({ key, agent_id }) => send("PUT", `/agents/${agent_id}`, { is_active: false }, { key }),
  "agent is deleted": ({ key, agent_id }) => send("DELETE", `/agents/${agent_id}`, undefined, { key }),
  "key is revoked": ({ key, key_id }) => send("DELETE", `/api-keys/${key_id}`, undefined, { key }),
  "user is suspended": ({ user_id }) => send("POST", `/admin/users/${user_id}/suspend`, undefined, { key: ADMIN_KEY }),
  "user is erased": ({ user_id }) => send("DELETE", `/admin/users/${user_id}`, undefined, { key: ADMIN_KEY }),
};
test.each(Object.keys(CANCELS))("a queued run that is cancelled because its %s has one line", async (way) => {
  const made = await send("POST", "/admin/users", { email: `${newId()}@example.com` }, { key: ADMIN_KEY });
  const { key, id: key_id } = made.body.api_key;
  const user_id = made.body.user.id;
  const fields = { name: "Waiter", model_id: "lab/plain", run_prompt: "Go." };
  const [busy, waiting] = [
    await send("POST", "/agents", fields, { key }),
    await send("POST", "/agents", fields, { key }),
  ];
  upstream.answer(hanging());
  await send("POST", `/agents/${busy.body.id}/runs`, undefined, { key });
  const queued = await send("POST", `/agents/${waiting.body.id}/runs`, undefined, { key });
  expect(queued.body.status).toBe("queued");
  await CANCELS[way]?.({ key, key_id, user_id, agent_id: waiting.body.id });
  const find = () => lines().filter((line) => line.msg === "run" && line.run_id === queued.body.id);
  await expect
    .poll(find)
    .toMatchObject([{ user_id, agent_id: waiting.body.id, trigger: "manual", status: "cancelled" }]);
  await send("POST", `/admin/users/${user_id}/suspend`, undefined, { key: ADMIN_KEY });
  expect(find()).toHaveLength(1);
});

test("a run has a line at its end", async () => {
  const agent = await send("POST", "/agents", {
    name: PRIVATE,
    model_id: "lab/plain",
    system_prompt: PRIVATE,
    run_prompt: PRIVATE,
  });
  upstream.answer(completion());
  const run = await send("POST", `/agents/${agent.body.id}/runs`, undefined, { headers: { Prefer: "wait=20" } });
  const find = () => lines().find((line) => line.msg === "run" && line.run_id === run.body.id);
  await expect.poll(find).toBeDefined();
  expect(find()).toMatchObject({
    user_id: user.id,
    agent_id: agent.body.id,
    trigger: "manual",
    status: "succeeded",
    code: null,
    tokens: expect.any(Number),
  });
});

test("a failed call of a provider has a line with its request or its run, so that a failed run leads to its cause", async () => {
  const failuresOf = (caller: object) => () =>
    lines().filter(({ msg, ...line }) => msg === "a model's provider failed" && hasFields(line, caller));
  upstream.answer(json({ error: { message: "busy" } }, 500));
  const { request_id } = await send("POST", "/chat/completions", ask("lab/plain"));
  await expect.poll(failuresOf({ request_id, provider: "lab", model: "lab/plain" })).toHaveLength(1);

  const agent = await send("POST", "/agents", { name: "Failing", model_id: "lab/plain", run_prompt: "Go" });
  upstream.answer(json({ error: { message: "busy" } }, 500));
  const run = await send("POST", `/agents/${agent.body.id}/runs`, undefined, { headers: { Prefer: "wait=20" } });
  expect(run.body.error.code).toBe("model_unavailable");
  await expect.poll(failuresOf({ run_id: run.body.id, code: "upstream_error" })).not.toHaveLength(0);
});

test("an MCP server that cannot be used leaves a line without its name and its path, which may hold a key", async () => {
  const servers = [{ name: PRIVATE, url: `https://127.0.0.1:1/${PRIVATE}` }];
  const agent = await send("POST", "/agents", {
    name: "With a server",
    model_id: "lab/plain",
    run_prompt: "Hello?",
    tools_config: { mcp: { enabled: true, servers } },
  });
  expect(agent.status).toBe(201);
  upstream.answer(completion());
  const run = await send("POST", `/agents/${agent.body.id}/runs`, undefined, { headers: { Prefer: "wait=20" } });
  const find = () => lines().find(({ msg }) => msg === "an MCP server has no tools now");
  await expect.poll(find).toMatchObject({ run_id: run.body.id, code: "egress_refused" });
});

test("no line of any level contains text of callers or providers", async () => {
  await send("POST", "/secrets", { name: "TOKEN", description: PRIVATE, value: PRIVATE });
  await send("GET", `/agents/${PRIVATE}?limit=5&name=${PRIVATE}`);
  await send("GET", `/agents?name=${PRIVATE}%00`);
  await send("POST", "/chat/completions", `{"model": "${PRIVATE}", "messages": [${PRIVATE}`);
  await send("POST", "/chat/completions", ask(PRIVATE));
  await send("POST", "/agents", { name: PRIVATE, [PRIVATE]: 1 });
  await send("GET", `/${PRIVATE}`);
  await send("GET", "/models", undefined, { key: PRIVATE });
  const rpc = (message: object, params: object) =>
    send("POST", "/mcp", { jsonrpc: "2.0", id: 1, ...message, params }, { headers: { Accept: MCP_MEDIA } });
  const listed = await rpc({ method: "tools/call" }, { name: "list_runs", arguments: { agent: PRIVATE } });
  expect(listed.text).toContain("request_id");
  await rpc({ method: "tools/list", [PRIVATE]: PRIVATE }, { _meta: { [PRIVATE]: 1 }, cursor: [PRIVATE] });
  await rpc({ method: 1 }, { [PRIVATE]: PRIVATE });
  upstream.answer(json({ error: { message: PRIVATE, code: PRIVATE.repeat(9) } }, 500));
  const last = await send(
    "POST",
    "/chat/completions",
    ask("lab/plain", { messages: [{ role: "user", content: PRIVATE }] }),
  );
  await lineOf(last.request_id);
  for (const hidden of [PRIVATE, user.key, ADMIN_KEY, LAB_KEY]) {
    expect(service.stderr().includes(hidden), hidden).toBe(false);
  }
});

test("an error that no code handles ends the process with 1 and one line, without the error's message", async () => {
  service.signal("SIGHUP");
  expect((await service.ended).code).toBe(1);
  const last = lines().at(-1);
  expect(last).toMatchObject({ level: 60, msg: "an unexpected error ended the process", cause: "Error" });
  expect(service.stderr()).not.toContain(PRIVATE);
});
