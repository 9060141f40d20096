import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";
import {
  completion,
  cut,
  delta,
  events,
  hanging,
  json,
  startUpstream,
  stream,
  type Upstream,
} from "../support/upstream.ts";

const CHAT = "/api/v1/chat/completions";
const HELLO = { model: "lab/small", messages: [{ role: "user", content: "hello" }] };
/** One million tokens: enough for whatever is not about running out. */
const PLENTY = 1_000_000;

let upstream: Upstream;
let second: Upstream;
let service: Service;
let user: Client;

const modelOf = (id: string, fields: Record<string, unknown> = {}) => ({
  id,
  provider: "lab",
  provider_model: "fake-large",
  input_rate: 0.25,
  output_rate: 1.25,
  trial_eligible: true,
  context_window: 128_000,
  max_output_tokens: 4_096,
  supports: { tools: true },
  ...fields,
});

beforeAll(async () => {
  upstream = await startUpstream();
  second = await startUpstream();
  service = await startService({
    env: { LAB_KEY: "key-of-lab" },
    config: {
      providers: [
        { name: "lab", kind: "openai-compatible", base_url: upstream.url, api_key_env: "LAB_KEY" },
        { name: "spare", kind: "openai-compatible", base_url: second.url },
      ],
      models: [
        modelOf("lab/small"),
        modelOf("lab/uneven", { input_rate: 0.333333, output_rate: 1.000001 }),
        modelOf("lab/large", { input_rate: 2, output_rate: 10, trial_eligible: false }),
        modelOf("spare/small", { provider: "spare", input_rate: 0.3, output_rate: 1.3, trial_eligible: false }),
      ],
    },
  });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
  await second.close();
});
beforeEach(async () => {
  user = await service.newUser({ trial: false, tokens: PLENTY });
  upstream.requests.length = 0;
  upstream.hangUps = 0;
  upstream.answer(completion());
  second.answer(completion("from the spare one"));
});

const balance = async (of: Client = user) => (await of.get("/api/v1/users/me")).body.balance;
/** The balance once nothing is held: a charge may come a moment after the caller has gone. */
async function settledBalance(): Promise<{ posted: number; available: number }> {
  return expect
    .poll(() => balance(), { timeout: 10_000 })
    .toMatchObject({ held: 0 })
    .then(() => balance());
}
const sse = (body: string) =>
  body
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)));

describe("a completion (contract 4)", () => {
  it("is answered, counted by the provider and charged exactly", async () => {
    const { status, body } = await user.post(CHAT, HELLO);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      object: "chat.completion",
      model: "lab/small",
      choices: [{ message: { role: "assistant", content: "hello from upstream" }, finish_reason: "stop" }],
    });
    // 10 × 0.25 + 4 × 1.25 = 7.5, rounded up once
    expect(body.usage).toEqual({
      input_tokens: 10,
      output_tokens: 4,
      total_tokens: 14,
      cost_tokens: 8,
      prompt_tokens: 10,
      completion_tokens: 4,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
    expect(await balance()).toMatchObject({ posted: PLENTY - 8, held: 0, available: PLENTY - 8 });
  });

  it("is priced exactly at odd rates, with one rounding", async () => {
    upstream.answer(completion("x", { prompt_tokens: 3, completion_tokens: 1 }));
    // 0.999999 + 1.000001
    expect((await user.post(CHAT, { ...HELLO, model: "lab/uneven" })).body.usage.cost_tokens).toBe(2);
  });

  it("takes a model by its UUID", async () => {
    const { uuid } = (await user.get("/api/v1/models/lab/small")).body;
    expect((await user.get(`/api/v1/models/${encodeURIComponent("lab/small")}`)).body.uuid).toBe(uuid);
    expect((await user.post(CHAT, { ...HELLO, model: uuid })).body.model).toBe("lab/small");
  });

  it("passes unknown fields on, and always an output cap", async () => {
    await user.post(CHAT, { ...HELLO, logit_bias: { 1: 2 } });
    await user.post(CHAT, { ...HELLO, max_tokens: 77 });
    expect(upstream.requests[0]?.body).toMatchObject({ model: "fake-large", max_tokens: 4_096, logit_bias: { 1: 2 } });
    expect(upstream.requests[1]?.body.max_tokens).toBe(77);
  });

  it("costs nothing when the provider fails before any output", async () => {
    for (const reply of [json({}, 500), json({}, 429), json({ error: {} }, 400), cut()]) {
      upstream.answer(reply);
      expect((await user.post(CHAT, HELLO)).status).toBeGreaterThanOrEqual(400);
      expect((await user.post(CHAT, { ...HELLO, stream: true })).status).toBeGreaterThanOrEqual(400);
    }
    expect(await balance()).toMatchObject({ posted: PLENTY, held: 0 });
  });

  it.each([
    ["no model", { messages: HELLO.messages }, "missing_field", "model"],
    ["no messages", { model: "lab/small" }, "missing_field", "messages"],
    ["empty messages", { ...HELLO, messages: [] }, "invalid_value", "messages"],
    [
      "an unknown role",
      { ...HELLO, messages: [{ role: "wizard", content: "x" }] },
      "invalid_value",
      "messages[0].role",
    ],
    ["no content", { ...HELLO, messages: [{ role: "user" }] }, "missing_field", "messages[0].content"],
    ["max_tokens 0", { ...HELLO, max_tokens: 0 }, "invalid_value", "max_tokens"],
    ["max_tokens 1.5", { ...HELLO, max_tokens: 1.5 }, "invalid_value", "max_tokens"],
    ["n 2", { ...HELLO, n: 2 }, "invalid_value", "n"],
    ["temperature 3", { ...HELLO, temperature: 3 }, "invalid_value", "temperature"],
    ["an unknown model", { ...HELLO, model: "lab/none" }, "model_not_found", "model"],
    ["an agent that is not there", { ...HELLO, model: "agent/none" }, "model_not_found", "model"],
  ])("with %s is refused with the field", async (_, body, code, param) => {
    const answer = await user.post(CHAT, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code, param });
    expect(upstream.requests).toHaveLength(0);
  });

  it("with a prompt far beyond the window is refused before anything is held", async () => {
    const { status, body } = await user.post(CHAT, {
      ...HELLO,
      messages: [{ role: "user", content: "x".repeat(600_000) }],
    });
    expect(status).toBe(400);
    expect(body.error.code).toBe("context_length_exceeded");
  });
});

describe("what a balance affords", () => {
  it("lowers the cap that goes upstream when none was asked for", async () => {
    const poor = await service.newUser({ trial: false, tokens: 1_000 });
    expect((await poor.post(CHAT, HELLO)).status).toBe(200);
    const cap = upstream.requests[0]?.body.max_tokens;
    expect(cap).toBeGreaterThan(700);
    // what was held covers input and cap
    expect(cap * 1.25).toBeLessThanOrEqual(1_000);
  });

  it("refuses a max_tokens that it does not cover, and says what it would cover", async () => {
    const poor = await service.newUser({ trial: false, tokens: 1_000 });
    const { status, body } = await poor.post(CHAT, { ...HELLO, max_tokens: 4_000 });
    expect(status).toBe(402);
    expect(body.error).toMatchObject({ type: "payment_required", code: "insufficient_balance" });
    const { required, available, shortfall, max_affordable_output_tokens, remedies } = body.error.metadata;
    expect(required - available).toBe(shortfall);
    expect(available).toBe(1_000);
    expect(remedies).toContain("lower_max_tokens");
    expect((await poor.post(CHAT, { ...HELLO, max_tokens: max_affordable_output_tokens })).status).toBe(200);
    expect((await poor.post(CHAT, { ...HELLO, max_tokens: max_affordable_output_tokens + 9 })).status).toBe(402);
  });

  it("is never overdrawn by 100 calls at once", async () => {
    const poor = await service.newUser({ trial: false, tokens: 400 });
    upstream.answer(completion("x", { prompt_tokens: 10, completion_tokens: 8 }));
    const answers = await Promise.all(Array.from({ length: 100 }, () => poor.post(CHAT, { ...HELLO, max_tokens: 8 })));
    const paid = answers.filter((answer) => answer.status === 200);
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200, 402]));
    const spent = paid.reduce((sum, answer) => sum + answer.body.usage.cost_tokens, 0);
    expect(await balance(poor)).toEqual({ posted: 400 - spent, held: 0, available: 400 - spent, debt: 0 });
  });

  it("tells calls that only wait for others apart, with Retry-After", async () => {
    const poor = await service.newUser({ trial: false, tokens: 400 });
    upstream.answer(() => {});
    const leaving = new AbortController();
    const first = fetch(`${service.url}${CHAT}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${poor.key}`, "Content-Type": "application/json" },
      body: JSON.stringify({ ...HELLO, max_tokens: 250 }),
      signal: leaving.signal,
    }).catch(() => {});
    await upstream.until(() => upstream.requests.length === 1);
    const refused = await poor.post(CHAT, { ...HELLO, max_tokens: 250 });
    expect(refused.status).toBe(402);
    expect(refused.body.error.code).toBe("in_flight_exhausted");
    expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(0);
    leaving.abort();
    await first;
  });

  it("does not matter to a trial account on a model that is not part of the trial", async () => {
    const trial = await service.newUser();
    const { status, body } = await trial.post(CHAT, { ...HELLO, model: "lab/large" });
    expect([status, body.error.code]).toEqual([403, "model_not_trial_eligible"]);
    expect((await trial.post(CHAT, HELLO)).status).toBe(200);
  });
});

describe("a streamed completion", () => {
  const STREAMED = { ...HELLO, stream: true };

  it("ends with a chunk that carries usage, asked for or not, and [DONE]", async () => {
    upstream.answer(stream(["Hel", "lo"]));
    const { status, headers, body } = await user.post(CHAT, STREAMED);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toMatch(/^text\/event-stream/);
    expect(body.endsWith("data: [DONE]\n\n")).toBe(true);
    const chunks = sse(body);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe("Hello");
    expect(chunks.at(-1)).toMatchObject({
      model: "lab/small",
      choices: [],
      usage: { total_tokens: 14, cost_tokens: 8 },
    });
    expect(chunks.filter((chunk) => chunk.usage !== undefined)).toHaveLength(1);
    expect(await balance()).toMatchObject({ posted: PLENTY - 8, held: 0 });
  });

  it("of a caller that hangs up is charged for what was generated, and the provider is hung up on", async () => {
    upstream.answer(hanging(delta("12345678"), delta("12345678")));
    const leaving = new AbortController();
    const response = await fetch(`${service.url}${CHAT}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
      body: JSON.stringify(STREAMED),
      signal: leaving.signal,
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (let text = ""; (text.match(/12345678/g) ?? []).length < 2; )
      text += Buffer.from((await reader.read()).value ?? []);
    leaving.abort();
    await upstream.until(() => upstream.hangUps === 1);
    // ceil(5 / 4) × 0.25 + ceil(16 / 4) × 1.25 = 5.5
    expect(await settledBalance()).toMatchObject({ posted: PLENTY - 6 });
  });

  it("of a caller that hangs up before the first byte costs nothing", async () => {
    upstream.answer(() => {});
    const leaving = new AbortController();
    const pending = fetch(`${service.url}${CHAT}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
      body: JSON.stringify(STREAMED),
      signal: leaving.signal,
    }).catch(() => {});
    await upstream.until(() => upstream.requests.length === 1);
    leaving.abort();
    await pending;
    await upstream.until(() => upstream.hangUps === 1);
    expect(await settledBalance()).toMatchObject({ posted: PLENTY });
  });

  it("that breaks off ends in an error event, and what came is charged", async () => {
    upstream.answer(cut(delta("12345678")));
    const { body } = await user.post(CHAT, STREAMED);
    expect(sse(body).at(-1).error).toMatchObject({ type: "api_error", code: "upstream_error" });
    expect(body).not.toContain("[DONE]");
    // ceil(5 / 4) × 0.25 + 2 × 1.25
    expect(await settledBalance()).toMatchObject({ posted: PLENTY - 3 });
  });

  it("whose usage the provider repeats in every chunk is charged once", async () => {
    const usage = { prompt_tokens: 10, completion_tokens: 4 };
    const chunk = (content: string) =>
      delta(content).replace('"choices"', `"usage":${JSON.stringify(usage)},"choices"`);
    upstream.answer(events(chunk("a"), chunk("b"), "data: [DONE]\n\n"));
    await user.post(CHAT, STREAMED);
    expect(await balance()).toMatchObject({ posted: PLENTY - 8 });
  });
});

describe("model: auto", () => {
  const AUTO = { ...HELLO, model: "auto" };

  it("takes the cheapest model that will do and shows the choice", async () => {
    const { body } = await user.post(CHAT, AUTO);
    expect(body.model).toBe("lab/small");
    expect(body.routing).toMatchObject({ chosen: "lab/small", fallbacks: [], reason: expect.any(String) });
    expect(body.routing.candidates).not.toContain("purser/rehearsal");
    const streamed = sse((await user.post(CHAT, { ...AUTO, stream: true })).body);
    expect(streamed.at(-1).routing).toMatchObject({ chosen: "lab/small" });
  });

  it("falls back to the next when a provider fails, and charges the one that answered", async () => {
    upstream.answer(json({}, 429));
    const { status, body } = await user.post(CHAT, AUTO);
    expect(status).toBe(200);
    expect(body.model).toBe("spare/small");
    expect(body.routing.fallbacks).toContainEqual({ model: "lab/small", reason: "upstream_error" });
    expect(await balance()).toMatchObject({ posted: PLENTY - body.usage.cost_tokens, held: 0 });
  });

  it("does not fall back from a request that is itself at fault", async () => {
    upstream.answer(json({ error: { param: "temperature" } }, 400));
    expect((await user.post(CHAT, AUTO)).body.error).toMatchObject({ code: "invalid_value", param: "temperature" });
    expect(upstream.requests).toHaveLength(1);
  });
});

describe("the official openai client, with another baseURL", () => {
  const clientOf = (of: Client) => new OpenAI({ baseURL: `${service.url}/api/v1`, apiKey: of.key, maxRetries: 0 });

  it("lists and retrieves models, completes, streams, and reads usage", async () => {
    const client = clientOf(user);
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toContain("lab/small");
    expect((await client.models.retrieve("lab/small")).owned_by).toBe("lab");
    const messages = [{ role: "user" as const, content: "hello" }];
    const plain = await client.chat.completions.create({ model: "lab/small", messages });
    expect(plain.choices[0]?.message.content).toBe("hello from upstream");
    expect(plain.usage?.total_tokens).toBe(14);
    let text = "";
    let total = 0;
    for await (const chunk of await client.chat.completions.create({ model: "lab/small", messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? "";
      total = chunk.usage?.total_tokens ?? total;
    }
    expect([text, total]).toEqual(["hello from upstream", 14]);
  });

  it("calls tools", async () => {
    const answer = await clientOf(user).chat.completions.create({
      model: "purser/rehearsal",
      messages: [{ role: "user", content: 'call lookup with {"q": 1}' }],
      tools: [{ type: "function", function: { name: "lookup", parameters: { type: "object" } } }],
    });
    expect(answer.choices[0]?.message.tool_calls?.[0]).toMatchObject({
      function: { name: "lookup", arguments: '{"q":1}' },
    });
  });

  it("gets typed errors, on a 402 and midway in a stream", async () => {
    const poor = await service.newUser({ trial: false, tokens: 0 });
    const messages = [{ role: "user" as const, content: "hello" }];
    const refused = clientOf(poor).chat.completions.create({ model: "lab/small", messages });
    await expect(refused).rejects.toMatchObject({ status: 402, code: "out_of_tokens", type: "payment_required" });
    upstream.answer(cut(delta("a")));
    const broken = async () => {
      for await (const _ of await clientOf(user).chat.completions.create({
        model: "lab/small",
        messages,
        stream: true,
      }));
    };
    await expect(broken()).rejects.toBeInstanceOf(OpenAI.APIError);
  });
});
