import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAnthropicProvider } from "../../../src/gateway/models/anthropic.adapter.ts";
import { createGoogleProvider } from "../../../src/gateway/models/google.adapter.ts";
import { estimateCounts } from "../../../src/gateway/models/token-count.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import { hanging, startUpstream, type Upstream } from "../../support/upstream.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

let upstream: Upstream;
beforeEach(async () => {
  upstream = await startUpstream();
});
afterEach(() => upstream.close());

describe("a cancelled stream", () => {
  const options = () => ({ signal: new AbortController().signal, deadline_ms: monotonicMs() + 20_000 });

  it("of Claude is counted with the classes of input that the provider has reported", async () => {
    const usage = {
      input_tokens: 100,
      cache_read_input_tokens: 600,
      cache_creation_input_tokens: 300,
      output_tokens: 1,
      cache_creation: { ephemeral_5m_input_tokens: 200, ephemeral_1h_input_tokens: 100 },
    };
    const message = { id: "m", type: "message", role: "assistant", model: "c", content: [], stop_reason: null, usage };
    const named = (fields: { type: string; [field: string]: unknown }) =>
      `event: ${fields.type}\ndata: ${JSON.stringify(fields)}\n\n`;
    upstream.answer(
      hanging(
        named({ type: "message_start", message }),
        named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
        named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "12345678" } }),
      ),
    );
    const model = modelOf({ id: "claude-test", kind: "anthropic" });
    const provider = createAnthropicProvider({ base_url: upstream.url, api_key: "key" });
    const prepared = await provider.prepare({ model, request: requestOf(), max_output_tokens: 50, stream: true });
    const stream = await provider.stream(prepared, options());
    while (!JSON.stringify((await stream.parts.next()).value).includes("12345678"));
    stream.cancel();
    expect(stream.counts()).toEqual({
      input_tokens: 1_000,
      cached_input_tokens: 600,
      cache_write_tokens: 300,
      cache_write_1h_tokens: 100,
      output_tokens: 2,
      reasoning_tokens: 0,
      estimated: true,
    });
  });

  it("of Gemini is counted with the cached part that the provider has reported", async () => {
    const body = {
      candidates: [{ content: { role: "model", parts: [{ text: "12345678" }] }, index: 0 }],
      usageMetadata: { promptTokenCount: 1_000, cachedContentTokenCount: 600, candidatesTokenCount: 1 },
    };
    upstream.answer(hanging(`data: ${JSON.stringify(body)}\n\n`));
    const model = modelOf({ id: "gemini-test", kind: "google" });
    const provider = createGoogleProvider({ base_url: upstream.url, api_key: "key" });
    const prepared = await provider.prepare({ model, request: requestOf(), max_output_tokens: 50, stream: true });
    const stream = await provider.stream(prepared, options());
    while (!JSON.stringify((await stream.parts.next()).value).includes("12345678"));
    stream.cancel();
    expect(stream.counts()).toMatchObject({ input_tokens: 1_000, cached_input_tokens: 600, output_tokens: 2 });
  });

  it("of Gemini is counted with the thoughts that it has reported (attack: disconnecting before the last event)", async () => {
    const counted = { promptTokenCount: 1_000, candidatesTokenCount: 1, thoughtsTokenCount: 400 };
    const bodyOf = (text: string) => ({
      candidates: [{ content: { role: "model", parts: text === "" ? [] : [{ text }] }, index: 0 }],
      usageMetadata: counted,
    });
    const model = modelOf({ id: "gemini-test", kind: "google" });
    const provider = createGoogleProvider({ base_url: upstream.url, api_key: "key" });
    const prepared = await provider.prepare({ model, request: requestOf(), max_output_tokens: 500, stream: true });
    upstream.answer(hanging(...["", "12345678"].map((text) => `data: ${JSON.stringify(bodyOf(text))}\n\n`)));
    const stream = await provider.stream(prepared, options());
    expect(stream.counts()).toMatchObject({ output_tokens: 0, reasoning_tokens: 0 });
    while (!JSON.stringify((await stream.parts.next()).value).includes("12345678"));
    stream.cancel();
    expect(stream.counts()).toMatchObject({ output_tokens: 401, reasoning_tokens: 400, estimated: true });
  });

  it("before any report is billed for the caller's own fields (attack: a prompt in fields that are not converted)", async () => {
    const model = modelOf({ id: "claude-test", kind: "anthropic" });
    const provider = createAnthropicProvider({ base_url: upstream.url, api_key: "key" });
    const tools = [{ name: "t", input_schema: {}, input_examples: [{ a: "x".repeat(40_000) }] }];
    const native = { kind: "anthropic" as const, fields: () => ({ messages: [], tools }) };
    const asked = { model, request: requestOf(), max_output_tokens: 50, stream: true };
    const counts = estimateCounts(await provider.prepare({ ...asked, native }), 0);
    expect(counts.input_tokens).toBeGreaterThan(9_900);
    expect(counts.input_tokens).toBeLessThan(10_500);
  });
});
