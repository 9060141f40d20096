import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { beforeEach, describe, expect, it } from "vitest";
import { chatResponseSchema } from "../../src/api/contract/completions.ts";
import { ask, charges, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { delta, event, events, json, type Reply, USAGE } from "../support/upstream.ts";

// The variants of OpenAI-compatible servers work for agents, Responses and Messages as they do for chat completions.

/** The cost on lab/plain: 10 tokens of input at 1 and 4 of output at 2. */
const COST = 18;

let user: Client;
const lab = useLab();
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 100_000 });
});

const HELLO = [
  delta("hello there"),
  event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
  event({ choices: [], usage: USAGE }),
  "data: [DONE]\n\n",
];

it.each([
  ["no space after `data:`", (text: string) => text.replace("data: ", "data:")],
  ["an event in two lines", (text: string) => text.replace("data: {", "data: {\ndata: ")],
  ["a chunk whose delta is null", (text: string) => text.replace('"delta":{}', '"delta":null')],
  ["`error: null` in each chunk", (text: string) => text.replace('"choices"', '"error":null,"choices"')],
])("an agent answers with the text of its model and is charged once: %s", async (_, written) => {
  const agent = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
  lab.upstream.answer(events(...HELLO.map(written)));
  const answer = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`));
  expect([answer.status, answer.body.choices?.[0].message.content]).toEqual([200, "hello there"]);
  expect(await charges(user)).toMatchObject([{ amount: -COST }]);
});

it("requests ask the server not to compress its answers, which are read as they arrive", async () => {
  lab.upstream.answer(events(...HELLO));
  await user.post("/api/v1/chat/completions", ask("lab/plain", { stream: true }));
  expect(lab.upstream.requests.at(-1)?.headers["accept-encoding"]).toBe("identity");
});

describe("parallel calls that all have the index 0", () => {
  const piece = (id: string, text: string) => {
    const call = { index: 0, id, type: "function", function: { name: "add", arguments: text } };
    return event({ choices: [{ index: 0, delta: { role: "assistant", tool_calls: [call] }, finish_reason: null }] });
  };
  const more = (text: string) =>
    event({
      choices: [
        { index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: text } }] }, finish_reason: null },
      ],
    });
  const end = event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] });
  beforeEach(() => {
    const usage = event({ choices: [], usage: USAGE });
    lab.upstream.answer(
      events(piece("call_a", '{"a":1}'), piece("call_b", '{"b":'), more("2}"), end, usage, "data: [DONE]\n\n"),
    );
  });

  it("are several calls of a chat completion", async () => {
    const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const stream = client.chat.completions.stream({ model: "lab/plain", messages: [{ role: "user", content: "x" }] });
    expect((await stream.finalChatCompletion()).choices[0]?.message.tool_calls).toMatchObject([
      { id: "call_a", type: "function", function: { name: "add", arguments: '{"a":1}' } },
      { id: "call_b", type: "function", function: { name: "add", arguments: '{"b":2}' } },
    ]);
  });

  it("are several calls of a response", async () => {
    const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const tool = { type: "function" as const, name: "add", parameters: { type: "object" }, strict: false };
    const asked = { model: "lab/plain", input: "x", tools: [tool] };
    expect((await client.responses.stream(asked).finalResponse()).output).toMatchObject([
      { type: "function_call", call_id: "call_a", name: "add", arguments: '{"a":1}' },
      { type: "function_call", call_id: "call_b", name: "add", arguments: '{"b":2}' },
    ]);
  });

  it("are several blocks of a message", async () => {
    const client = new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
    const tools = [{ name: "add", input_schema: { type: "object" as const } }];
    const messages = [{ role: "user" as const, content: "x" }];
    const message = await client.messages
      .stream({ model: "lab/plain", max_tokens: 100, tools, messages })
      .finalMessage();
    expect(message.content).toMatchObject([
      { type: "tool_use", id: "call_a", name: "add", input: { a: 1 } },
      { type: "tool_use", id: "call_b", name: "add", input: { b: 2 } },
    ]);
  });

  it("are several calls of an agent", async () => {
    const fields = { name: "Sailor", model_id: "lab/plain", client_tools: "pass" };
    const agent = (await user.post("/api/v1/agents", fields)).body.id;
    const tools = [{ type: "function", function: { name: "add", parameters: { type: "object" } } }];
    const { body } = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`, { tools }));
    expect(body.choices[0].message.tool_calls).toEqual([
      { id: "call_a", type: "function", function: { name: "add", arguments: '{"a":1}' } },
      { id: "call_b", type: "function", function: { name: "add", arguments: '{"b":2}' } },
    ]);
  });
});

/** An answer with this finish reason, streamed or not. */
function endingAs(message: object, finish_reason: string, fields: object = {}): Reply {
  const identity = { id: "x", object: "chat.completion", created: 1, model: "m" };
  const whole = json({ ...identity, choices: [{ index: 0, message, finish_reason, ...fields }], usage: USAGE });
  const streamed = events(
    event({ choices: [{ index: 0, delta: message, finish_reason: null }] }),
    event({ choices: [{ index: 0, delta: {}, finish_reason, ...fields }] }),
    event({ choices: [], usage: USAGE }),
    "data: [DONE]\n\n",
  );
  return (response, request) => (request.body.stream === true ? streamed : whole)(response, request);
}
const FORCED = { index: 0, id: "call_a", type: "function", function: { name: "add", arguments: "{}" } };
const CALL = { role: "assistant", content: null, tool_calls: [FORCED] };
const TEXT = { role: "assistant", content: "hi" };

describe.each([false, true])("the end of an answer (stream: %s)", (stream) => {
  async function messageOf() {
    const client = new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
    const asked = {
      model: "lab/plain",
      max_tokens: 100,
      stop_sequences: ["END"],
      tools: [{ name: "add", input_schema: { type: "object" as const } }],
      messages: [{ role: "user" as const, content: "x" }],
    };
    const answer = stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked);
    const { stop_reason, stop_sequence } = await answer;
    return [stop_reason, stop_sequence];
  }

  it.each([
    ["a call that ends with stop", endingAs(CALL, "stop"), ["tool_use", null]],
    ["another word for stop", endingAs(TEXT, "eos"), ["end_turn", null]],
    ["a name that every object has", endingAs(TEXT, "constructor"), ["max_tokens", null]],
    ["the caller's stop sequence", endingAs(TEXT, "stop", { stop_reason: "END" }), ["stop_sequence", "END"]],
    ["another text in its place", endingAs(TEXT, "stop", { stop_reason: "eos" }), ["end_turn", null]],
    ["a cut", endingAs(CALL, "length"), ["max_tokens", null]],
  ])("is a stop reason of Anthropic's: %s", async (_, reply, expected) => {
    lab.upstream.answer(reply);
    expect(await messageOf()).toEqual(expected);
  });

  it("completes a response for another word for stop", async () => {
    lab.upstream.answer(endingAs(TEXT, "eos"));
    const client = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const asked = { model: "lab/plain", input: "x" };
    const answer = stream ? client.responses.stream(asked).finalResponse() : client.responses.create(asked);
    expect(await answer).toMatchObject({ status: "completed", incomplete_details: null });
  });
});

describe("the beginning of a streamed choice, as OpenAI's helper `.stream()` needs it", () => {
  const chunkOf = (choices: object[]) => event({ choices });
  const text = (index: number, content: string) => ({ index, delta: { content }, finish_reason: null });
  const stop = (index: number) => ({ index, delta: {}, finish_reason: "stop" });
  const gathered = async (fields: object = {}) => {
    const openai = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const stream = openai.chat.completions.stream({ ...ask("lab/plain"), ...fields } as never);
    const { choices } = await stream.finalChatCompletion();
    return choices.map(({ message }) => [message.role, message.content]);
  };

  it.each([
    ["no role", [chunkOf([text(0, "hi")]), chunkOf([stop(0)])]],
    ["no role after a chunk without choices", [chunkOf([]), chunkOf([text(0, "hi")]), chunkOf([stop(0)])]],
    ["a role of null", [chunkOf([{ ...text(0, "hi"), delta: { role: null, content: "hi" } }]), chunkOf([stop(0)])]],
    ["no index", [chunkOf([{ delta: { content: "hi" } }]), chunkOf([{ delta: {}, finish_reason: "stop" }])]],
  ])("is complete where the server sends %s", async (_, chunks) => {
    lab.upstream.answer(events(...chunks, event({ choices: [], usage: USAGE }), "data: [DONE]\n\n"));
    expect(await gathered()).toEqual([["assistant", "hi"]]);
    expect(await charges(user)).toMatchObject([{ amount: -COST }]);
  });

  it("is complete for each of several choices", async () => {
    const chunks = [[text(0, "a")], [text(0, "b")], [text(1, "c")], [stop(0), stop(1)]].map(chunkOf);
    lab.upstream.answer(events(...chunks, event({ choices: [], usage: USAGE }), "data: [DONE]\n\n"));
    expect(await gathered({ n: 2 })).toEqual([
      ["assistant", "ab"],
      ["assistant", "c"],
    ]);
  });

  it("names our model in every chunk where the server names its own only after an empty one, as Azure does", async () => {
    const empty = event({ choices: [], id: "", created: 0, model: "", object: "", prompt_filter_results: [] });
    lab.upstream.answer(events(empty, ...HELLO));
    const openai = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const stream_options = { include_usage: true };
    const fields = { ...ask("lab/plain"), stream: true, stream_options };
    const chunks = await Array.fromAsync(
      (await openai.chat.completions.create(fields as never)) as unknown as AsyncIterable<OpenAI.ChatCompletionChunk>,
    );
    expect(new Set(chunks.map(({ model }) => model))).toEqual(new Set(["lab/plain"]));
    expect(chunks.at(-1)).toMatchObject({ id: "chatcmpl-upstream", created: 1_700_000_000, choices: [] });
  });
});

it.each([
  ["no chunk but the usage", [event({ choices: [], usage: USAGE })], ""],
  ["empty ids, as TGI does", HELLO.slice(0, 3).map((chunk) => chunk.replace("chatcmpl-upstream", "")), "hello there"],
  [
    "an empty error",
    HELLO.slice(0, 3).map((chunk) => chunk.replace('"choices"', '"error":"","choices"')),
    "hello there",
  ],
])("OpenAI's helper reads a stream with %s, and its usage", async (_, chunks, text) => {
  for (const include_usage of [false, true]) {
    lab.upstream.answer(events(...chunks, "data: [DONE]\n\n"));
    const openai = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const fields = { ...ask("lab/plain"), stream_options: { include_usage } };
    const { choices, usage } = await openai.chat.completions.stream(fields as never).finalChatCompletion();
    expect([choices[0]?.message.content ?? "", usage?.total_tokens]).toEqual([text, 14]);
  }
});

it.each([null, undefined])("a call of a whole answer with the arguments %s has none, as JSON", async (given) => {
  const call = { id: "call_a", type: "function", function: { name: "now", arguments: given } };
  const choices = [{ index: 0, message: { role: "assistant", tool_calls: [call] }, finish_reason: "tool_calls" }];
  lab.upstream.answer(json({ id: "x", object: "chat.completion", created: 1, model: "m", choices, usage: USAGE }));
  const { body } = await user.post("/api/v1/chat/completions", ask("lab/plain"));
  expect(chatResponseSchema.safeParse(body).error).toBeUndefined();
  expect(body.choices[0].message.tool_calls[0].function).toEqual({ name: "now", arguments: "{}" });
});

describe("a stream without a finish reason, which is complete with [DONE]", () => {
  const call = { id: "a", type: "function", function: { name: "add", arguments: "{}" } };
  const calls = event({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...call }] } }] });

  it.each([
    ["stop", delta("hi"), false],
    ["stop", delta("hi"), true],
    ["tool_calls", calls, false],
    ["tool_calls", calls, true],
  ])("ends with %s, so that OpenAI's helper takes it (include_usage: %#)", async (reason, chunk, include_usage) => {
    lab.upstream.answer(events(chunk, event({ choices: [], usage: USAGE }), "data: [DONE]\n\n"));
    const openai = new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 });
    const fields = { ...ask("lab/plain"), stream_options: { include_usage } };
    const { choices, usage } = await openai.chat.completions.stream(fields as never).finalChatCompletion();
    expect([choices[0]?.finish_reason, usage]).toMatchObject([reason, { total_tokens: 14 }]);
  });
});

it("two calls of a whole answer with one id are two calls with different ids, for every endpoint", async () => {
  const call = (a: number) => ({ id: "call_a", type: "function", function: { name: "add", arguments: `{"a":${a}}` } });
  const message = { role: "assistant", content: null, tool_calls: [call(1), call(2)] };
  const choices = [{ index: 0, message, finish_reason: "tool_calls" }];
  lab.upstream.answer(json({ id: "x", object: "chat.completion", created: 1, model: "m", choices, usage: USAGE }));
  const { output } = (await user.post("/api/v1/responses", { model: "lab/plain", input: "hello" })).body;
  const { content } = (await user.post("/api/v1/messages", { ...ask("lab/plain"), max_tokens: 100 })).body;
  const { tool_calls } = (await user.post("/api/v1/chat/completions", ask("lab/plain"))).body.choices[0].message;
  expect(output).toMatchObject([{ arguments: '{"a":1}' }, { arguments: '{"a":2}' }]);
  expect(content).toMatchObject([{ input: { a: 1 } }, { input: { a: 2 } }]);
  for (const [first, second] of [
    output.map((item: { call_id: string }) => item.call_id),
    [content[0].id, content[1].id],
    [tool_calls[0].id, tool_calls[1].id],
  ]) {
    expect(first).toBe("call_a");
    expect(second).toMatch(/^call_.{10}/);
  }
});

it("text between two pieces of a call's arguments does not end the call of a message", async () => {
  const piece = (said: object) => event({ choices: [{ index: 0, delta: said, finish_reason: null }] });
  const begun = { index: 0, id: "a", type: "function", function: { name: "add", arguments: '{"a"' } };
  const rest = { index: 0, function: { arguments: ":1}" } };
  const chunks = [{ tool_calls: [begun] }, { content: "h" }, { content: "m" }, { tool_calls: [rest] }].map(piece);
  const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] });
  lab.upstream.answer(events(...chunks, finish, event({ choices: [], usage: USAGE }), "data: [DONE]\n\n"));
  const anthropic = new Anthropic({ baseURL: `${lab.service.url}/api`, apiKey: user.key, maxRetries: 0 });
  const { content } = await anthropic.messages.stream({ ...ask("lab/plain"), max_tokens: 100 } as never).finalMessage();
  expect(content).toMatchObject([
    { type: "tool_use", name: "add", input: { a: 1 } },
    { type: "text", text: "hm" },
  ]);
});

it("an agent ends with a finish reason of OpenAI's, whatever word its model's server has", async () => {
  const agent = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
  lab.upstream.answer(endingAs(TEXT, "eos"));
  const { body } = await user.post("/api/v1/chat/completions", ask(`agent/${agent}`));
  expect(body.choices[0].finish_reason).toBe("stop");
});

describe("a server's variant of an answer", () => {
  const whole = (choice: object, fields: object = {}) => json({ choices: [choice], usage: USAGE, ...fields });
  const chunk = (said: object) => event({ choices: [{ index: 0, delta: said, finish_reason: null }] });
  const rest = HELLO.slice(1);
  const call = { id: "call_a", function: { name: "add", arguments: { a: 1 } } };
  const parts = [
    { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
    { type: "text", text: "hi" },
  ];
  const asked = {
    chat: ["/api/v1/chat/completions", ask("lab/plain")],
    response: ["/api/v1/responses", { model: "lab/plain", input: "hello" }],
    message: ["/api/v1/messages", { ...ask("lab/plain"), max_tokens: 100 }],
  } as const;
  const answers = async (stream: boolean) => {
    const all = Object.entries(asked).map(async ([name, [path, body]]) => [
      name,
      (await user.post(path, { ...body, stream })).body,
    ]);
    return Object.fromEntries(await Promise.all(all));
  };

  it("has OpenAI's shape in a chat completion, and conforms to openapi.json", async () => {
    lab.upstream.answer(whole({ message: { content: null, tool_calls: [call] } }, { id: 5 }));
    const { body } = await user.post(...asked.chat);
    expect(chatResponseSchema.safeParse(body).error).toBeUndefined();
    expect(body.choices[0]).toMatchObject({ index: 0, finish_reason: "tool_calls" });
    expect(body.choices[0].message.tool_calls).toEqual([
      { id: "call_a", type: "function", function: { name: "add", arguments: '{"a":1}' } },
    ]);
    lab.upstream.answer(whole({ message: { role: "assistant", content: "hi" }, finish_reason: "eos" }));
    const { body: text } = await user.post(...asked.chat);
    expect(chatResponseSchema.safeParse(text).error).toBeUndefined();
    expect(text.choices[0]).toMatchObject({ message: { content: "hi" }, finish_reason: "stop" });
  });

  it.each([false, true])("keeps a call's arguments that are an object (stream: %s)", async (stream) => {
    const said = { role: "assistant", tool_calls: [{ index: 0, ...call }] };
    lab.upstream.answer(stream ? events(chunk(said), ...rest) : whole({ message: said }));
    const { chat, response, message } = JSON.parse(JSON.stringify(await answers(stream)));
    for (const text of [chat, response, message].map((body) => JSON.stringify(body))) {
      expect(text).not.toContain("[object");
      expect(text.replaceAll("\\", "")).toMatch(/"\{"a":1\}"|"input":\{"a":1\}/);
    }
  });

  it.each([false, true])("keeps text and thoughts in a list of parts (stream: %s)", async (stream) => {
    lab.upstream.answer(stream ? events(chunk({ content: parts }), ...rest) : whole({ message: { content: parts } }));
    const { chat, response, message } = await answers(stream);
    expect(JSON.stringify(chat).replaceAll("\\", "")).toMatch(/"content":"hi".*"reasoning_content":"hm"/);
    for (const body of [response, message]) {
      expect(JSON.stringify(body)).toContain("hm");
      expect(JSON.stringify(body).replaceAll("\\", "")).toContain('"hi"');
    }
  });

  it.each([
    ["an error next to its choices", whole({ message: TEXT, finish_reason: "stop" }, { error: { message: "x" } })],
    ["the finish reason error", whole({ message: { content: "" }, finish_reason: "error", error: { code: 502 } })],
  ])("costs nothing if the server reports a failure: %s", async (_, reply) => {
    lab.upstream.answer(reply);
    const answer = await user.post(...asked.chat);
    expect([answer.status, answer.body.error?.code]).toEqual([502, "upstream_error"]);
    expect(await charges(user)).toEqual([]);
  });

  it("is a failure that costs nothing if a stream has only an error of older vLLM and [DONE]", async () => {
    lab.upstream.answer(events(event({ object: "error", message: "no", code: 400 }), "data: [DONE]\n\n"));
    const agent = (await user.post("/api/v1/agents", { name: "Sailor", model_id: "lab/plain" })).body.id;
    const chat = { ...asked.chat[1], stream: true };
    for (const body of [chat, ask(`agent/${agent}`)]) {
      const answer = await user.post("/api/v1/chat/completions", body);
      expect([answer.status, answer.body.error?.code]).toEqual([502, "upstream_error"]);
    }
    expect(await charges(user)).toEqual([]);
  });

  it("is read to its end without the last empty line, and after a byte order mark", async () => {
    const [first = "", finish = "", usage = ""] = HELLO;
    for (const text of [`\uFEFF${first}${finish}${usage.trimEnd()}`, first + usage + finish.trimEnd()]) {
      const reader = await lab.service.newUser({ trial: false, tokens: 100_000 });
      lab.upstream.answer(events(text));
      const { body } = await reader.post("/api/v1/messages", { ...asked.message[1], stream: true });
      expect(body).toContain("hello there");
      expect(body).toContain("message_stop");
      expect(Math.abs((await charges(reader))[0]?.amount ?? 0)).toBeGreaterThanOrEqual(COST);
    }
  });

  it("is a broken stream if its last event is incomplete", async () => {
    lab.upstream.answer(events(delta("hello"), delta(" there").slice(0, -20)));
    const { body } = await user.post(asked.chat[0], { ...asked.chat[1], stream: true });
    expect(body).toContain("upstream_error");
    expect(body).not.toContain("there");
  });
});
