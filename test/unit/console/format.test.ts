import { expect, test } from "vitest";
import { ago } from "../../../console/src/format.ts";

const local = (day: number, hour: number, month = 10) => new Date(2026, month, day, hour);

// 30 hours are a day and a quarter, but cross one or two midnights.
test.each([
  [local(24, 20), local(26, 2), "in 2 days"],
  [local(24, 2), local(25, 8), "tomorrow"],
  [local(26, 2), local(24, 20), "2 days ago"],
  [local(24, 20), local(23, 14), "yesterday"],
  [local(24, 20), local(25, 2), "in 6 hours"],
  [local(30, 12), local(14, 12, 12), "in 1 month"],
  [local(24, 20), local(24, 20), "just now"],
])("from %s the time %s is %s", (now, at, words) => {
  expect(ago(at.toISOString(), now)).toBe(words);
});
