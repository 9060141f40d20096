import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LAB_MODELS, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// Errors that say what to do, and small requests that people send and that should work.

let lab: Lab;
let user: Client;
beforeAll(async () => {
  const vision = { id: "lab/vision", input_rate: 1, output_rate: 2, supports: { vision: true, tools: true } };
  lab = await startLab([...LAB_MODELS, vision]);
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
});
afterAll(() => lab.stop());
const HELLO = [{ role: "user", content: "hello" }];
const WAIT = { Prefer: "wait=30" };

describe("an error says what was meant", () => {
  it.each<[string, string, object, string]>([
    [
      "a misspelt field of a model call",
      "/api/v1/chat/completions",
      { model: "lab/plain", messages: HELLO, max_token: 5 },
      "max_tokens",
    ],
    [
      "OpenAI's newer name of a field of a chat completion",
      "/api/v1/chat/completions",
      { model: "lab/plain", messages: HELLO, max_output_tokens: 5 },
      "send max_completion_tokens",
    ],
    [
      "Anthropic's name of a field of a chat completion",
      "/api/v1/chat/completions",
      { model: "lab/plain", messages: HELLO, stop_sequences: ["a"] },
      "send stop",
    ],
    [
      "a chat completion that is to be stored",
      "/api/v1/chat/completions",
      { model: "lab/plain", messages: HELLO, store: true },
      "POST /api/v1/responses",
    ],
    [
      "a misspelt field that is required",
      "/api/v1/messages",
      { model: "lab/plain", messages: HELLO, max_token: 5 },
      "max_token is no field: did you mean max_tokens?",
    ],
    [
      "a field of chat completions in a response",
      "/api/v1/responses",
      { model: "lab/plain", input: "hello", max_tokens: 5 },
      "send max_output_tokens",
    ],
    [
      "a field of chat completions in a message",
      "/api/v1/messages",
      { model: "lab/plain", messages: HELLO, max_tokens: 5, stop: ["a"] },
      "send stop_sequences",
    ],
    ["a misspelt field of an agent", "/api/v1/agents", { name: "a", model: "x" }, "model_id"],
    [
      "an unknown tool",
      "/api/v1/agents",
      { name: "a", auto_route: true, tools_config: { web_search: { enabled: true } } },
      "Known here: web_fetch,",
    ],
    [
      "a schedule without a prompt",
      "/api/v1/agents",
      { name: "a", auto_route: true, schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" },
      "run_prompt is required",
    ],
  ])("%s", async (_, path, body, words) => {
    const answer = await user.post(path, body);
    expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringContaining(words)]);
  });
});

it("an agent as a model says where threads are", async () => {
  const { id } = (await user.post("/api/v1/agents", { name: "a", model_id: "lab/plain" })).body;
  const answer = await user.post("/api/v1/chat/completions", { model: `agent/${id}`, messages: HELLO, thread_id: "t" });
  expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringContaining("/chat")]);
});

it("model_id auto is automatic routing", async () => {
  const { body } = await user.post("/api/v1/agents", { name: "a", model_id: "auto" });
  expect([body.auto_route, body.model_id]).toEqual([true, null]);
  const changed = await user.post("/api/v1/agents", { name: "b", model_id: "lab/plain" });
  const put = await user.request("PUT", `/api/v1/agents/${changed.body.id}`, { model_id: "auto" });
  expect([put.body.auto_route, put.body.model_id]).toEqual([true, null]);
});

it("a run-now without a run prompt says where to set it, and takes it for this run", async () => {
  const { id } = (await user.post("/api/v1/agents", { name: "a", model_id: "lab/plain" })).body;
  const without = await user.post(`/api/v1/agents/${id}/runs`);
  expect([without.status, without.body.error.message]).toEqual([
    400,
    expect.stringContaining("PUT /api/v1/agents/{id}"),
  ]);
  lab.upstream.answer(completion("done"));
  const run = await user.post(`/api/v1/agents/${id}/runs`, { run_prompt: "Say done" }, WAIT);
  expect(run.body).toMatchObject({ status: "succeeded", output: "done" });
  expect(lab.upstream.requests.at(-1)?.body.messages.at(-1)).toEqual({ role: "user", content: "Say done" });
});

describe("query parameters", () => {
  it.each([
    ["/api/v1/agents?limt=5", "limit"],
    ["/api/v1/users/me/transactions?form=2026-01-01", "from"],
    ["/api/v1/users/me?verbose=1", "verbose"],
    ["/api/v1/secrets?page=2", "page"],
  ])("%s is 400 and names it", async (path, word) => {
    const { status, body } = await user.get(path);
    expect([status, body.error.code, body.error.message]).toEqual([
      400,
      "unknown_parameter",
      expect.stringContaining(word),
    ]);
  });
  it("that clients add to every address are accepted", async () => {
    const { status } = await user.post("/api/v1/messages?beta=true", {
      model: "lab/plain",
      messages: HELLO,
      max_tokens: 9,
    });
    expect(status).toBe(200);
    expect((await user.get("/api/v1/models?limit=1000")).status).toBe(200);
  });
});

it("a PUT of one field of an end user's budget keeps the others", async () => {
  const path = "/api/v1/end-user-budgets/ada";
  expect((await user.request("PUT", path, { budget_interval: "day" })).body.error.param).toBe("budget_tokens");
  await user.request("PUT", path, { budget_tokens: 500, budget_interval: "month" });
  expect((await user.request("PUT", path, { budget_tokens: 700 })).body).toMatchObject({
    budget_tokens: 700,
    budget_interval: "month",
  });
  expect((await user.request("PUT", path, { budget_interval: null })).body).toMatchObject({
    budget_tokens: 700,
    budget_interval: null,
  });
});

it("a call that only other calls in flight keep from being paid is repeated by the openai client", async () => {
  const owner = await lab.service.newUser({ trial: false, tokens: 1_000 });
  const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: owner.key, maxRetries: 3 });
  const ask = () =>
    client.chat.completions.create({
      model: "lab/plain",
      messages: [{ role: "user", content: "hi" }],
      max_tokens: 300,
    });
  const blocked = Promise.withResolvers<void>();
  lab.upstream.answer(async (response, request) => {
    await blocked.promise;
    await completion("first")(response, request);
  }, completion("second"));
  const sent = lab.upstream.requests.length;
  const first = ask();
  await lab.upstream.until(() => lab.upstream.requests.length === sent + 1);
  const refused = await fetch(`${lab.service.url}/api/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${owner.key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ model: "lab/plain", messages: HELLO, max_tokens: 300 }),
  });
  const { error } = (await refused.json()) as { error: { code: string } };
  expect([refused.status, error.code, refused.headers.get("X-Should-Retry")]).toEqual([
    402,
    "in_flight_exhausted",
    "true",
  ]);
  const second = ask();
  blocked.resolve();
  expect((await first).choices[0]?.message.content).toBe("first");
  expect((await second).choices[0]?.message.content).toBe("second");
});

describe("secrets of tools", () => {
  it("a binding outside the secret's allowed_hosts is 400 when the agent is saved", async () => {
    await user.post("/api/v1/secrets", {
      name: "narrow",
      value: "a-long-enough-value",
      allowed_hosts: ["api.example.com"],
    });
    const bound = (hosts: string[]) => {
      const auth = [{ secret: "narrow", hosts, inject: { type: "bearer" } }];
      return user.post("/api/v1/agents", {
        name: "a",
        auto_route: true,
        tools_config: { web_fetch: { enabled: true, auth } },
      });
    };
    const outside = await bound(["other.example.com"]);
    expect([outside.status, outside.body.error.param]).toEqual([400, "tools_config.web_fetch.auth[0].secret"]);
    expect(outside.body.error.message).toContain("api.example.com");
    expect((await bound(["api.example.com"])).status).toBe(201);
  });
});

describe("agent chat", () => {
  const PICTURE =
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const withPicture = [
    {
      role: "user",
      content: [
        { type: "text", text: "what?" },
        { type: "image_url", image_url: { url: PICTURE } },
      ],
    },
  ];
  const chat = async (model_id: string, body: object) => {
    const { id } = (await user.post("/api/v1/agents", { name: "a", model_id })).body;
    return user.post(`/api/v1/agents/${id}/chat`, body);
  };
  it("takes user and metadata, by which usage is summed", async () => {
    lab.upstream.answer(completion());
    expect((await chat("lab/plain", { messages: HELLO, user: "ada", metadata: { project: "p1" } })).status).toBe(200);
    const { groups } = (await user.get("/api/v1/users/me/usage?group_by=user")).body;
    expect(groups).toContainEqual(expect.objectContaining({ value: "ada", requests: 1 }));
  });
  it("takes pictures where the model reads them, and says so where it does not", async () => {
    const blind = await chat("lab/plain", { messages: withPicture });
    expect([blind.status, blind.body.error.param]).toEqual([400, "messages[0].content[1]"]);
    lab.upstream.answer(completion("a dot"));
    const seen = await chat("lab/vision", { messages: withPicture });
    expect([seen.status, seen.body.choices?.[0].message.content]).toEqual([200, "a dot"]);
    const sent = JSON.stringify(lab.upstream.requests.at(-1)?.body.messages);
    expect(sent).toContain(PICTURE);
  });
});
