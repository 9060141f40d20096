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

test("an estimate counts pictures too", () => {
  const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  const request = requestOf({ messages: [{ role: "user", content: [{ type: "text", text: "what?" }, picture] }] });
  const call = { model: modelOf(), request, max_output_tokens: 50, stream: false };
  expect(estimateCounts({ ...call, ...heldInput(call, 200) }, "a cat").input_tokens).toBeGreaterThan(4_000);
});
