import { expect, test } from "vitest";
import { daysInWords, forecast } from "../../../console/src/forecast.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const week = (cost_tokens: number) => ({
  daily_usage: Array.from({ length: 9 }, () => ({ cost_tokens })),
});
const trial = (trial_ends_at: string) => ({ is_trial: true, trial_ends_at });
const PAID = { is_trial: false, trial_ends_at: "2026-01-01T00:00:00Z" };

// The tokens of a trial expire with it, however few are used.
test.each([
  ["1,000 a day of 5,000", PAID, 1_000, { days: 5, why: "at the last week's rate, unless tokens expire first" }],
  ["no usage", PAID, 0, null],
  ["a trial that outlasts the tokens", trial("2026-03-20T12:00:00Z"), 1_000, { days: 5, why: expect.any(String) }],
  ["a trial that ends first", trial("2026-03-03T12:00:00Z"), 1_000, { days: 2, why: "then the trial ends" }],
  ["a trial without usage", trial("2026-03-03T12:00:00Z"), 0, { days: 2, why: "then the trial ends" }],
  ["a trial whose tokens are used up", { ...trial("2026-03-03T12:00:00Z"), token_balance: 0 }, 0, null],
])("the balance lasts: %s", (_, account, cost_tokens, expected) => {
  expect(forecast({ token_balance: 5_000, ...account }, week(cost_tokens), NOW)).toEqual(expected);
});

test.each([
  [0.4, "less than a day"],
  [1.9, "1 day"],
  [400, "over a year"],
])("%s days are %s", (days, words) => {
  expect(daysInWords(days)).toBe(words);
});
