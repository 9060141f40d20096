import OpenAI, { APIError, AuthenticationError, NotFoundError, PermissionDeniedError } from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask, charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, cut, delta, event, events, hanging, json } from "../support/upstream.ts";

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

/** The client as its users create it: only the address is Purser's. */
const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey, maxRetries: 0 });
const thrown = (call: PromiseLike<unknown>): Promise<InstanceType<typeof APIError>> =>
  Promise.resolve(call).then(
    () => expect.fail("it succeeded"),
    (error) => error,
  );
/** Purser's fields next to OpenAI's. */
const usageOf = (answer: { usage?: unknown }) => answer.usage as Record<string, unknown>;
const cost = { input_tokens: 10, output_tokens: 4, total_tokens: 14, cost_tokens: 18 };

const WEATHER = {
  type: "function" as const,
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};
const CALL = { id: "call_1", type: "function" as const, function: { name: "weather", arguments: '{"city":"Oslo"}' } };

describe("the openai client with only baseURL changed: models (contract 4)", () => {
  it("lists the models and retrieves each by its id, slashes included, and by its UUID", async () => {
    const client = clientOf(user.key);
    const listed = await Array.fromAsync(await client.models.list());
    expect(listed.map((model) => model.id)).toContain("lab/vendor/deep:v1");
    for (const model of listed) {
      expect(await client.models.retrieve(model.id)).toEqual(model);
      expect(await client.models.retrieve((model as unknown as { uuid: string }).uuid)).toEqual(model);
    }
  });

  it("throws NotFoundError for an unknown model", async () => {
    const error = await thrown(clientOf(user.key).models.retrieve("lab/none"));
    expect(error).toMatchObject({ status: 404, type: "not_found_error", code: "not_found" });
  });
});

describe("the openai client with only baseURL changed: completions (contract 4)", () => {
  it("completes, and reads the usage with the cost", async () => {
    const answer = await clientOf(user.key).chat.completions.create({
      model: "lab/plain",
      messages: [{ role: "user", content: "hello" }],
    });
    expect(answer.object).toBe("chat.completion");
    expect(answer.model).toBe("lab/plain");
    expect(answer.choices[0]?.message.content).toBe("hello from upstream");
    expect(usageOf(answer)).toMatchObject({ prompt_tokens: 10, completion_tokens: 4, ...cost });
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-18]);
  });

  it("streams, and reads the usage from the last chunk, which it did not request", async () => {
    const client = clientOf(user.key);
    const stream = await client.chat.completions.create({ ...ask("lab/plain"), stream: true } as never);
    const chunks = await Array.fromAsync(stream as unknown as AsyncIterable<OpenAI.ChatCompletionChunk>);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe("hello from upstream");
    expect(new Set(chunks.map((chunk) => chunk.model))).toEqual(new Set(["lab/plain"]));
    const carriers = chunks.filter((chunk) => chunk.usage != null);
    expect(carriers).toEqual([chunks.at(-1)]);
    expect(carriers[0]).toMatchObject({ choices: [{ delta: {}, finish_reason: "stop" }], usage: cost });
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-18]);
  });

  it("collects a stream with its own helper, with the usage", async () => {
    const runner = clientOf(user.key).chat.completions.stream({
      model: "lab/plain",
      messages: [{ role: "user", content: "hello" }],
    });
    const final = await runner.finalChatCompletion();
    expect(final.choices[0]?.message.content).toBe("hello from upstream");
    expect(usageOf(final)).toMatchObject(cost);
  });

  it("calls a tool and continues with its result in a second turn", async () => {
    const message = { role: "assistant" as const, content: null, tool_calls: [CALL] };
    const usage = { prompt_tokens: 20, completion_tokens: 5 };
    lab.upstream.answer(
      json({ id: "c1", created: 1, choices: [{ index: 0, message, finish_reason: "tool_calls" }], usage }),
      completion("It rains in Oslo."),
    );
    const client = clientOf(user.key);
    const question = { role: "user" as const, content: "Weather in Oslo?" };
    const first = await client.chat.completions.create({ model: "lab/plain", messages: [question], tools: [WEATHER] });
    expect(first.choices[0]).toMatchObject({ finish_reason: "tool_calls", message: { tool_calls: [CALL] } });
    const messages = [question, message, { role: "tool" as const, tool_call_id: "call_1", content: "rain" }];
    const second = await client.chat.completions.create({ model: "lab/plain", messages, tools: [WEATHER] });
    expect(second.choices[0]?.message.content).toBe("It rains in Oslo.");
    expect(lab.upstream.requests.at(-1)?.body).toMatchObject({ messages, tools: [WEATHER] });
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-18, -30]);
  });

  it("joins a streamed tool call", async () => {
    const part = (call: object) =>
      event({ choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }] });
    lab.upstream.answer(
      events(
        event({ choices: [{ index: 0, delta: { role: "assistant", content: null }, finish_reason: null }] }),
        part({ index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: "" } }),
        part({ index: 0, function: { arguments: '{"city":' } }),
        part({ index: 0, function: { arguments: '"Oslo"}' } }),
        event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] }),
        event({ choices: [], usage: { prompt_tokens: 20, completion_tokens: 5 } }),
        "data: [DONE]\n\n",
      ),
    );
    const runner = clientOf(user.key).chat.completions.stream({
      model: "lab/plain",
      messages: [{ role: "user", content: "Weather in Oslo?" }],
      tools: [WEATHER],
    });
    const [call] = (await runner.finalMessage()).tool_calls ?? [];
    expect(call).toMatchObject(CALL);
    expect(await settledBalance(user)).toBe(1_000_000 - 30);
  });

  it("passes response_format and fields without a price of their own to the model, and drops hints", async () => {
    const response_format = {
      type: "json_schema" as const,
      json_schema: { name: "city", strict: true, schema: { type: "object", additionalProperties: false } },
    };
    const free = { logit_bias: { "50256": -100 }, tools: [WEATHER], parallel_tool_calls: false };
    const hints = { metadata: { a: "b" }, prompt_cache_key: "k", store: false, n: 1, service_tier: "auto" };
    await clientOf(user.key).chat.completions.create({
      ...ask("lab/plain"),
      response_format,
      ...free,
      ...hints,
    } as never);
    const { body } = lab.upstream.requests.at(-1) ?? {};
    expect(body).toMatchObject({ model: "plain", response_format, ...free });
    for (const hint of Object.keys(hints)) expect(body).not.toHaveProperty(hint);
  });

  it("aborts the provider's call when it aborts a stream, and the account pays for the output so far", async () => {
    const before = lab.upstream.hangUps;
    lab.upstream.answer(hanging(delta("one two three four ")));
    const stream = await clientOf(user.key).chat.completions.create({ ...ask("lab/plain"), stream: true } as never);
    for await (const _ of stream as unknown as AsyncIterable<unknown>) break; // leaving the loop aborts
    await lab.upstream.until(() => lab.upstream.hangUps === before + 1);
    const spent = 1_000_000 - (await settledBalance(user));
    expect(spent).toBeGreaterThan(0);
    await expectCleanAudit(lab.service);
  });
});

describe("the openai client's typed errors (contract 2)", () => {
  it("a 402 has status, code, type, param, the request id and the affordable tokens", async () => {
    const poor = await lab.service.newUser({ trial: false, tokens: 1000 });
    const error = await thrown(
      clientOf(poor.key).chat.completions.create({ ...ask("lab/plain"), max_tokens: 4096 } as never),
    );
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 402, type: "payment_required", code: "insufficient_balance", param: null });
    expect(error.requestID).toMatch(/^[0-9a-f-]{36}$/);
    expect(error.message).toContain("max_tokens");
    const { metadata, request_id } = error.error as { metadata: Record<string, number>; request_id: string };
    expect(request_id).toBe(error.requestID);
    expect(metadata.max_affordable_output_tokens).toBeGreaterThan(0);
  });

  it("a wrong key is an AuthenticationError", async () => {
    const error = await thrown(clientOf("sk-wrong").chat.completions.create(ask("lab/plain") as never));
    expect(error).toBeInstanceOf(AuthenticationError);
    expect(error).toMatchObject({ status: 401, type: "authentication_error", code: "invalid_api_key" });
  });

  it("an unknown model is a NotFoundError that names the field, streamed or not", async () => {
    for (const stream of [false, true]) {
      const error = await thrown(clientOf(user.key).chat.completions.create({ ...ask("gpt-none"), stream } as never));
      expect(error).toBeInstanceOf(NotFoundError);
      expect(error).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    }
  });

  it("a trial account's request for another model is a PermissionDeniedError", async () => {
    const trial = await lab.service.newUser();
    const error = await thrown(clientOf(trial.key).chat.completions.create(ask("lab/vendor/deep:v1") as never));
    expect(error).toBeInstanceOf(PermissionDeniedError);
    expect(error).toMatchObject({ status: 403, code: "model_not_trial_eligible", param: "model" });
  });

  it("a provider's disconnect during a stream is thrown from the loop, after the received chunks", async () => {
    lab.upstream.answer(cut(delta("half a "), delta("sentence")));
    const stream = await clientOf(user.key).chat.completions.create({ ...ask("lab/plain"), stream: true } as never);
    const seen: unknown[] = [];
    const reading = async () => {
      for await (const chunk of stream as unknown as AsyncIterable<unknown>) seen.push(chunk);
    };
    const error = await thrown(reading());
    expect(seen.length).toBeGreaterThan(0);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ code: "upstream_error", type: "api_error" });
  });
});
