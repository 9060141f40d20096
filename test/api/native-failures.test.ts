import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, settledBalance } from "../support/lab.ts";
import { NATIVE_KINDS, nativeConfig } from "../support/native-apis/lab.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { anthropicMessage, events, json, startUpstream, type Upstream } from "../support/upstream.ts";

// Failed and incomplete answers of the native APIs (contract 2.10.1, 4.7, 4.9.3, 4.12.3).

/** A key that does not look like any vendor's keys. */
const NATIVE_KEY = "team.Qx7!Kp3.Zr9";
const CHAT = "/api/v1/chat/completions";
let upstream: Upstream;
let service: Service;
let user: Client;
beforeAll(async () => {
  upstream = await startUpstream();
  service = await startService({ env: { NATIVE_KEY }, config: nativeConfig(upstream) });
});
afterAll(async () => {
  await expectCleanAudit(service);
  await service.stop();
  await upstream.close();
});
beforeEach(async () => {
  upstream.requests = [];
  user = await service.newUser({ trial: false, tokens: 1_000_000 });
});

it.each(NATIVE_KINDS)("%s: a redirect sends neither the key nor the prompt to another server", async (kind) => {
  const other = await startUpstream();
  upstream.answer((response) => void response.writeHead(307, { location: `${other.url}/elsewhere` }).end());
  for (const stream of [false, true]) {
    const { status, body } = await user.post(CHAT, ask(`native/${kind}`, { stream }));
    expect([status, body.error.code]).toEqual([502, "upstream_error"]);
  }
  expect([upstream.requests.length, other.requests]).toEqual([2, []]);
  expect(await charges(user)).toEqual([]);
  await other.close();
});

it.each(NATIVE_KINDS)("%s: a message that contains the operator's key is shown without it", async (kind) => {
  const message = `Incorrect API key provided: ${NATIVE_KEY}.`;
  upstream.answer(
    json({ type: "error", error: { type: "authentication_error", message, code: 401, status: "X" } }, 401),
  );
  for (const stream of [false, true]) {
    const { status, body } = await user.post(CHAT, ask(`native/${kind}`, { stream }));
    expect(JSON.stringify(body)).not.toContain("Kp3");
    expect([status, body.error.metadata.provider.message]).toEqual([502, "Incorrect API key provided: [redacted]."]);
  }
});

/** An answer of Gemini that fails after these parts. */
const malformed = (...parts: unknown[]) => ({
  candidates: [{ content: { role: "model", parts }, finishReason: "MALFORMED_FUNCTION_CALL", index: 0 }],
  usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 0, thoughtsTokenCount: 40, totalTokenCount: 48 },
});
const streamed = (body: object) => events(`data: ${JSON.stringify(body)}\n\n`);
const FAILED_RESPONSE = {
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "gpt",
  output: [],
  status: "failed",
  error: null,
  usage: { input_tokens: 3, output_tokens: 0, total_tokens: 3 },
};

const done = anthropicMessage([{ type: "text", text: "done" }], { input_tokens: 3, output_tokens: 2 });

it.each([
  ["a call that Gemini could not write", "google", json(malformed())],
  ["a response of OpenAI with the status failed", "openai", json(FAILED_RESPONSE)],
])("%s is a failure of the provider that costs nothing, and the next model answers", async (_, kind, failed) => {
  upstream.answer((...given) => (given[1].path.includes("/messages") ? done : failed)(...given));
  const { status, body } = await user.post(CHAT, ask(`native/${kind}`));
  expect([status, body.error.code]).toEqual([502, "upstream_error"]);
  expect(await charges(user)).toEqual([]);
  const fallback = await user.post(CHAT, ask(`native/${kind}`, { models: ["native/anthropic"] }));
  expect(fallback.body.choices[0].message.content).toBe("done");
});

it("a stream of Gemini that fails before any text costs nothing, and the next model answers", async () => {
  const usage = { input_tokens: 3, output_tokens: 2 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-test", content: [], usage };
  const spoken = events(
    ...[
      { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "done" } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
      { type: "message_stop" },
    ].map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`),
  );
  upstream.answer((...given) => (given[1].path.includes("/messages") ? spoken : streamed(malformed()))(...given));
  const { status, body } = await user.post(CHAT, ask("native/google", { stream: true }));
  expect([status, body.error.code]).toEqual([502, "upstream_error"]);
  expect(await charges(user)).toEqual([]);
  const fallback = await user.post(CHAT, ask("native/google", { stream: true, models: ["native/anthropic"] }));
  expect([fallback.status, fallback.body]).toEqual([200, expect.stringContaining("done")]);
});

it("a stream of Gemini that fails after its first text ends with an error event, and is charged for the text", async () => {
  upstream.answer(streamed(malformed({ text: "Let me see." })));
  const read = await openStream(service, user, ask("native/google"));
  expect(JSON.parse((await read.rest()).at(-1) ?? "").error).toMatchObject({ code: "upstream_error" });
  await settledBalance(user);
  expect(await charges(user)).toHaveLength(1);
});

it.each([false, true])("Messages name the stop sequence that ended Claude's answer (stream: %s)", async (stream) => {
  const ended = { stop_reason: "stop_sequence", stop_sequence: "END" };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-test" };
  const usage = { input_tokens: 3, output_tokens: 2 };
  const named = (type: string, fields: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
  const start = { ...message, content: [], stop_reason: null, stop_sequence: null, usage };
  upstream.answer(
    stream
      ? events(
          named("message_start", { message: start }),
          named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
          named("content_block_delta", { index: 0, delta: { type: "text_delta", text: "abc" } }),
          named("content_block_stop", { index: 0 }),
          named("message_delta", { delta: ended, usage: { output_tokens: 2 } }),
          named("message_stop", {}),
        )
      : json({ ...message, content: [{ type: "text", text: "abc" }], ...ended, usage }),
  );
  const client = new Anthropic({ baseURL: `${service.url}/api`, apiKey: user.key, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: "x" }];
  const asked = { model: "native/anthropic", max_tokens: 20, stop_sequences: ["END"], messages };
  const answer = stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked);
  expect(await answer).toMatchObject(ended);
});

it.each([false, true])(
  "Claude's events and blocks of unknown types are left out of the answer (stream: %s)",
  async (stream) => {
    const usage = { input_tokens: 3, output_tokens: 2 };
    const named = (type: string, fields: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
    const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-test", stop_sequence: null };
    const citation = { type: "future_location", cited_text: "abc" };
    const block = { type: "future_block", data: "x" };
    upstream.answer(
      stream
        ? events(
            named("message_start", { message: { ...message, content: [], stop_reason: null, usage } }),
            named("future_event", { a: 1 }),
            named("content_block_start", { index: 0, content_block: block }),
            named("content_block_stop", { index: 0 }),
            named("content_block_start", { index: 1, content_block: { type: "text", text: "" } }),
            named("content_block_delta", { index: 1, delta: { type: "citations_delta", citation } }),
            named("content_block_delta", { index: 1, delta: { type: "future_delta", a: 1 } }),
            named("content_block_delta", { index: 1, delta: { type: "text_delta", text: "abc" } }),
            named("content_block_stop", { index: 1 }),
            named("message_delta", {
              delta: { stop_reason: "end_turn", stop_sequence: null },
              usage: { output_tokens: 2 },
            }),
            named("message_stop", {}),
          )
        : json({
            ...message,
            content: [block, { type: "text", text: "abc", citations: [citation] }],
            stop_reason: "end_turn",
            usage,
          }),
    );
    const client = new Anthropic({ baseURL: `${service.url}/api`, apiKey: user.key, maxRetries: 0 });
    const asked = { model: "native/anthropic", max_tokens: 20, messages: [{ role: "user" as const, content: "x" }] };
    const answer = await (stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked));
    expect(answer).toMatchObject({ content: [{ type: "text", text: "abc" }], stop_reason: "end_turn" });
    expect(answer.usage).toMatchObject(usage);
    expect(await charges(user)).toHaveLength(1);
  },
);

it.each([false, true])(
  "OpenAI's items, parts, annotations and phases of unknown types are left out of the answer (stream: %s)",
  async (stream) => {
    const named = (type: string, fields: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
    const item = { type: "future_item", id: "item_1", a: 1 };
    const part = { type: "future_part", x: 1 };
    const annotation = { type: "future_annotation", x: 1 };
    const message = { type: "message", id: "msg_1", role: "assistant", status: "completed", phase: "future_phase" };
    const text = { type: "output_text", text: "abc", annotations: [annotation], logprobs: [] };
    const output = [item, { ...message, content: [part, text] }];
    const response = { id: "resp_1", object: "response", created_at: 1, model: "gpt" };
    const whole = { ...response, status: "completed", output, usage: { input_tokens: 3, output_tokens: 2 } };
    const at = { item_id: "msg_1", output_index: 1, content_index: 1 };
    upstream.answer(
      stream
        ? events(
            named("response.created", { response: { ...response, status: "in_progress", output: [], usage: null } }),
            named("response.output_item.added", { output_index: 0, item }),
            named("response.output_item.done", { output_index: 0, item }),
            named("response.output_item.added", { output_index: 1, item: { ...message, content: [] } }),
            named("response.content_part.added", { ...at, content_index: 0, part }),
            named("response.output_text.delta", { ...at, delta: "abc", logprobs: [] }),
            named("response.output_text.annotation.added", { ...at, annotation_index: 0, annotation }),
            named("response.output_item.done", { output_index: 1, item: output[1] as object }),
            named("response.completed", { response: whole }),
          )
        : json(whole),
    );
    const { status, body } = await user.post("/api/v1/responses", { model: "native/openai", input: "x", stream });
    const last = stream ? JSON.parse(body.split("data: ").at(-1)).response : body;
    expect([status, last.status, last.output]).toEqual([
      200,
      "completed",
      [expect.objectContaining({ type: "message" })],
    ]);
    expect(last.output[0].content).toMatchObject([{ type: "output_text", text: "abc", annotations: [] }]);
    expect(last.usage).toMatchObject({ input_tokens: 3, output_tokens: 2 });
    expect(await charges(user)).toHaveLength(1);
  },
);

it.each([
  ["openai", (deep: string) => `{"id":"r","created_at":1,"model":"m","output":[],"status":"completed","x":${deep}}`],
  ["anthropic", (deep: string) => messageWith(`{"type":"tool_use","id":"t","name":"now","input":${deep}}`)],
  ["google", (deep: string) => geminiWith(`{"functionCall":{"name":"now","args":${deep}}}`)],
] as const)("%s: an answer of more than 1,000 levels of JSON costs nothing", async (kind, answerWith) => {
  upstream.answer((response) => {
    const deep = `${'{"a":'.repeat(1_001)}1${"}".repeat(1_001)}`;
    response.writeHead(200, { "content-type": "application/json" }).end(answerWith(deep));
  });
  const { status, body } = await user.post(CHAT, ask(`native/${kind}`));
  expect([status, body.error?.code]).toEqual([502, "upstream_error"]);
  expect(await charges(user)).toEqual([]);
});

/** A message of Claude, or an answer of Gemini, with this part, as JSON. */
function messageWith(part: string): string {
  const usage = { input_tokens: 3, output_tokens: 2 };
  const message = { id: "m", type: "message", role: "assistant", model: "c", stop_reason: "tool_use", usage };
  return JSON.stringify({ ...message, content: ["PART"] }).replace('"PART"', part);
}
function geminiWith(part: string): string {
  const candidates = [{ content: { role: "model", parts: ["PART"] }, finishReason: "STOP", index: 0 }];
  const usageMetadata = { promptTokenCount: 8, candidatesTokenCount: 2, totalTokenCount: 10 };
  return JSON.stringify({ candidates, usageMetadata }).replace('"PART"', part);
}
