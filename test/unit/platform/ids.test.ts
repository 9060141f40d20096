import { expect, test } from "vitest";
import { isUuid, newId, stableId } from "../../../src/platform/lib/ids.ts";

test("ids sort in the order of their creation, also within one millisecond", () => {
  const ids = Array.from({ length: 20_000 }, newId);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.every(isUuid)).toBe(true);
});

test("a stable id is a UUID that depends only on the name", () => {
  expect(stableId("model/a")).toBe(stableId("model/a"));
  expect(stableId("model/a")).not.toBe(stableId("model/b"));
  expect(isUuid(stableId("model/a"))).toBe(true);
});
