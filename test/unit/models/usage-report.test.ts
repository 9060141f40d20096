import { expect, test } from "vitest";
import { estimateCounts, heldInput } from "../../../src/gateway/models/token-count.ts";
import { countsOfUsage, isBelievable, type ReportedCall } from "../../../src/gateway/models/usage-report.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

test.each([
  ["nothing at all, as servers that do not count say", { prompt_tokens: 0, completion_tokens: 0 }],
  ["a negative count", { prompt_tokens: -1, completion_tokens: 5 }],
  ["a fraction", { prompt_tokens: 1.5, completion_tokens: 5 }],
  ["no report", undefined],
])("a provider's report of %s changes no charge", (_, usage) => {
  expect(countsOfUsage(usage)).toBeNull();
});

/** The model reads 128,000 tokens and writes 4,096. */
const believes = (usage: object, call: Partial<ReportedCall> = {}, received = "") => {
  const report = countsOfUsage({ prompt_tokens: 10, completion_tokens: 4, ...usage });
  if (report === null) throw new Error("no report");
  return isBelievable(report, { model: modelOf(), request: {}, input_tokens: 20, ...call }, () =>
    Buffer.byteLength(received),
  );
};
const thinking = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } });

test.each([
  ["input of twice the context window", { prompt_tokens: 256_000 }, {}],
  ["input of twice what is held", { prompt_tokens: 800_000 }, { input_tokens: 400_000 }],
  ["output of twice the model's cap", { completion_tokens: 8_192 }, {}],
  ["output of n choices", { completion_tokens: 16_384 }, { request: { n: 2 } }],
  ["reasoning far above the cap", { completion_tokens: 108_192, ...thinking(100_000) }, {}],
  ["reasoning of n choices", { completion_tokens: 240_000, ...thinking(240_000) }, { request: { n: 2 } }],
  ["an embedding", { completion_tokens: 0 }, { model: modelOf({ max_output_tokens: 0 }) }],
])("a report is believed that says %s", (_, usage, call) => {
  expect(believes(usage, call)).toBe(true);
});

test.each([
  ["input", { prompt_tokens: 256_001 }, {}],
  ["input, 90 million", { prompt_tokens: 90_000_000 }, {}],
  ["output", { completion_tokens: 8_193 }, {}],
  ["output of n choices", { completion_tokens: 16_385 }, { request: { n: 2 } }],
  ["reasoning", { completion_tokens: 90_000_000, ...thinking(90_000_000) }, {}],
  ["output beside its reasoning", { completion_tokens: 18_193, ...thinking(10_000) }, {}],
  ["output of an embedding", {}, { model: modelOf({ max_output_tokens: 0 }) }],
])("a report is not believed that says more than twice the possible %s", (_, usage, call) => {
  expect(believes(usage, call)).toBe(false);
});

test("output above the cap is believed if as much text was received: a token has a byte at least", () => {
  expect(believes({ completion_tokens: 20_000 }, {}, "x".repeat(20_000))).toBe(true);
  expect(believes({ completion_tokens: 20_003 }, {}, "x".repeat(20_000))).toBe(false);
});

test("a plausible report is taken as it is", () => {
  expect(countsOfUsage({ prompt_tokens: 42, completion_tokens: 7 })).toMatchObject({
    input_tokens: 42,
    output_tokens: 7,
    estimated: false,
  });
});

test.each([
  [
    { cached_tokens: 60, cache_write_tokens: 30 },
    { cached: 60, written: 30 },
  ],
  [
    { cached_tokens: 60, cache_write_tokens: 60 },
    { cached: 60, written: 40 },
  ],
  [
    { cached_tokens: 900, cache_write_tokens: 900 },
    { cached: 100, written: 0 },
  ],
  [
    { cached_tokens: -1, cache_write_tokens: 1.5 },
    { cached: 0, written: 0 },
  ],
  [
    { cached_tokens: null, cache_write_tokens: "9" },
    { cached: 0, written: 9 },
  ],
  [null, { cached: 0, written: 0 }],
])("cached and written tokens of %j are disjoint parts of the prompt", (prompt_tokens_details, { cached, written }) => {
  expect(countsOfUsage({ prompt_tokens: 100, completion_tokens: 7, prompt_tokens_details })).toMatchObject({
    input_tokens: 100,
    cached_input_tokens: cached,
    cache_write_tokens: written,
  });
});

test("an estimate counts pictures too", async () => {
  const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  const request = requestOf({ messages: [{ role: "user", content: [{ type: "text", text: "what?" }, picture] }] });
  const call = { model: modelOf(), request, max_output_tokens: 50, stream: false };
  expect(estimateCounts({ ...call, ...heldInput(call, 200) }, 5).input_tokens).toBeGreaterThan(4_000);
});
