import { expect, test } from "vitest";
import { countsOfUsage, estimateCounts } from "../../../src/models/token-count.ts";

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

test("an estimate counts pictures too", () => {
  const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  const request = { model: "m", messages: [{ role: "user", content: [{ type: "text", text: "what?" }, picture] }] };
  expect(estimateCounts(request as never, "a cat").input_tokens).toBeGreaterThan(4_000);
});
