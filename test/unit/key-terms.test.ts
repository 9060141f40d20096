import { expect, test } from "vitest";
import { budgetResetsAt } from "../../src/api/contract/key-terms.ts";

// contract 3.3.1: intervals are in UTC, and weeks start on Monday.
test.each([
  ["day", "2026-02-28T23:59:59.999Z", "2026-03-01T00:00:00.000Z"],
  ["week", "2026-03-01T12:00:00.000Z", "2026-03-02T00:00:00.000Z"],
  ["week", "2026-03-02T00:00:00.000Z", "2026-03-09T00:00:00.000Z"],
  ["month", "2026-12-31T00:00:00.000Z", "2027-01-01T00:00:00.000Z"],
  [null, "2026-12-31T00:00:00.000Z", null],
] as const)("a budget of a %s that is read at %s resets at %s", (interval, now, resets_at) => {
  expect(budgetResetsAt(interval, now)).toBe(resets_at);
});
