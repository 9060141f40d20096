import { expect, test } from "vitest";
import { isTooDeep, jsonbText } from "../../../src/platform/lib/json.ts";

test.each<[unknown, unknown]>([
  ["a\0b", "a\ufffdb"],
  ["half \ud83d", "half \ufffd"],
  ["half \udc00", "half \ufffd"],
  ["whole 😀", "whole 😀"],
  ["written out: \\u0000 \\ud83d", "written out: \\u0000 \\ud83d"],
  ["\\\0", "\\\ufffd"],
  [{ "a\0": ["\0"] }, { "a\ufffd": ["\ufffd"] }],
  [null, null],
  [undefined, null],
])("%j is stored without the characters that jsonb rejects", (value, stored) => {
  expect(JSON.parse(jsonbText(value))).toEqual(stored);
});

const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
test.each<[string, string, boolean]>([
  ["1,000 levels", nested(1_000), false],
  ["1,001 levels", nested(1_001), true],
  ["objects in lists", `${'[{"a":'.repeat(600)}1${"}]".repeat(600)}`, true],
  ["many flat texts", `${nested(900)}\n\n`.repeat(5), false],
  ["brackets in a string", JSON.stringify({ a: "[".repeat(5_000), b: '\\"[' }), false],
  ["levels after a string that does not end", `{"a": "\n\n${nested(1_001)}`, true],
  ["levels after brackets that close nothing", `${"]".repeat(2_000)}${nested(1_001)}`, true],
])("%s", (_name, text, is_too_deep) => {
  expect(isTooDeep(text)).toBe(is_too_deep);
});
