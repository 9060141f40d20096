import { expect, test } from "vitest";
import { jsonbText, storableText } from "../../../src/platform/json.ts";

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
])("%j is stored without what jsonb refuses", (value, stored) => {
  expect(JSON.parse(jsonbText(value))).toEqual(stored);
});

test("text is stored without NUL and half surrogate pairs", () => {
  expect(storableText("a\0b\ud83d😀")).toBe("a\ufffdb\ufffd😀");
});
