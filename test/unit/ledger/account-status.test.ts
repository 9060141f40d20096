import { expect, test } from "vitest";
import { type AccountFigures, toAccountStatus } from "../../../src/account/ledger/account-status.ts";

const now = "2026-03-01T12:00:00.000Z";
const before = "2026-03-01T11:59:59.999Z";
const after = "2026-03-01T12:00:00.001Z";
const rich: AccountFigures = {
  posted: 100,
  held: 40,
  debt: 0,
  trial_ends_at: null,
  paid_since: null,
  overage: 0,
  overage_held: 0,
  overage_cap: null,
};

test.each([
  ["nothing prevents a call", {}, null],
  ["the trial still runs", { trial_ends_at: after }, null],
  ["the trial ended, though tokens are left", { trial_ends_at: before }, "trial_ended"],
  ["the trial ends at this exact instant", { trial_ends_at: now }, "trial_ended"],
  ["the trial ended, and nothing is left either", { trial_ends_at: before, posted: 0, held: 0 }, "trial_ended"],
  ["the trial ended, but something was bought", { trial_ends_at: before, paid_since: before }, null],
  ["nothing is left", { posted: 0, held: 0 }, "out_of_tokens"],
  ["all remaining tokens are held", { held: 100 }, "in_flight_exhausted"],
  ["nothing is left, but overage is allowed", { posted: 0, held: 0, overage_cap: 10 }, null],
  ["the overage is also used up", { posted: 0, held: 0, overage_cap: 10, overage: 10 }, "overage_cap_reached"],
  ["the rest of the overage is held", { posted: 0, held: 0, overage_cap: 10, overage_held: 10 }, "in_flight_exhausted"],
])("%s", (_, figures, refusal) => {
  expect(toAccountStatus({ ...rich, ...figures }, now).refusal).toBe(refusal);
});

test("a trial is over after a purchase, also before its end", () => {
  expect(toAccountStatus({ ...rich, trial_ends_at: after }, now).is_trial).toBe(true);
  expect(toAccountStatus({ ...rich, trial_ends_at: after, paid_since: before }, now).is_trial).toBe(false);
});
