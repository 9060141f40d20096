import OpenAI from "openai";
import { beforeEach, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, charges, settledBalance, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, delta, hanging, json } from "../support/upstream.ts";

// `model: "agent/{id}"` in chat completions (contract 4): each call is a chat run of the agent.

const CHAT = "/api/v1/chat/completions";
const GRANT = 100_000;
/** The cost on lab/plain: 10 tokens of input at 1 and 4 of output at 2. */
const COST = 18;

let user: Client;
let agent: string;
const lab = useLab();
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
  const fields = { name: "Sailor", model_id: "lab/plain", system_prompt: "You are a sailor." };
  agent = (await user.post("/api/v1/agents", fields)).body.id;
});

const named = (fields: Record<string, unknown> = {}) => ask(`agent/${agent}`, fields);
const runs = async () => (await user.get(`/api/v1/agents/${agent}/runs`)).body.runs;
const clientOf = (of: Client) => new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: of.key, maxRetries: 0 });

it("answers as the agent, in OpenAI's shape, and charges the run's model call once", async () => {
  const answer = await user.post(CHAT, named());
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({
    object: "chat.completion",
    choices: [{ message: { role: "assistant", content: "hello from upstream" }, finish_reason: "stop" }],
    usage: { input_tokens: 10, output_tokens: 4, cost_tokens: COST, prompt_tokens: 10, completion_tokens: 4 },
  });
  expect(lab.upstream.requests[0]?.body.messages).toEqual([
    { role: "system", content: "You are a sailor." },
    { role: "user", content: "hello" },
  ]);
  expect(await charges(user)).toMatchObject([{ amount: -COST, model: "lab/plain", agent_id: agent }]);
  expect(await settledBalance(user)).toBe(GRANT - COST);
  expect(await runs()).toMatchObject([
    { id: answer.body.run_id, trigger: "chat", status: "succeeded", usage: { cost_tokens: COST } },
  ]);
});

it("works with the official client, in one piece and as a stream with usage on its last chunk", async () => {
  const client = clientOf(user);
  const request = { model: `agent/${agent}`, messages: [{ role: "user" as const, content: "hello" }] };
  expect((await client.chat.completions.create(request)).choices[0]?.message.content).toBe("hello from upstream");
  let text = "";
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  expect([text, usage]).toMatchObject(["hello from upstream", { prompt_tokens: 10, cost_tokens: COST }]);
  expect(await client.chat.completions.stream(request).finalContent()).toBe("hello from upstream");
  expect(await settledBalance(user)).toBe(GRANT - 3 * COST);
});

it("shows the routing of an agent with auto_route", async () => {
  await user.request("PUT", `/api/v1/agents/${agent}`, { auto_route: true });
  const { body } = await user.post(CHAT, named());
  expect(body.routing).toMatchObject({ chosen: body.model, candidates: expect.arrayContaining([body.model]) });
  const all = await (await openStream(lab.service, user, named())).rest();
  expect(JSON.parse(all.at(-2) ?? "").routing).toMatchObject({ chosen: body.model });
  expect((await runs())[0].routing).toMatchObject({ chosen: body.model });
});

it("does not exist for other users, nor without its agent", async () => {
  const stranger = await lab.service.newUser({ trial: false, tokens: GRANT });
  for (const [caller, model] of [
    [stranger, `agent/${agent}`],
    [user, "agent/01a1fb38-cd91-7744-9751-59e8c216957f"],
    [user, "agent/"],
    [user, "agent/../secrets"],
  ] as const) {
    const { status, body } = await caller.post(CHAT, ask(model));
    expect([status, body.error.code, body.error.param]).toEqual([404, "model_not_found", "model"]);
  }
  expect(lab.upstream.requests).toEqual([]);
});

it("needs only the scope chat:write, like the agent's own chat", async () => {
  const keyWith = async (...scopes: string[]) =>
    lab.service.as((await user.post("/api/v1/api-keys", { name: "k", scopes })).body.key);
  const [chatting, managing] = await Promise.all([keyWith("chat:write"), keyWith("agents:read", "agents:write")]);
  const own_chat = `/api/v1/agents/${agent}/chat`;
  const messages = [{ role: "user", content: "hello" }];
  for (const [path, body] of [
    [CHAT, named()],
    [own_chat, { messages }],
  ] as const) {
    expect((await chatting.post(path, body)).status).toBe(200);
    const refused = await managing.post(path, body);
    expect([refused.status, refused.body.error.code]).toEqual([403, "insufficient_scope"]);
    expect(refused.body.error.message).toContain("chat:write");
  }
});

it("answers 409 for a disabled agent and 402 without tokens, and starts no run", async () => {
  const poor = await lab.service.newUser({ trial: false });
  const made = await poor.post("/api/v1/agents", { name: "a", model_id: "lab/plain" });
  const refused = await poor.post(CHAT, ask(`agent/${made.body.id}`));
  expect([refused.status, refused.body.error.code]).toEqual([402, "out_of_tokens"]);
  await user.request("PUT", `/api/v1/agents/${agent}`, { is_active: false });
  for (const fields of [{}, { stream: true }]) {
    const disabled = await user.post(CHAT, named(fields));
    expect([disabled.status, disabled.body.error.code]).toEqual([409, "agent_disabled"]);
  }
  expect(lab.upstream.requests).toEqual([]);
});

it.each([
  ["two answers", { n: 2 }, "n"],
  [
    "a picture",
    {
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] }],
    },
    "messages[0].content[0]",
  ],
])("rejects fields that an agent does not support: %s", async (_, fields, param) => {
  const { status, body } = await user.post(CHAT, named(fields));
  expect([status, body.error.param]).toEqual([400, param]);
});

it("ignores a client's tools, so that coding clients can use an agent", async () => {
  const tools = [{ type: "function", function: { name: "shell" } }];
  const { status, body } = await user.post(CHAT, named({ tools, tool_choice: "auto" }));
  expect([status, body.choices[0].finish_reason]).toEqual([200, "stop"]);
  expect(lab.upstream.requests.at(-1)?.body.tools ?? []).not.toContainEqual(tools[0]);
});

it("a caller that disconnects from a stream cancels the run and pays for its output so far", async () => {
  lab.upstream.answer(hanging(delta("some words of an answer")));
  const stream = await openStream(lab.service, user, named());
  await stream.next();
  await stream.next();
  stream.hangUp();
  await expect.poll(async () => (await runs())[0].status, { interval: 20 }).toBe("cancelled");
  await lab.upstream.until(() => lab.upstream.hangUps > 0);
  expect(await settledBalance(user)).toBeLessThan(GRANT);
});

it("a caller that disconnects from an answer without streaming cancels the run", async () => {
  lab.upstream.answer(hanging(delta("some words")));
  const caller = new AbortController();
  const options = { method: "POST", body: JSON.stringify(named()), signal: caller.signal };
  const headers = { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" };
  const gone = fetch(`${lab.service.url}${CHAT}`, { ...options, headers }).catch(() => "gone");
  await lab.upstream.until(() => lab.upstream.requests.length > 0);
  caller.abort();
  expect(await gone).toBe("gone");
  await expect.poll(async () => (await runs())[0].status, { interval: 20 }).toBe("cancelled");
});

it("a call that is repeated with its Idempotency-Key is one run", async () => {
  const once = { "Idempotency-Key": "once" };
  const first = await user.post(CHAT, named(), once);
  const again = await user.post(CHAT, named(), once);
  expect([again.headers.get("idempotent-replayed"), again.body]).toEqual(["true", first.body]);
  expect(await runs()).toHaveLength(1);
});

it("an agent's failing model is reported as such and charges nothing", async () => {
  lab.upstream.answer(json({ error: { message: "bad", param: "temperature" } }, 400));
  const { status } = await user.post(CHAT, named());
  expect(status).toBeGreaterThanOrEqual(400);
  expect(await settledBalance(user)).toBe(GRANT);
});

it("is in the caller's list of models with its name, unless it is disabled or the key may not call it", async () => {
  const listed = async (caller: Pick<Client, "get">) =>
    (await caller.get("/api/v1/models")).body.data.filter(({ kind }: { kind: string }) => kind === "agent");
  const [entry] = await listed(user);
  expect(entry).toMatchObject({ id: `agent/${agent}`, object: "model", supports: { tools: false } });
  expect(entry.name).toBe((await user.get(`/api/v1/agents/${agent}`)).body.name);
  expect((await user.get(`/api/v1/models/agent/${agent}`)).body).toEqual(entry);
  const { key } = (await user.post("/api/v1/api-keys", { name: "k", scopes: ["billing:read"] })).body;
  expect(await listed(lab.service.as(key))).toEqual([]);
  expect(await listed(await lab.service.newUser())).toEqual([]);
  await user.request("PUT", `/api/v1/agents/${agent}`, { is_active: false });
  expect(await listed(user)).toEqual([]);
});

it.each([
  [CHAT, (text: string) => ({ messages: [{ role: "user", content: text }] }), "messages[0].content"],
  ["/api/v1/responses", (text: string) => ({ input: text }), "input"],
  [
    "/api/v1/messages",
    (text: string) => ({ max_tokens: 100, messages: [{ role: "user", content: text }] }),
    "messages[0].content",
  ],
])("%s: text that PostgreSQL cannot store is 400 and names its field", async (path, bodyOf, param) => {
  for (const text of ["a\u0000b", "\ud800"]) {
    const answer = await user.post(path, { model: `agent/${agent}`, ...bodyOf(text) });
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([400, "invalid_value", param]);
  }
  expect(await runs()).toEqual([]);
});

it.each(["as a model", "by its chat"])(
  "the stream of a caller whose key is revoked names that, and not the run that ends with it: %s",
  async (way) => {
    const { body: key } = await user.post("/api/v1/api-keys", { name: "short", scopes: ["chat:write"] });
    lab.upstream.answer(hanging(delta("some words")));
    const body = way === "as a model" ? named({ stream: true }) : { ...ask("x"), model: undefined, stream: true };
    const path = way === "as a model" ? CHAT : `/api/v1/agents/${agent}/chat`;
    const response = await fetch(`${lab.service.url}${path}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key.key}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    await user.request("DELETE", `/api/v1/api-keys/${key.id}`);
    const text = await response.text();
    expect(text).toContain("some words");
    expect(text).toContain("revoked_api_key");
    expect(text).not.toContain("run_cancelled");
  },
);
