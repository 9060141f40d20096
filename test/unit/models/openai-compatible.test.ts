import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AnswerPart } from "../../../src/gateway/models/answer-events.ts";
import { createOpenAiCompatible } from "../../../src/gateway/models/openai-compatible.adapter.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";
import {
  completion,
  cut,
  delta,
  event,
  events,
  hanging,
  json,
  startUpstream,
  stream,
  type Upstream,
} from "../../support/upstream.ts";
import {
  callerOf,
  chatText,
  chunksOf,
  contentOf,
  modelOf,
  partsOfStream,
  requestOf,
  textOfStream,
} from "./model-fixture.ts";

let upstream: Upstream;
let call: ReturnType<typeof callerOf>;

beforeEach(async () => {
  upstream = await startUpstream();
  const provider = createOpenAiCompatible({ base_url: upstream.url, api_key: "key-of-lab" });
  call = callerOf(provider);
});
afterEach(() => upstream.close());

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable(),
    (error: PurserError) => error,
  );

const DEEP = JSON.parse(`${"[".repeat(2_000)}${"]".repeat(2_000)}`);

describe("a request", () => {
  it("is sent unchanged except model, cap and usage", async () => {
    const { model, messages, ...fields } = requestOf({ temperature: 0.5, logit_bias: { 50256: -100 }, n: 1 });
    await call.complete({ model, messages, ...fields, max_tokens: 9_999 });
    await textOfStream(await call.stream({ model, messages, ...fields, stream_options: { include_usage: false } }));
    const [plain, streamed] = upstream.requests;
    expect(plain?.path).toBe("/v1/chat/completions");
    expect(plain?.headers.authorization).toBe("Bearer key-of-lab");
    expect(plain?.body).toEqual({ model: "fake-large", messages, ...fields, max_tokens: 50 });
    expect(streamed?.body).toMatchObject({ stream: true, stream_options: { include_usage: true }, max_tokens: 50 });
  });

  it("uses the caller's name for the cap", async () => {
    const provider = createOpenAiCompatible({ base_url: `${upstream.url}/`, api_key: null });
    await callerOf(provider).complete(requestOf({ max_completion_tokens: 7 }));
    expect(upstream.requests[0]?.body).toMatchObject({ max_completion_tokens: 50 });
    expect(upstream.requests[0]?.body).not.toHaveProperty("max_tokens");
    expect(upstream.requests[0]?.headers).not.toHaveProperty("authorization");
  });
});

describe("an answer", () => {
  it("keeps the provider's fields, names the requested model and counts as reported", async () => {
    upstream.answer(
      completion("hi", {
        prompt_tokens: 12,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 3 },
        completion_tokens_details: { reasoning_tokens: 3 },
      }),
    );
    const { response, counts } = await call.complete();
    expect(response).toMatchObject({ id: "chatcmpl-upstream", model: "lab/small", object: "chat.completion" });
    expect(response.choices[0]?.message.content).toBe("hi");
    expect(counts).toEqual({
      input_tokens: 12,
      output_tokens: 5,
      cached_input_tokens: 8,
      cache_write_tokens: 3,
      cache_write_1h_tokens: 0,
      reasoning_tokens: 3,
      estimated: false,
    });
  });

  it("counts reasoning as output, also if the provider reports it outside completion_tokens", async () => {
    // xAI's own example: by the total, the 94 are not part of the 9.
    const completion_tokens_details = { reasoning_tokens: 94 };
    upstream.answer(
      completion("hi", { prompt_tokens: 32, completion_tokens: 9, total_tokens: 135, completion_tokens_details }),
    );
    expect((await call.complete()).counts).toMatchObject({ output_tokens: 103, reasoning_tokens: 94 });
  });

  it.each([
    ["missing", null],
    ["negative", { prompt_tokens: -1, completion_tokens: 4 }],
    ["fractional", { prompt_tokens: 1, completion_tokens: 0.5 }],
    ["text", { prompt_tokens: "ten" as never, completion_tokens: 4 }],
    ["absurd", { prompt_tokens: 1e15, completion_tokens: 4 }],
  ])("whose usage is %s is counted by Purser, and marked as estimated", async (_, usage) => {
    upstream.answer(completion("12345678", usage));
    const { counts } = await call.complete();
    // ceil(bytes / 4) of "hello" and of the answer
    expect(counts).toMatchObject({ input_tokens: 2, output_tokens: 2, estimated: true });
  });

  it.each([
    ["no JSON", (response: import("node:http").ServerResponse) => void response.end("<html>busy</html>")],
    ["no completion", json({ ok: true })],
    ["a completion of 2,000 levels", json({ choices: [{ message: { role: "assistant", content: "a", deep: DEEP } }] })],
    ["an error with status 200", json({ error: { message: "secret detail" } })],
    ["a completion without choices", json({ object: "chat.completion", choices: [] })],
    ["a connection that closes", (response: import("node:http").ServerResponse) => void response.destroy()],
  ])("that is %s is the provider's failure", async (_, reply) => {
    upstream.answer(reply);
    const error = await failureOf(call.complete());
    expect(error.shape).toMatchObject({ status: 502, code: "upstream_error" });
    expect(error.message).not.toContain("secret detail");
  });

  it("without an end is not read further", async () => {
    upstream.answer((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const more = () => {
        while (response.write("x".repeat(1_048_576))) {}
        response.once("drain", more);
      };
      more();
    });
    expect((await failureOf(call.complete())).code).toBe("upstream_error");
    await upstream.until(() => upstream.hangUps === 1);
  });
});

describe("an error of the provider", () => {
  const secret = "sk-live-1234 at https://internal.lab";
  it.each([
    [400, { code: "context_length_exceeded" }, { status: 400, code: "context_length_exceeded", param: "messages" }],
    [400, { message: "This model's maximum context length is 8" }, { status: 400, code: "context_length_exceeded" }],
    [400, { param: "temperature" }, { status: 400, code: "invalid_value", param: "temperature" }],
    [422, { param: `<script>${secret}` }, { status: 400, code: "invalid_value", param: undefined }],
    [401, {}, { status: 502, code: "upstream_error" }],
    [404, {}, { status: 502, code: "upstream_error" }],
    [429, {}, { status: 502, code: "upstream_error" }],
    [500, {}, { status: 502, code: "upstream_error" }],
    [503, {}, { status: 502, code: "upstream_error" }],
    [504, {}, { status: 504, code: "upstream_timeout" }],
  ])("with status %i is reported only with Purser's message", async (status, fields, shape) => {
    upstream.answer(json({ error: { message: secret, ...fields } }, status));
    for (const attempt of [call.complete(), call.stream()]) {
      const error = await failureOf(attempt);
      expect(error.shape).toMatchObject(shape);
      expect(JSON.stringify(error.shape)).not.toContain("sk-live");
    }
  });

  it("keeps the provider's status, code and message for the caller, without keys and addresses", async () => {
    const message = `temperature must be 1 with ${secret}, key AbCdEf0123456789AbCdEf, org-acme12 and 10.1.2.3`;
    upstream.answer(json({ error: { message, code: "bad_value" } }, 400));
    const { shape } = await failureOf(call.complete());
    expect(shape.metadata?.provider).toEqual({
      status: 400,
      code: "bad_value",
      message: "temperature must be 1 with [redacted] at [redacted] key [redacted], [redacted] and [redacted]",
    });
    expect(shape.param).toBe("temperature");
  });

  it("by a closed port is a failure, and a slow one a timeout", async () => {
    const closed = createOpenAiCompatible({
      base_url: "http://127.0.0.1:1/v1",
      api_key: null,
    });
    expect((await failureOf(callerOf(closed).complete())).code).toBe("upstream_error");
    upstream.answer(() => {});
    expect((await failureOf(call.complete(requestOf(), { wait_ms: 100 }))).code).toBe("upstream_timeout");
  });
});

describe("a stream", () => {
  it("is relayed with the requested model's name, without usage and [DONE]", async () => {
    upstream.answer(stream(["Hel", "lo"]));
    const relayed = await call.stream();
    const parts = await partsOfStream(relayed);
    const text = chatText(parts);
    expect(contentOf(text)).toBe("Hello");
    expect(new Set(chunksOf(text).map((chunk) => chunk.model))).toEqual(new Set(["lab/small"]));
    expect(text).not.toMatch(/usage|DONE|fake-large/);
    expect(parts[0]?.events[0]).toMatchObject({ type: "start", id: "chatcmpl-upstream", created: 1_700_000_000 });
    expect(relayed.counts()).toMatchObject({ input_tokens: 10, output_tokens: 4, estimated: false });
  });

  it("does not change a text that imitates models, usage and the end", async () => {
    const said =
      'They wrote "model":"fake-large", "usage":{"x":1}, data: [DONE] and {"error":1}\n\ndata: {"choices":[]}';
    upstream.answer(stream([said, "é😀"]));
    expect(contentOf(await textOfStream(await call.stream()))).toBe(`${said}é😀`);
  });

  it("uses the last usage if every chunk repeats it, and bills it once", async () => {
    const chunk = (content: string, completion_tokens: number) =>
      event({ choices: [{ index: 0, delta: { content } }], usage: { prompt_tokens: 10, completion_tokens } });
    upstream.answer(events(chunk("a", 1), chunk("b", 2), chunk("c", 3), "data: [DONE]\n\n"));
    const relayed = await call.stream();
    const text = await textOfStream(relayed);
    expect(contentOf(text)).toBe("abc");
    expect(text).not.toContain("usage");
    expect(relayed.counts()).toMatchObject({ input_tokens: 10, output_tokens: 3 });
  });

  it("passes on comments, odd line ends and chunks whose usage is null", async () => {
    const null_usage = delta("b").replace('"choices"', '"usage":null,"choices"');
    upstream.answer(
      events(
        ": ping\n\n",
        delta("a").replaceAll("\n", "\r\n"),
        null_usage,
        delta("c").replace("data: ", "data:"),
        "data: [DONE]\r\n\r\n",
      ),
    );
    const text = await textOfStream(await call.stream());
    expect(text).toContain(": ping");
    expect(text.match(/"content":"[abc]"/g)).toHaveLength(3);
  });

  it("is counted from its text when it is cancelled, and the provider is disconnected at once", async () => {
    const leaving = new AbortController();
    upstream.answer(hanging(delta("12345678"), delta("90")));
    const relayed = await call.stream(requestOf(), { signal: leaving.signal });
    let text = "";
    while (contentOf(text) !== "1234567890") text += chatText([(await relayed.parts.next()).value as AnswerPart]);
    const pending = failureOf(relayed.parts.next());
    leaving.abort(new Error("gone"));
    expect((await pending).message).toBe("gone");
    await upstream.until(() => upstream.hangUps === 1);
    expect(relayed.counts()).toMatchObject({ input_tokens: 2, output_tokens: 3, estimated: true });
  });

  it("counts tool calls and reasoning as output too", async () => {
    const call_delta = { tool_calls: [{ index: 0, id: "1", function: { name: "find", arguments: '{"q":1}' } }] };
    upstream.answer(
      events(
        event({ choices: [{ index: 0, delta: { reasoning_content: "hmm, " } }] }),
        event({ choices: [{ index: 0, delta: call_delta, finish_reason: "tool_calls" }] }),
        "data: [DONE]\n\n",
      ),
    );
    const relayed = await call.stream();
    await textOfStream(relayed);
    // "hmm, " + "find" + '{"q":1}' are 16 bytes
    expect(relayed.counts()).toMatchObject({ output_tokens: 4, estimated: true });
  });

  it.each([
    ["is cut off", cut(delta("a"))],
    ["ends without an end", events(delta("a"))],
    ["turns into an error", events(delta("a"), 'data: {"error":{"message":"secret detail"}}\n\n', "data: [DONE]\n\n")],
    ["never ends a line", hanging(delta("a"), `data: ${"x".repeat(1_200_000)}`)],
    ["has usage that is no JSON", events(delta("a"), 'data: {"usage":{oops}\n\n')],
  ])("that %s fails, and its output so far is counted", async (_, reply) => {
    upstream.answer(reply);
    const relayed = await call.stream();
    const error = await failureOf(textOfStream(relayed));
    expect(error.shape).toMatchObject({ status: 502, code: "upstream_error" });
    expect(error.message).not.toContain("secret detail");
    expect(relayed.counts()).toMatchObject({ output_tokens: 1, estimated: true });
  });

  it("whose first event is no chunk fails before any output", async () => {
    upstream.answer(events("data: <html>\n\n"));
    expect((await failureOf(textOfStream(await call.stream()))).code).toBe("upstream_error");
  });

  it("ends at [DONE], also if the provider does not close it", async () => {
    upstream.answer(hanging(delta("a"), "data: [DONE]\n\n"));
    expect(contentOf(await textOfStream(await call.stream()))).toBe("a");
  });

  it("frees its connection for later requests", async () => {
    const ports = new Set<number | undefined>();
    upstream.answer((response, request) => {
      ports.add(response.socket?.remotePort);
      return stream(["a"])(response, request);
    });
    for (let index = 0; index < 20; index += 1) await textOfStream(await call.stream());
    // A request before the end of the last one's bytes opens one more connection.
    expect(ports.size).toBeLessThanOrEqual(3);
  });
});

it("a prompt is held at half a token per byte at least and a fixed amount per image", async () => {
  const provider = createOpenAiCompatible({ base_url: upstream.url, api_key: null });
  const image = { type: "image_url", image_url: { url: "https://pictures.test/a.png" } };
  const prepare = (content: string | (typeof image)[]) =>
    provider.prepare({
      model: modelOf(),
      request: requestOf({ messages: [{ role: "user", content }] }),
      max_output_tokens: 50,
      stream: false,
    });
  const sent = { messages: [{ role: "user", content: "é".repeat(1_000) }], model: "fake-large", max_tokens: 50 };
  const plain = await prepare("é".repeat(1_000));
  expect(plain.input_tokens).toBe(Math.ceil(Buffer.byteLength(JSON.stringify(sent)) / 2));
  expect((await prepare([image, image])).input_tokens).toBeGreaterThan(8_192);
  const inline = { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(1_000_000)}` } };
  expect((await prepare([inline])).input_tokens).toBeLessThan(4_096 + 200);
  const text = { type: "image_url", image_url: { url: `data:image/png;base64,${"word ".repeat(1_000)}` } };
  expect((await prepare([text])).input_tokens).toBeGreaterThan(4_096 + 2_500);
});
