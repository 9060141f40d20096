import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ChatMessage, ChatRequest, ChatResponse } from "../../../src/api/contract/completions.ts";
import { createMessageBuilder } from "../../../src/gateway/models/answer-message.ts";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import type { Model, Provider } from "../../../src/gateway/models/models.types.ts";
import { createOpenAiProvider } from "../../../src/gateway/models/openai.adapter.ts";
import type { ProviderKind } from "../../../src/gateway/models/providers.ts";
import { forwardedRequest } from "../../../src/gateway/models/request-fields.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import { createGeminiApi } from "../../support/native-apis/gemini.ts";
import { createMessagesApi } from "../../support/native-apis/messages.ts";
import { createResponsesApi } from "../../support/native-apis/responses.ts";
import type { Script } from "../../support/native-apis/turn.ts";
import { startUpstream, type Upstream } from "../../support/upstream.ts";
import { callerOf, modelOf, partsOfStream, requestOf } from "./model-fixture.ts";

/** The native APIs, each with its requested model. */
const APIS = {
  openai: { api: createResponsesApi, model: "gpt-6.1-terra", provider: createOpenAiProvider },
  anthropic: { api: createMessagesApi, model: "claude-haiku-4-5-20251001", provider: createAnthropicProvider },
  google: { api: createGeminiApi, model: "gemini-3.5-flash", provider: createGoogleProvider },
} as const satisfies Partial<
  Record<ProviderKind, { api: unknown; model: string; provider(settings: never): Provider }>
>;
const KINDS = Object.keys(APIS) as (keyof typeof APIS)[];

const LOOKUP = {
  type: "function" as const,
  function: { name: "lookup", parameters: { type: "object", properties: { q: { type: "string" } } } },
};

let upstream: Upstream;
beforeEach(async () => {
  upstream = await startUpstream();
});
afterEach(() => upstream.close());

function modelOfKind(kind: keyof typeof APIS, fields: Partial<Model> = {}): Model {
  const id = APIS[kind].model;
  return modelOf({ id, provider_model: id, owned_by: kind, kind, max_output_tokens: 8_000, ...fields });
}

/** A caller of one kind's fake API. It sends the fields that the model accepts, like the service. */
function callerOfKind(kind: keyof typeof APIS, script: Script, fields: Partial<Model> = {}) {
  const { reply, tokens } = APIS[kind].api(script);
  upstream.answer(reply);
  const model = modelOfKind(kind, fields);
  const caller = callerOf(APIS[kind].provider({ base_url: upstream.url, api_key: "key" }), model);
  const forwarded = (request: Partial<ChatRequest>) => forwardedRequest(requestOf(request), model);
  return {
    tokens,
    model,
    complete: (request: Partial<ChatRequest>) => caller.complete(forwarded(request)),
    async stream(request: Partial<ChatRequest>) {
      const stream = await caller.stream(forwarded(request));
      const answer = createMessageBuilder();
      for (const { events } of await partsOfStream(stream)) events.forEach(answer.add);
      return { message: answer.message() as ChatMessage, counts: stream.counts(), finish: answer.finishReason() };
    },
  };
}

/** Three tool steps, each with reasoning, then an answer. */
const THREE_STEPS: Script = (n) =>
  n < 3
    ? {
        reasoning: `step ${n} needs a look`,
        text: `Looking ${n}.`,
        calls: [{ name: "lookup", arguments: { q: `${n}` } }],
      }
    : { reasoning: "all is known", text: "The answer is 42." };

const messageOf = ({ choices }: ChatResponse): ChatMessage => choices[0]?.message as ChatMessage;

const results = (message: ChatMessage): ChatMessage[] =>
  (message.tool_calls ?? []).map(({ id }) => ({ role: "tool", tool_call_id: id, content: `result of ${id}` }));

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable(),
    (error: PurserError) => error,
  );

describe.each(KINDS)("reasoning of %s", (kind) => {
  it.each(["complete", "stream"] as const)("is sent back unchanged over three tool steps: %s", async (way) => {
    const caller = callerOfKind(kind, THREE_STEPS);
    const messages: ChatMessage[] = [{ role: "user", content: "find it" }];
    for (let step = 0; step < 4; step += 1) {
      const request = { messages: [...messages], tools: [LOOKUP], reasoning_effort: "high" };
      const message =
        way === "stream"
          ? (await caller.stream(request)).message
          : messageOf((await caller.complete(request)).response);
      messages.push(message, ...results(message));
    }
    // The fake checks each signature. The test checks that each was sent.
    const [, , , last] = upstream.requests;
    const sent = JSON.stringify(last?.body);
    const opaque = messages.flatMap(({ reasoning_details, tool_calls }) => [
      ...(reasoning_details ?? []).flatMap(({ signature, data }) => signature ?? data ?? []),
      ...(tool_calls ?? []).flatMap(({ extra_content }) => extra_content?.google?.thought_signature ?? []),
    ]);
    expect(opaque.length).toBeGreaterThanOrEqual(4);
    for (const data of opaque.slice(0, 3)) expect(sent).toContain(JSON.stringify(data));
    expect(messages.at(-1)?.content).toBe("The answer is 42.");
  });

  it("is dropped for another model, and for another provider", async () => {
    const caller = callerOfKind(kind, THREE_STEPS);
    const first = messageOf((await caller.complete({ tools: [LOOKUP], reasoning_effort: "high" })).response);
    const messages = [{ role: "user" as const, content: "find it" }, first, ...results(first)];
    for (const other of KINDS) {
      const { reply } = APIS[other].api(() => ({ text: "ok" }));
      upstream.answer(reply);
      const id = other === kind ? "another-model" : APIS[other].model;
      const model = modelOfKind(other, { id, provider_model: APIS[other].model });
      const provider = callerOf(APIS[other].provider({ base_url: upstream.url, api_key: "key" }), model);
      const { response } = await provider.complete(
        forwardedRequest(requestOf({ messages, tools: [LOOKUP], reasoning_effort: "high" }), model),
      );
      expect(messageOf(response).content).toBe("ok");
    }
  });

  it("that is encrypted is sent back too, and is not shown", async () => {
    const caller = callerOfKind(kind, () => ({ reasoning: "secret", hidden: true, text: "done", calls: [] }));
    const { message } = await caller.stream({ reasoning_effort: "high" });
    expect(message.reasoning_content).toBeUndefined();
    expect(JSON.stringify(message)).not.toContain("secret");
    const messages = [{ role: "user" as const, content: "a" }, message, { role: "user" as const, content: "b" }];
    await caller.complete({ messages, reasoning_effort: "high" });
    const [detail] = message.reasoning_details ?? [];
    expect(JSON.stringify(upstream.requests[1]?.body)).toContain(JSON.stringify(detail?.data ?? detail?.signature));
  });

  it("is read as it is generated, and its tokens are output", async () => {
    const caller = callerOfKind(kind, THREE_STEPS);
    const { message, counts } = await caller.stream({ tools: [LOOKUP], reasoning_effort: "high" });
    expect(message.reasoning_content).toBe("step 0 needs a look");
    expect(counts).toMatchObject({ reasoning_tokens: 5, estimated: false });
  });
});

describe("OpenAI's Responses", () => {
  it("store nothing and return encrypted reasoning, and every setting is in its place", async () => {
    const caller = callerOfKind("openai", () => ({ text: "ok" }));
    await caller.complete({
      tools: [LOOKUP],
      tool_choice: { type: "function", function: { name: "lookup" } },
      parallel_tool_calls: false,
      reasoning: { effort: "low", summary: "detailed" },
      verbosity: "low",
      prompt_cache_key: "agent-1",
      user: "u",
      n: 1,
      store: false,
      include: [],
      metadata: { a: "b" },
      client_metadata: { c: "d" },
    });
    expect(upstream.requests[0]?.path).toBe("/v1/responses");
    expect(upstream.requests[0]?.body).toEqual({
      model: "gpt-6.1-terra",
      input: [{ role: "user", content: [{ type: "input_text", text: "hello" }] }],
      max_output_tokens: 50,
      store: false,
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "low", summary: "detailed" },
      text: { verbosity: "low" },
      prompt_cache_key: "agent-1",
      user: "u",
      parallel_tool_calls: false,
      tools: [{ type: "function", name: "lookup", parameters: LOOKUP.function.parameters, strict: false }],
      tool_choice: { type: "function", name: "lookup" },
    });
  });

  it("get temperature unchanged: the model decides", async () => {
    const caller = callerOfKind("openai", () => ({ text: "ok" }));
    await caller.complete({ temperature: 0.2, top_p: 0.5 });
    expect(upstream.requests[0]?.body).toMatchObject({ temperature: 0.2, top_p: 0.5 });
  });

  it.each([
    ["stop", "END"],
    ["seed", 7],
    ["logit_bias", { 1: 2 }],
  ])("lack %s, which is rejected by name", async (field, value) => {
    const caller = callerOfKind("openai", () => ({ text: "ok" }));
    expect(() => caller.complete({ [field]: value })).toThrow(
      expect.objectContaining({ code: "unsupported_parameter" }),
    );
    await caller.complete({ presence_penalty: 0.5, frequency_penalty: 0, stop: [] });
    expect(upstream.requests).toHaveLength(1);
  });

  it("that are cut by their cap say so, and one that its provider cuts is a failure", async () => {
    const caller = callerOfKind("openai", () => ({ text: "half", end: "length" }));
    expect((await caller.stream({})).finish).toBe("length");
    upstream.answer((response) => {
      const created = { type: "response.created", response: { id: "r", created_at: 1, model: "m" } };
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`data: ${JSON.stringify(created)}\n\n`);
    });
    expect((await failureOf(caller.stream({}))).code).toBe("upstream_error");
  });

  it("send PDF, pictures and pictures in results of tools", async () => {
    const caller = callerOfKind("openai", () => ({ text: "ok" }));
    await caller.complete({ messages: WITH_MEDIA });
    expect(upstream.requests[0]?.body.input).toMatchObject([
      {
        content: [
          { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" },
          { type: "input_image", image_url: PIXEL, detail: "low" },
        ],
      },
      { type: "function_call", call_id: "c1", name: "lookup", arguments: "{}" },
      { type: "function_call_output", output: [{ type: "input_text" }, { type: "input_image", image_url: PIXEL }] },
    ]);
  });

  it("get custom tools, and their calls and results from earlier messages", async () => {
    const caller = callerOfKind("openai", () => ({ text: "ok" }));
    const patch = {
      type: "custom" as const,
      custom: { name: "patch", description: "applies", format: { type: "text" } },
    };
    const call = { id: "c1", type: "custom" as const, custom: { name: "patch", input: "*** begin" } };
    const messages: ChatMessage[] = [
      { role: "user", content: "x" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: "done" },
    ];
    await caller.complete({ messages, tools: [patch] });
    expect(upstream.requests[0]?.body).toMatchObject({
      tools: [{ type: "custom", name: "patch" }],
      input: [
        {},
        { type: "custom_tool_call", call_id: "c1", name: "patch", input: "*** begin" },
        { type: "custom_tool_call_output", call_id: "c1", output: "done" },
      ],
    });
  });
});

const PIXEL = "data:image/png;base64,iVBORw0KGgo=";
const WITH_MEDIA: ChatMessage[] = [
  {
    role: "user",
    content: [
      { type: "file", file: { file_data: "data:application/pdf;base64,JVBERi0=", filename: "a.pdf" } },
      { type: "image_url", image_url: { url: PIXEL, detail: "low" } },
    ],
  },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "c1", type: "function", function: { name: "lookup", arguments: "{}" } }],
  },
  {
    role: "tool",
    tool_call_id: "c1",
    content: [
      { type: "text", text: "seen" },
      { type: "image_url", image_url: { url: PIXEL } },
    ],
  },
];

describe("Claude", () => {
  const ephemeral = { type: "ephemeral" as const };

  it("gets cache_control, pictures in results of tools, and one call at a time", async () => {
    const caller = callerOfKind("anthropic", () => ({ text: "ok" }));
    const [user, ...rest] = WITH_MEDIA;
    await caller.complete({
      messages: [
        { role: "system", content: [{ type: "text", text: "Be brief.", cache_control: ephemeral }] },
        user as ChatMessage,
        ...rest.slice(0, -1),
        { ...(rest.at(-1) as ChatMessage), cache_control: { ...ephemeral, ttl: "1h" } },
      ],
      tools: [{ ...LOOKUP, cache_control: ephemeral }],
      parallel_tool_calls: false,
    });
    expect(upstream.requests[0]?.body).toMatchObject({
      system: [{ type: "text", text: "Be brief.", cache_control: ephemeral }],
      tools: [{ name: "lookup", cache_control: ephemeral }],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      messages: [
        { content: [{ type: "document" }, { type: "image" }] },
        { content: [{ type: "tool_use" }] },
        {
          content: [
            {
              type: "tool_result",
              content: [
                { type: "text", text: "seen" },
                { type: "image", source: { media_type: "image/png" } },
              ],
              cache_control: { ...ephemeral, ttl: "1h" },
            },
          ],
        },
      ],
    });
  });

  it("gets its own settings of thinking, effort and context, and the caller's headers", async () => {
    const { reply } = createMessagesApi(() => ({ text: "ok" }));
    upstream.answer(reply);
    const provider = createAnthropicProvider({ base_url: upstream.url, api_key: "key" });
    const model = modelOfKind("anthropic", { id: "claude-opus-5-5", provider_model: "claude-opus-5-5" });
    const edits = [{ type: "clear_tool_uses_20250919", keep: { type: "tool_uses", value: 3 } }];
    const request = forwardedRequest(
      requestOf({
        thinking: { type: "adaptive" },
        output_config: { effort: "low" },
        context_management: { edits },
        metadata: { user_id: "u1" },
      }),
      model,
    );
    const headers = { "anthropic-beta": "fine-grained-tool-streaming-2025-05-14" };
    const prepared = await provider.prepare({ model, request, max_output_tokens: 5_000, stream: false, headers });
    await provider.complete(prepared, { signal: new AbortController().signal, deadline_ms: monotonicMs() + 20_000 });
    expect(upstream.requests[0]?.body).toMatchObject({
      thinking: { type: "adaptive" },
      output_config: { effort: "low" },
      context_management: { edits },
      metadata: { user_id: "u1" },
      max_tokens: 5_000,
    });
    expect(upstream.requests[0]?.headers["anthropic-beta"]).toContain("fine-grained-tool-streaming-2025-05-14");
    expect(upstream.requests[0]?.headers["anthropic-beta"]).toContain("context-management");
  });

  it("does not think after a call whose thinking was dropped, because its API rejects that", async () => {
    const caller = callerOfKind("anthropic", () => ({ text: "ok" }));
    const messages: ChatMessage[] = [
      { role: "user", content: "x" },
      { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: LOOKUP_CALL }] },
      { role: "tool", tool_call_id: "c1", content: "y" },
    ];
    await caller.complete({ messages, tools: [LOOKUP], reasoning_effort: "high" });
    expect(upstream.requests[0]?.body).not.toHaveProperty("thinking");
  });

  it("rejects a setting by its name", async () => {
    const caller = callerOfKind("anthropic", () => ({ text: "ok" }), { max_output_tokens: 8_000 });
    const error = await failureOf(caller.complete({ temperature: 0.2, thinking: { type: "adaptive" } }));
    expect(error.shape).toMatchObject({ status: 400, param: "temperature" });
  });
});

const LOOKUP_CALL = { name: "lookup", arguments: "{}" };

describe("Gemini", () => {
  it("gets system messages from any position, audio, PDF and pictures in results of tools", async () => {
    const caller = callerOfKind("google", () => ({ text: "ok" }));
    await caller.complete({
      messages: [
        { role: "system", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
            { type: "file", file: { file_data: "data:application/pdf;base64,JVBERi0=" } },
          ],
        },
        { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: LOOKUP_CALL }] },
        WITH_MEDIA.at(-1) as ChatMessage,
        { role: "developer", content: "Answer in French." },
      ],
      tools: [LOOKUP],
      seed: 7,
      temperature: 0.1,
    });
    const [sent] = upstream.requests;
    expect(sent?.body.systemInstruction.parts).toEqual([{ text: "Be brief." }, { text: "Answer in French." }]);
    expect(sent?.body.contents[0].parts).toEqual([
      { inlineData: { mimeType: "audio/wav", data: "AAAA" } },
      { inlineData: { mimeType: "application/pdf", data: "JVBERi0=" } },
    ]);
    expect(JSON.stringify(sent?.body.contents.at(-1))).toContain("iVBORw0KGgo=");
    expect(sent?.body.generationConfig).toMatchObject({ seed: 7, temperature: 0.1 });
  });
});
