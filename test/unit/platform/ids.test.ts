import { expect, test } from "vitest";
import { isUuid, newId, randomHex, stableId } from "../../../src/platform/lib/ids.ts";

test("ids sort in the order of their creation, also within one millisecond", () => {
  const ids = Array.from({ length: 20_000 }, newId);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.every(isUuid)).toBe(true);
});

test("random digits have the requested length and never repeat, also between ids", () => {
  const all = Array.from({ length: 5_000 }, (_, nth) => {
    newId();
    return randomHex(nth % 2 === 0 ? 6 : 16);
  });
  expect(all.every((hex, nth) => /^[0-9a-f]+$/.test(hex) && hex.length === (nth % 2 === 0 ? 12 : 32))).toBe(true);
  expect(new Set(all).size).toBe(all.length);
});

test("a stable id is a UUID that depends only on the name", () => {
  expect(stableId("model/a")).toBe(stableId("model/a"));
  expect(stableId("model/a")).not.toBe(stableId("model/b"));
  expect(isUuid(stableId("model/a"))).toBe(true);
});
