import { expect, test } from "vitest";
import { countsOfUsage, estimateCounts, heldInput } from "../../../src/models/token-count.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

test.each([
  ["more than any model can write", { prompt_tokens: 10, completion_tokens: 100_000_001 }],
  ["nothing at all, as servers that do not count say", { prompt_tokens: 0, completion_tokens: 0 }],
  ["a negative count", { prompt_tokens: -1, completion_tokens: 5 }],
  ["a fraction", { prompt_tokens: 1.5, completion_tokens: 5 }],
  ["no report", undefined],
])("a provider that reports %s moves no money by it", (_, usage) => {
  expect(countsOfUsage(usage)).toBeNull();
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
    { cached: 0, written: 0 },
  ],
  [null, { cached: 0, written: 0 }],
])("cached and written tokens of %j are disjoint parts of the prompt", (prompt_tokens_details, { cached, written }) => {
  expect(countsOfUsage({ prompt_tokens: 100, completion_tokens: 7, prompt_tokens_details })).toMatchObject({
    input_tokens: 100,
    cached_input_tokens: cached,
    cache_write_tokens: written,
  });
});

test("an estimate counts pictures too", () => {
  const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  const request = requestOf({ messages: [{ role: "user", content: [{ type: "text", text: "what?" }, picture] }] });
  const call = { model: modelOf(), request, max_output_tokens: 50, stream: false };
  expect(estimateCounts({ ...call, ...heldInput(call, 200) }, "a cat").input_tokens).toBeGreaterThan(4_000);
});
