import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ChatMessage, ContentPart, FunctionTool } from "../../../src/api/contract/completions.ts";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import { createOpenAiProvider } from "../../../src/gateway/models/openai.adapter.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import {
  anthropicMessage,
  anthropicStream,
  cut,
  events,
  googleAnswer,
  json,
  startUpstream,
  type Upstream,
} from "../../support/upstream.ts";
import { callerOf, chunksOf, contentOf, modelOf, requestOf, textOfStream } from "./model-fixture.ts";

const PIXEL = "data:image/png;base64,iVBORw0KGgo=";
const LOOKUP: FunctionTool = {
  type: "function",
  function: {
    name: "lookup",
    description: "finds",
    parameters: { type: "object", properties: { q: { type: "string" } } },
  },
};
/** A conversation with every kind of message: system, image, a tool call and its result. */
const CONVERSATION: ChatMessage[] = [
  { role: "system", content: "Be brief." },
  {
    role: "user",
    content: [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: PIXEL } },
    ],
  },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "call_1", type: "function", function: { name: "lookup", arguments: '{"q":"x"}' } }],
  },
  { role: "tool", tool_call_id: "call_1", content: "a pixel" },
];

let upstream: Upstream;
beforeEach(async () => {
  upstream = await startUpstream();
});
afterEach(() => upstream.close());

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable(),
    (error: PurserError) => error,
  );

describe("Anthropic", () => {
  const anthropic = () =>
    callerOf(
      createAnthropicProvider({ base_url: upstream.url, api_key: "key-of-anthropic" }),
      modelOf({ id: "claude-test", provider_model: "claude-test", owned_by: "anthropic" }),
    );

  it("gets a request in its own format, and its answer is converted to OpenAI's", async () => {
    upstream.answer(
      anthropicMessage(
        [
          { type: "text", text: "Let me look." },
          { type: "tool_use", id: "toolu_1", name: "lookup", input: { q: "y" } },
        ],
        {
          input_tokens: 20,
          output_tokens: 6,
          cache_read_input_tokens: 5,
          cache_creation_input_tokens: 4,
          cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 3 },
        },
        "tool_use",
      ),
    );
    const { response, counts } = await anthropic().complete(
      requestOf({ messages: CONVERSATION, tools: [LOOKUP], tool_choice: "auto", stop: "END", temperature: 0 }),
    );
    const [sent] = upstream.requests;
    expect(sent?.path).toBe("/v1/messages");
    expect(sent?.headers["x-api-key"]).toBe("key-of-anthropic");
    expect(sent?.body).toMatchObject({
      model: "claude-test",
      max_tokens: 50,
      stop_sequences: ["END"],
      system: [{ type: "text", text: "Be brief." }],
      tools: [{ name: "lookup", description: "finds" }],
      messages: [
        { role: "user", content: [{ type: "text" }, { type: "image", source: { media_type: "image/png" } }] },
        { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "lookup", input: { q: "x" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "a pixel" }] },
      ],
    });
    expect(response).toMatchObject({
      object: "chat.completion",
      model: "claude-test",
      choices: [
        {
          message: {
            role: "assistant",
            content: "Let me look.",
            tool_calls: [{ id: "toolu_1", type: "function", function: { name: "lookup", arguments: '{"q":"y"}' } }],
          },
          finish_reason: "tool_calls",
        },
      ],
    });
    // Anthropic reports cached and written input separately. The contract's input includes both.
    expect(counts).toMatchObject({
      input_tokens: 29,
      cached_input_tokens: 5,
      cache_write_tokens: 4,
      cache_write_1h_tokens: 3,
      output_tokens: 6,
      estimated: false,
    });
  });

  it.each([
    [100, undefined],
    [8_000, { type: "enabled", budget_tokens: 4_000 }],
  ])("thinks within the held output cap of %i (attack: reasoning beyond the hold)", async (cap, thinking) => {
    upstream.answer(
      anthropicMessage([{ type: "text", text: "hm" }], { input_tokens: 5, output_tokens: 5 }, "end_turn"),
    );
    const id = "claude-haiku-4-5-20251001";
    const model = modelOf({ id, provider_model: id, owned_by: "anthropic", kind: "anthropic" });
    const provider = createAnthropicProvider({ base_url: upstream.url, api_key: "key-of-anthropic" });
    const request = requestOf({ reasoning_effort: "max" });
    const prepared = await provider.prepare({ model, request, max_output_tokens: cap, stream: false });
    await provider.complete(prepared, { signal: new AbortController().signal, deadline_ms: monotonicMs() + 20_000 });
    const [sent] = upstream.requests;
    expect(sent?.body.max_tokens).toBe(cap);
    expect(sent?.body.thinking).toEqual(thinking);
    expect(JSON.stringify(sent?.headers)).not.toContain("x-purser");
  });

  it("adds and bills instructions for tools, which the hold includes", async () => {
    const model = modelOf({ id: "claude-opus-5", owned_by: "anthropic", kind: "anthropic" });
    const provider = createAnthropicProvider({ base_url: upstream.url, api_key: "key-of-anthropic" });
    const tools = [{ type: "function" as const, function: { name: "now", parameters: {} } }];
    const held = async (request: ReturnType<typeof requestOf>) =>
      (await provider.prepare({ model, request, max_output_tokens: 10, stream: false })).input_tokens;
    const definition_tokens = JSON.stringify({ tools }).length;
    const added = (await held(requestOf({ tools }))) - (await held(requestOf({})));
    expect(added).toBeGreaterThan(530);
    expect(added).toBeLessThan(1_000 + definition_tokens);
  });

  it("streams as OpenAI's chunks", async () => {
    upstream.answer(anthropicStream(["Hel", "lo"], { input_tokens: 9, output_tokens: 4 }));
    const stream = await anthropic().stream();
    const text = await textOfStream(stream);
    const chunks = chunksOf(text);
    expect(contentOf(text)).toBe("Hello");
    expect(chunks[0].choices[0].delta.role).toBe("assistant");
    expect(chunks.at(-1)).toMatchObject({
      id: chunks[0].id,
      created: chunks[0].created,
      object: "chat.completion.chunk",
      model: "claude-test",
      choices: [{ delta: {}, finish_reason: "stop" }],
    });
    expect(stream.counts()).toMatchObject({ input_tokens: 9, output_tokens: 4, estimated: false });
  });

  it("that reports more than the call can have used is estimated, streamed or not", async () => {
    const usage = { input_tokens: 90_000_000, output_tokens: 4 };
    upstream.answer(anthropicMessage([{ type: "text", text: "twelve bytes" }], usage, "end_turn"));
    const estimated = { input_tokens: 2, output_tokens: 3, estimated: true };
    expect((await anthropic().complete()).counts).toMatchObject(estimated);
    upstream.answer(anthropicStream(["twelve ", "bytes"], usage));
    const stream = await anthropic().stream();
    await textOfStream(stream);
    expect(stream.counts()).toMatchObject(estimated);
  });

  it("that breaks off is a failure, and what came is counted", async () => {
    const start = { type: "message_start", message: { id: "m", usage: { input_tokens: 1, output_tokens: 1 } } };
    const piece = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "12345" } };
    const block = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
    upstream.answer(cut(...[start, block, piece].map((each) => `data: ${JSON.stringify(each)}\n\n`)));
    const stream = await anthropic().stream();
    expect((await failureOf(textOfStream(stream))).code).toBe("upstream_error");
    expect(stream.counts()).toMatchObject({ output_tokens: 2, estimated: true });
  });

  it.each([
    [429, 502, "upstream_error"],
    [529, 502, "upstream_error"],
    [400, 400, "invalid_value"],
  ])("answering %i is reported only with Purser's message", async (status, ours, code) => {
    upstream.answer(json({ type: "error", error: { type: "any", message: "secret detail" } }, status));
    for (const attempt of [anthropic().complete(), anthropic().stream()]) {
      const error = await failureOf(attempt);
      expect(error.shape).toMatchObject({ status: ours, code });
      expect(error.message).not.toContain("secret detail");
    }
    expect(upstream.requests).toHaveLength(2);
  });

  it("is disconnected when the caller disconnects", async () => {
    const leaving = new AbortController();
    upstream.answer(() => {});
    const pending = failureOf(anthropic().complete(requestOf(), { signal: leaving.signal }));
    await upstream.until(() => upstream.requests.length === 1);
    leaving.abort(new Error("gone"));
    expect((await pending).message).toBe("gone");
    await upstream.until(() => upstream.hangUps === 1);
  });
});

describe("Google", () => {
  const google = () =>
    callerOf(
      createGoogleProvider({ base_url: upstream.url, api_key: "key-of-google" }),
      modelOf({ id: "gemini-test", provider_model: "gemini-test", owned_by: "google" }),
    );
  const usage = { promptTokenCount: 8, candidatesTokenCount: 3, thoughtsTokenCount: 2, totalTokenCount: 13 };

  it("gets a request in its own format, and its answer is converted to OpenAI's, with thoughts counted as output", async () => {
    upstream.answer(googleAnswer([{ functionCall: { name: "lookup", args: { q: "y" } } }], usage));
    const { response, counts } = await google().complete(requestOf({ messages: CONVERSATION, tools: [LOOKUP] }));
    const [sent] = upstream.requests;
    expect(sent?.path).toBe("/v1/models/gemini-test:generateContent");
    expect(sent?.headers["x-goog-api-key"]).toBe("key-of-google");
    expect(sent?.body).toMatchObject({
      generationConfig: { maxOutputTokens: 50 },
      systemInstruction: { parts: [{ text: "Be brief." }] },
    });
    expect(response.choices[0]).toMatchObject({
      message: { content: null, tool_calls: [{ function: { name: "lookup", arguments: '{"q":"y"}' } }] },
      finish_reason: "tool_calls",
    });
    expect(counts).toMatchObject({ input_tokens: 8, output_tokens: 5, reasoning_tokens: 2, estimated: false });
  });

  it("streams as OpenAI's chunks, also a whole tool call", async () => {
    upstream.answer(googleAnswer([{ text: "Hello" }, { functionCall: { name: "lookup", args: { q: 1 } } }], usage));
    const stream = await google().stream(requestOf({ tools: [LOOKUP] }));
    const text = await textOfStream(stream);
    expect(contentOf(text)).toBe("Hello");
    const calls = chunksOf(text).flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    expect(calls[0]).toMatchObject({ index: 0, type: "function", function: { name: "lookup" } });
    expect(calls.map((call) => call.function.arguments).join("")).toBe('{"q":1}');
    expect(stream.counts()).toMatchObject({ input_tokens: 8, output_tokens: 5 });
  });
});

describe("the end of an answer", () => {
  const google = () =>
    callerOf(createGoogleProvider({ base_url: upstream.url, api_key: "key" }), modelOf({ id: "gemini-test" }));
  const claude = () =>
    callerOf(createAnthropicProvider({ base_url: upstream.url, api_key: "key" }), modelOf({ id: "claude-test" }));
  const usage = { promptTokenCount: 8, candidatesTokenCount: 3 };

  it.each([
    ["MAX_TOKENS", "length"],
    ["OTHER", "length"],
    ["SAFETY", "content_filter"],
    ["LANGUAGE", "content_filter"],
    ["STOP", "stop"],
  ])("of Gemini with %s is %s, in one piece and as a stream", async (word, finish_reason) => {
    upstream.answer(googleAnswer([{ text: "a" }], usage, word));
    expect((await google().complete()).response.choices[0]?.finish_reason).toBe(finish_reason);
    const chunks = chunksOf(await textOfStream(await google().stream()));
    expect(chunks.at(-1).choices[0].finish_reason).toBe(finish_reason);
  });

  it.each(["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"])(
    "of Gemini with %s is a failure of the provider",
    async (word) => {
      upstream.answer(googleAnswer([{ text: "a" }], usage, word));
      expect((await failureOf(google().complete())).shape.code).toBe("upstream_error");
      expect((await failureOf(google().stream().then(textOfStream))).shape.code).toBe("upstream_error");
    },
  );

  it.each([
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["refusal", "content_filter"],
    ["pause_turn", "length"],
    ["a word that nobody knows", "length"],
    ["end_turn", "stop"],
  ])("of Claude with %s is %s", async (word, finish_reason) => {
    upstream.answer(anthropicMessage([{ type: "text", text: "a" }], { input_tokens: 8, output_tokens: 3 }, word));
    expect((await claude().complete()).response.choices[0]?.finish_reason).toBe(finish_reason);
  });
});

describe("a response of OpenAI", () => {
  const openai = () => callerOf(createOpenAiProvider({ base_url: upstream.url, api_key: "key" }), modelOf());
  const part = { type: "output_text", text: "a", annotations: [] };
  const output = [{ type: "message", id: "msg_1", role: "assistant", status: "completed", content: [part] }];
  const said = { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: "a" };
  const [item] = output;
  function answerWith(fields: object, type = "response.completed"): void {
    const whole = { id: "resp_1", object: "response", created_at: 1, model: "m", output, status: "completed" };
    const response = { ...whole, usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 }, ...fields };
    upstream.answer((socket, request) => {
      if (request.body.stream !== true) return json(response)(socket, request);
      const added = { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } };
      const done = { type: "response.output_item.done", output_index: 0, item };
      const all = [{ type: "response.created", response: { ...response, output: [] } }, added, said, done];
      const sent = [...all, { type, response }].map((each, at) => ({ ...each, sequence_number: at }));
      return events(...sent.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`))(socket, request);
    });
  }

  it.each([
    ["completed", { incomplete_details: null }, "stop"],
    ["incomplete without a reason", { status: "incomplete", incomplete_details: null }, "length"],
    ["incomplete without details", { status: "incomplete" }, "length"],
    [
      "incomplete by the filter",
      { status: "incomplete", incomplete_details: { reason: "content_filter" } },
      "content_filter",
    ],
  ])("that is %s ends so, in one piece and as a stream", async (_, fields, finish_reason) => {
    for (const type of ["response.completed", "response.incomplete"]) {
      answerWith(fields, type);
      expect((await openai().complete()).response.choices[0]?.finish_reason).toBe(finish_reason);
      const chunks = chunksOf(await textOfStream(await openai().stream()));
      expect(chunks.at(-1).choices[0].finish_reason).toBe(finish_reason);
    }
  });

  it("that was cancelled is a failure of the provider", async () => {
    answerWith({ status: "cancelled" });
    expect((await failureOf(openai().complete())).shape.code).toBe("upstream_error");
    expect((await failureOf(openai().stream().then(textOfStream))).shape.code).toBe("upstream_error");
  });

  it.each([
    ["thoughts in the total only", { input_tokens: 10, output_tokens: 5, total_tokens: 115 }, 105],
    ["figures as texts", { input_tokens: "10", output_tokens: "5" }, 5],
  ])("is billed for %s", async (_, usage, output_tokens) => {
    answerWith({ usage });
    const counts = { input_tokens: 10, output_tokens, reasoning_tokens: output_tokens - 5, estimated: false };
    expect((await openai().complete()).counts).toMatchObject(counts);
    const stream = await openai().stream();
    await textOfStream(stream);
    expect(stream.counts()).toMatchObject(counts);
  });
});

it.each([
  ["thoughts in the total only", { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 623 }, 613, 608],
  ["an output in the total only", { promptTokenCount: 10, totalTokenCount: 60 }, 50, 0],
  [
    "a tool's prompt as input",
    { promptTokenCount: 7, toolUsePromptTokenCount: 3, candidatesTokenCount: 5, totalTokenCount: 15 },
    5,
    0,
  ],
])(
  "an answer of Gemini is billed for %s, in one piece and as a stream",
  async (_, usage, output_tokens, reasoning_tokens) => {
    const google = callerOf(createGoogleProvider({ base_url: upstream.url, api_key: "key" }), modelOf());
    upstream.answer(googleAnswer([{ text: "a" }], usage));
    const counts = { input_tokens: 10, output_tokens, reasoning_tokens, estimated: false };
    expect((await google.complete()).counts).toMatchObject(counts);
    const stream = await google.stream();
    await textOfStream(stream);
    expect(stream.counts()).toMatchObject(counts);
  },
);

describe("a request that a provider's format cannot express", () => {
  const provider = () => callerOf(createAnthropicProvider({ base_url: upstream.url, api_key: "key" }));
  it.each<[string, ChatMessage[], string]>([
    ["a result of no call", [{ role: "tool", tool_call_id: "x", content: "" }], "messages[0].tool_call_id"],
    ["an unknown part", [{ role: "user", content: [{ type: "smell" }] }], "messages[0].content[0]"],
    [
      "an image from a file",
      [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///etc/passwd" } }] }],
      "messages[0].content[0].image_url.url",
    ],
  ])("is rejected with the field: %s", async (_, messages, param) => {
    const error = await failureOf(provider().complete(requestOf({ messages })));
    expect(error.shape).toMatchObject({ status: 400, code: "invalid_value", param });
    expect(upstream.requests).toHaveLength(0);
  });
});

it.each(["{bad", "[1]", "5"])("the arguments %s, which a model wrote, can be sent back to each kind", async (given) => {
  const call = { id: "a", type: "function" as const, function: { name: "lookup", arguments: given } };
  const messages: ChatMessage[] = [
    { role: "user", content: "Look it up." },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content: "The arguments are not JSON." },
  ];
  const providers = { claude: createAnthropicProvider, google: createGoogleProvider, openai: createOpenAiProvider };
  for (const create of Object.values(providers)) {
    upstream.requests = [];
    upstream.answer(json({}));
    const provider = callerOf(create({ base_url: upstream.url, api_key: "k" }));
    await provider.complete(requestOf({ messages, tools: [LOOKUP] })).catch(() => {});
    const sent = JSON.stringify(upstream.requests[0]?.body).replaceAll("\\", "");
    expect(sent).toContain(`{"invalid_arguments":"${given}"}`);
  }
});

describe("files and audio", () => {
  const pdf = { type: "file", file: { file_data: "data:application/pdf;base64,JVBERi0=", filename: "a.pdf" } };

  it("reach a provider as documents and audio", async () => {
    upstream.answer(anthropicMessage([{ type: "text", text: "read" }], { input_tokens: 5, output_tokens: 1 }));
    const anthropic = createAnthropicProvider({ base_url: upstream.url, api_key: "k" });
    await callerOf(anthropic, modelOf({ kind: "anthropic" })).complete(
      requestOf({ messages: [{ role: "user", content: [pdf] }], parallel_tool_calls: false, tools: [LOOKUP] }),
    );
    expect(upstream.requests[0]?.body.messages[0].content[0]).toMatchObject({
      type: "document",
      source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
    });
    expect(upstream.requests[0]?.body.tool_choice).toMatchObject({ disable_parallel_tool_use: true });
    upstream.answer(googleAnswer([{ text: "heard" }], { promptTokenCount: 5, candidatesTokenCount: 1 }));
    const google = createGoogleProvider({ base_url: upstream.url, api_key: "k" });
    const audio = { type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } };
    await callerOf(google, modelOf({ kind: "google" })).complete(
      requestOf({ messages: [{ role: "user", content: [audio] }] }),
    );
    expect(upstream.requests[1]?.body.contents[0].parts[0].inlineData).toEqual({
      mimeType: "audio/mpeg",
      data: "AAAA",
    });
  });

  it.each<[string, ContentPart, string]>([
    [
      "a film by its address",
      { type: "image_url", image_url: { url: "https://youtube.test/watch?v=1" } },
      "image_url.url",
    ],
    ["a film as a picture", { type: "image_url", image_url: { url: "data:video/mp4;base64,AAAA" } }, "image_url.url"],
    ["a file by its id", { type: "file", file: { file_id: "file-1" } }, "file.file_data"],
    ["a text as a file", { type: "file", file: { file_data: "data:text/plain;base64,AAAA" } }, "file.file_data"],
    ["audio of another format", { type: "input_audio", input_audio: { data: "A", format: "flac" } }, "input_audio"],
  ])("cannot smuggle in %s", async (_, part, field) => {
    const google = createGoogleProvider({ base_url: upstream.url, api_key: "k" });
    const request = requestOf({ messages: [{ role: "user", content: [part] }] });
    const error = await failureOf(callerOf(google, modelOf({ kind: "google" })).complete(request));
    expect(error.shape).toMatchObject({ status: 400, param: `messages[0].content[0].${field}` });
    expect(upstream.requests).toHaveLength(0);
  });
});
