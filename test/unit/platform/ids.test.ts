import { expect, test } from "vitest";
import { isUuid, newId, stableId } from "../../../src/platform/ids.ts";

test("ids sort in the order they were made, those of one millisecond included", () => {
  const ids = Array.from({ length: 20_000 }, newId);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.every(isUuid)).toBe(true);
});

test("a stable id is a UUID that depends on the name alone", () => {
  expect(stableId("model/a")).toBe(stableId("model/a"));
  expect(stableId("model/a")).not.toBe(stableId("model/b"));
  expect(isUuid(stableId("model/a"))).toBe(true);
});
