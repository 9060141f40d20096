import { describe, expect, it } from "vitest";
import { isSpeech, newThoughts, readOnMs, withLikelyThoughts } from "../../../src/gateway/completions/after-hang-up.ts";
import type { AnswerEvent } from "../../../src/gateway/models/answer-events.ts";
import { mayReason } from "../../../src/gateway/models/reasoning.ts";
import { READ_ON } from "../../../src/kernel/constants.ts";
import { modelOf, requestOf } from "../models/model-fixture.ts";

describe("a call is read on after a hang-up (contract 4.7.1)", () => {
  const thoughts = { ...newThoughts(), sent_ms: 0 };
  const caller = { is_run: false };
  it.each([
    ["not at all before it is sent", { ...thoughts, sent_ms: null }, 0, 0],
    ["30 s where the model may reason", { ...thoughts, are_likely: true }, 100, READ_ON.thinking_ms],
    ["30 s while it has said nothing for 2 s", thoughts, 2_000, READ_ON.thinking_ms],
    ["30 s if it began to speak after 2 s", { ...thoughts, spoke_ms: 2_000 }, 9_000, READ_ON.thinking_ms],
    ["3 s otherwise", { ...thoughts, spoke_ms: 500 }, 9_000, READ_ON.other_ms],
  ])("%s", (_, known, now_ms, expected) => {
    expect(readOnMs(known, now_ms, caller)).toBe(expected);
  });

  it("1 s in a run, so that a cancelled run ends within 2 s", () => {
    expect(readOnMs({ ...thoughts, spoke_ms: 500 }, 9_000, { is_run: true })).toBe(READ_ON.run_ms);
  });
});

describe("the likely thoughts of a call without a report", () => {
  const counts = {
    input_tokens: 10,
    cached_input_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 40,
    reasoning_tokens: 0,
    estimated: true,
  };
  const request = { request: requestOf(), max_output_tokens: 2_000 };
  const thinking = { ...newThoughts(), are_likely: true, sent_ms: 0 };
  it.each([
    ["100 per second until now, without those that were shown", thinking, counts, 1_000 - 40],
    ["100 per second until the answer's text", { ...thinking, spoke_ms: 5_000, shown_tokens: 30 }, counts, 500 - 30],
    ["none if all were shown", { ...thinking, spoke_ms: 5_000, shown_tokens: 600 }, counts, 0],
    ["none of a model that does not reason", { ...thinking, are_likely: false }, counts, 0],
    ["none if the provider has reported them", thinking, { ...counts, reasoning_tokens: 7 }, 7],
    ["none beside a final report", thinking, { ...counts, estimated: false }, 0],
  ])("are %s", (_, thoughts, reported, expected) => {
    const added = withLikelyThoughts(reported, request, { thoughts, now_ms: 10_000 });
    expect(added.reasoning_tokens).toBe(expected);
    expect(added.output_tokens).toBe(reported.output_tokens + expected - reported.reasoning_tokens);
  });

  it("are never above the output cap, which the hold covers", () => {
    const added = withLikelyThoughts(counts, request, { thoughts: thinking, now_ms: 1_000_000 });
    expect(added.output_tokens).toBe(2_000);
  });
});

it.each<[string, AnswerEvent, boolean, boolean]>([
  ["text", { type: "text", choice: 0, text: "hi" }, true, true],
  ["a call", { type: "call", choice: 0, at: 0, tool: "function", id: "a", name: "f", text: "" }, true, true],
  ["the start", { type: "start", id: "a", created: 1, model: "m" }, false, false],
  ["reasoning", { type: "reasoning", choice: 0, text: "hm" }, true, false],
])("thoughts end with %s: of servers with chat completions, and of other APIs", (_, event, compatible, other) => {
  expect(isSpeech([event], { model: modelOf() })).toBe(compatible);
  expect(isSpeech([event], { model: modelOf({ kind: "openai" }) })).toBe(other);
});

it.each([
  ["a setting of OpenAI", "openai-compatible", "m", { reasoning_effort: "low" }, true],
  ["a setting of Anthropic", "anthropic", "claude-x", { thinking: { type: "adaptive" } }, true],
  ["a setting of vLLM or DashScope", "openai-compatible", "m", { enable_thinking: true }, true],
  ["a setting of OpenRouter", "openai-compatible", "m", { reasoning: { max_tokens: 2_000 } }, true],
  ["an effort", "anthropic", "claude-x", { output_config: { effort: "high" } }, true],
  ["the default of OpenAI's models", "openai", "gpt-6-luna", {}, true],
  ["the default of Gemini", "google", "gemini-3.5-flash", {}, true],
  ["none of a model without reasoning", "openai", "gpt-4.1", {}, false],
  ["none of an older Gemini", "google", "gemini-2.0-flash", {}, false],
  ["none of an unknown server", "openai-compatible", "m", {}, false],
  ["a setting that switches it off", "openai", "gpt-6-luna", { reasoning_effort: "none" }, false],
  ["thinking that is disabled", "google", "gemini-3.5-flash", { thinking: { type: "disabled" } }, false],
] as const)("whether a model may reason is known from %s", (_, kind, provider_model, fields, expected) => {
  expect(mayReason(requestOf(fields), { kind, provider_model })).toBe(expected);
});
