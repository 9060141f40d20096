import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { beforeEach, describe, expect, it } from "vitest";
import {
  callStream,
  EMPTY_EVENTS,
  type ExpectedUsage,
  endingWith,
  FUNCTION_CALL,
  helloStream,
  ODD_ANSWERS,
  ODD_ENDS,
  PARALLEL_CALLS,
  REASONING_DIALECTS,
  USAGE_DIALECTS,
  USAGE_STREAMS,
} from "../support/answer-dialects.ts";
import { ask, charges, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { delta, event, events, USAGE } from "../support/upstream.ts";

// Answers of servers in their own dialects (test/support/answer-dialects.ts): callers get OpenAI's shape and pay for what was used.

const CHAT = "/api/v1/chat/completions";
const RATES = { id: "lab/cached", input_rate: 1, cached_input_rate: 0.1, output_rate: 2 };

let user: Client;
const lab = useLab([RATES], { settings: { cache_pricing: "provider" } });
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 100_000 });
});
const openai = () => new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
const anthropic = () => new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
type Fields = Record<string, unknown>;
const chunksIn = (body: string) => body.match(/(?<=^data: ).*$/gm)?.filter((data) => data !== "[DONE]") ?? [];
// biome-ignore lint/suspicious/noExplicitAny: tests read any field
const parsedIn = (body: string): any[] => chunksIn(body).map((data) => JSON.parse(data));

const costOf = ({ input, output, cached = 0 }: ExpectedUsage) => Math.ceil(input - cached + cached * 0.1 + output * 2);

async function expectUsage(expected: ExpectedUsage, stream: boolean): Promise<void> {
  const answer = await user.post(CHAT, ask("lab/cached", { stream }));
  const usage = stream ? parsedIn(answer.body).at(-1).usage : answer.body.usage;
  expect(usage).toMatchObject({
    input_tokens: expected.input,
    output_tokens: expected.output,
    cost_tokens: costOf(expected),
    prompt_tokens_details: { cached_tokens: expected.cached ?? 0 },
    ...(expected.reasoning === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: expected.reasoning } }),
  });
  expect(usage.estimated).toBe(expected.estimated);
  expect(JSON.stringify(answer.body).match(/\busage\b/g)).toHaveLength(1);
  expect((await charges(user)).map(({ amount }) => amount)).toEqual([-costOf(expected)]);
}

describe.each([false, true])("usage is billed as what it is (stream: %s):", (stream) => {
  it.each(USAGE_DIALECTS)("%s", async (_, reply, expected) => {
    lab.upstream.answer(reply);
    await expectUsage(expected, stream);
  });
});

it.each(USAGE_STREAMS)(
  "usage that comes in several chunks is billed as what it is: %s",
  async (_, chunks, expected) => {
    lab.upstream.answer(helloStream(chunks));
    await expectUsage(expected, true);
  },
);

it("the usage of two choices is the input once and the outputs of both", async () => {
  const of = (index: number, completion_tokens: number) => ({
    index,
    delta: { content: "a" },
    finish_reason: "stop",
    usage: { prompt_tokens: 10, completion_tokens },
  });
  lab.upstream.answer(events(event({ choices: [of(0, 3)] }), event({ choices: [of(1, 4)] }), "data: [DONE]\n\n"));
  const { body } = await user.post(CHAT, ask("lab/cached", { n: 2, stream: true }));
  expect(parsedIn(body).at(-1).usage).toMatchObject({ input_tokens: 10, output_tokens: 7 });
});

describe("an event without content", () => {
  const usage = event({ choices: [], usage: USAGE });
  const stop = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });

  it.each(EMPTY_EVENTS)("does not reach the caller and breaks nothing: %s", async (_, empty) => {
    for (const chunks of [
      [empty, delta("hello"), empty, delta(" there"), empty + stop, empty, usage, empty],
      [empty + delta("hello") + empty + delta(" there") + empty + stop + empty + usage + empty],
    ]) {
      lab.upstream.answer(events(...chunks, "data: [DONE]\n\n"));
      const { status, body } = await user.post(CHAT, ask("lab/cached", { stream: true }));
      expect(status).toBe(200);
      const all = parsedIn(body);
      expect(all.flatMap(({ choices }) => choices)).toHaveLength(3);
      for (const { choices } of all) for (const choice of choices) expect(choice.delta).toBeTypeOf("object");
      expect(all.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe("hello there");
      const { output_text } = await openai().responses.stream({ model: "lab/cached", input: "x" }).finalResponse();
      const messages = [{ role: "user" as const, content: "x" }];
      const asked = { model: "lab/cached", max_tokens: 100, messages };
      const message = await anthropic().messages.stream(asked).finalText();
      expect([output_text, message]).toEqual(["hello there", "hello there"]);
    }
    expect((await charges(user)).map(({ amount }) => amount)).toEqual(Array(6).fill(-18));
  });

  it.each(ODD_ENDS)("that ends the answer becomes the end of OpenAI's shape: %s", async (_, end) => {
    lab.upstream.answer(events(delta("hello"), delta(" there"), end, usage, "data: [DONE]\n\n"));
    const { choices } = await openai()
      .chat.completions.stream(ask("lab/cached") as never)
      .finalChatCompletion();
    expect(choices).toMatchObject([{ message: { content: "hello there" }, finish_reason: "stop" }]);
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-18]);
  });
});

it.each(ODD_ANSWERS)("an answer with %s becomes OpenAI's shape (stream: %s)", async (_, stream, reply) => {
  lab.upstream.answer(reply);
  const { status, body } = await user.post(CHAT, ask("lab/cached", { stream }));
  expect(status).toBe(200);
  const choices = stream ? parsedIn(body).flatMap((chunk) => chunk.choices) : body.choices;
  const texts = choices.map((choice: { delta: Fields; message: Fields }) => (choice.delta ?? choice.message).content);
  expect(texts.filter((text: unknown) => typeof text !== "string" && text != null)).toEqual([]);
  expect(texts.join("")).toBe("hello there");
  const reasons = choices.map(({ finish_reason }: Fields) => finish_reason ?? null);
  expect(reasons.filter((reason: unknown) => reason !== null)).toEqual(["stop"]);
  expect(JSON.stringify(body)).not.toContain("[null]");
  expect((await charges(user)).map(({ amount }) => amount)).toEqual([-18]);
  const { output_text } = stream
    ? await openai().responses.stream({ model: "lab/cached", input: "x" }).finalResponse()
    : await openai().responses.create({ model: "lab/cached", input: "x" });
  expect(output_text).toBe("hello there");
});

it.each([false, true])("a call in OpenAI's first shape becomes one of a tool (stream: %s)", async (stream) => {
  lab.upstream.answer(FUNCTION_CALL);
  const chat = stream
    ? await openai()
        .chat.completions.stream(ask("lab/cached") as never)
        .finalChatCompletion()
    : (await user.post(CHAT, ask("lab/cached"))).body;
  const called = { type: "function", function: { name: "add", arguments: '{"a":1}' } };
  expect(chat.choices).toMatchObject([{ message: { tool_calls: [called] }, finish_reason: "tool_calls" }]);
});

it.each(PARALLEL_CALLS)(
  "parallel calls that all have the index 0 and no id stay apart, in all three shapes: %s",
  async (_, pieces) => {
    lab.upstream.answer(callStream(pieces));
    const schema = { type: "object" as const };
    const { choices } = await openai()
      .chat.completions.stream(ask("lab/cached") as never)
      .finalChatCompletion();
    const calls = choices[0]?.message.tool_calls ?? [];
    expect(calls.map((call) => (call.type === "function" ? JSON.parse(call.function.arguments) : null))).toEqual([
      { a: 1 },
      { a: 2 },
    ]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
    const tool = { type: "function" as const, name: "add", parameters: schema, strict: false };
    const asked = { model: "lab/cached", input: "x", tools: [tool] };
    expect((await openai().responses.stream(asked).finalResponse()).output).toMatchObject([
      { type: "function_call", arguments: '{"a":1}' },
      { type: "function_call", arguments: '{"a":2}' },
    ]);
    const tools = [{ name: "add", input_schema: schema }];
    const messages = [{ role: "user" as const, content: "x" }];
    const message = anthropic().messages.stream({ model: "lab/cached", max_tokens: 100, tools, messages });
    expect((await message.finalMessage()).content).toMatchObject([
      { type: "tool_use", input: { a: 1 } },
      { type: "tool_use", input: { a: 2 } },
    ]);
  },
);

describe.each([false, true])("reasoning (stream: %s)", (stream) => {
  it.each(REASONING_DIALECTS)("is read in all three shapes: %s", async (_, reply) => {
    lab.upstream.answer(reply);
    const chat = (await user.post(CHAT, ask("lab/cached", { stream }))).body;
    const said = stream ? parsedIn(chat).map(({ choices }) => choices[0]?.delta ?? {}) : [chat.choices[0].message];
    expect(said.map(({ reasoning_content }) => reasoning_content ?? "").join("")).toBe("hm");
    expect(said.map(({ content }) => content ?? "").join("")).toBe("hi");
    const asked = { model: "lab/cached", input: "x" };
    const response = stream
      ? await openai().responses.stream(asked).finalResponse()
      : await openai().responses.create(asked);
    expect(response.output).toMatchObject([{ type: "reasoning", summary: [{ text: "hm" }] }, { type: "message" }]);
    const messages = [{ role: "user" as const, content: "x" }];
    const to_claude = { model: "lab/cached", max_tokens: 100, messages };
    const message = stream
      ? await anthropic().messages.stream(to_claude).finalMessage()
      : await anthropic().messages.create(to_claude);
    expect(message.content).toMatchObject([
      { type: "thinking", thinking: "hm" },
      { type: "text", text: "hi" },
    ]);
  });
});

it("a server with `reasoning` gets it back in that field only, because some servers reject the other one", async () => {
  lab.upstream.answer(REASONING_DIALECTS[1]?.[1] as never);
  const { message } = (await user.post(CHAT, ask("lab/cached"))).body.choices[0];
  const again = { role: "user", content: "and?" };
  await user.post(CHAT, { model: "lab/cached", messages: [...ask("lab/cached").messages, message, again] });
  const sent = lab.upstream.requests.at(-1)?.body.messages[1];
  expect([sent.reasoning, "reasoning_content" in sent]).toEqual(["hm", false]);
});

describe.each([false, true])("a finish reason (stream: %s)", (stream) => {
  async function ends() {
    const chat = await user.post(CHAT, ask("lab/cached", { stream }));
    const response = await user.post("/api/v1/responses", { model: "lab/cached", input: "x", stream });
    const message = await user.post("/api/v1/messages", { ...ask("lab/cached"), max_tokens: 100, stream });
    if (!stream) {
      const { status, incomplete_details } = response.body;
      return [chat.body.choices[0].finish_reason, status, incomplete_details?.reason, message.body.stop_reason];
    }
    const finish = parsedIn(chat.body).flatMap(({ choices }) => choices[0]?.finish_reason ?? []);
    const { status, incomplete_details } = parsedIn(response.body).at(-1).response;
    const stop = parsedIn(message.body).flatMap((part) => part.delta?.stop_reason ?? []);
    return [...finish, status, incomplete_details?.reason, ...stop];
  }
  const CUT = ["length", "incomplete", "max_output_tokens", "max_tokens"];
  const FILTERED = ["content_filter", "incomplete", "content_filter", "refusal"];
  const WHOLE = ["stop", "completed", undefined, "end_turn"];

  it.each([
    ["model_length", CUT],
    ["MAX_TOKENS", CUT],
    ["a word that nobody knows", CUT],
    ["SAFETY", FILTERED],
    ["RECITATION", FILTERED],
    ["content_filter", FILTERED],
    ["sensitive", FILTERED],
    ["eos", WHOLE],
    ["COMPLETE", WHOLE],
    ["<|eot_id|>", WHOLE],
  ])("says that the answer was cut off, filtered or complete: %s", async (word, expected) => {
    lab.upstream.answer(endingWith(word));
    expect(await ends()).toEqual(expected);
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-20, -20, -20]);
  });

  it.each(["insufficient_system_resource", "network_error", "abort", "MALFORMED_FUNCTION_CALL", "error"])(
    "says that the provider failed: %s",
    async (word) => {
      lab.upstream.answer(endingWith(word));
      for (const [path, body] of [
        [CHAT, ask("lab/cached", { stream })],
        ["/api/v1/responses", { model: "lab/cached", input: "x", stream }],
        ["/api/v1/messages", { ...ask("lab/cached"), max_tokens: 100, stream }],
      ] as const) {
        const answer = await user.post(path, body);
        expect(answer.status).toBe(stream ? 200 : 502);
        expect(JSON.stringify(answer.body)).toMatch(/upstream_error|response\.failed/);
        expect(JSON.stringify(answer.body)).not.toMatch(/"stop"|end_turn|response\.completed/);
      }
      if (!stream) expect(await charges(user)).toEqual([]);
    },
  );
});
