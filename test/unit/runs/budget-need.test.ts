import { describe, expect, test } from "vitest";
import { ledgerErrors } from "../../../src/account/ledger/errors.ts";
import {
  type BudgetNeed,
  describeNeed,
  explainNeed,
  findReachedLimit,
  findRelief,
} from "../../../src/agents/runs/budget-need.ts";
import { MONTHLY_CAP } from "../../../src/gateway/completions/reservation.ts";
import { gatewayErrors } from "../../../src/gateway/models/errors.ts";
import { errors } from "../../../src/kernel/errors.ts";

const NOW = "2026-11-28T10:00:00.000Z";
const FIGURES = { required: 900, available: 100, held: 0, shortfall: 800 };
const MEANS = { may_subscribe: true, overage: "never" } as const;
const payment = (code: Parameters<typeof ledgerErrors.payment>[0]) => ledgerErrors.payment(code, FIGURES, MEANS);

describe("the limit that a model call has reached", () => {
  test.each([
    ["the run's cap", gatewayErrors.runBudgetExceeded(), "run"],
    ["the agent's month", gatewayErrors.monthlyBudgetExceeded(MONTHLY_CAP), "month"],
    ["the balance", payment("insufficient_balance"), "balance"],
    ["an account without tokens", payment("out_of_tokens"), "balance"],
    ["a trial that has ended", payment("trial_ended"), "balance"],
    ["the cap of overage", payment("overage_cap_reached"), "balance"],
    ["the budget of its key, which its creator set", payment("key_budget_exceeded"), null],
    ["the budget of an end user", payment("end_user_budget_exceeded"), null],
    ["a provider's failure", errors.invalidValue("model", "It is gone."), null],
    ["a defect", new Error("boom"), null],
  ])("is found for %s", (_name, thrown, limit) => {
    expect(findReachedLimit(thrown)).toBe(limit);
  });
});

const OWN = { max_cost_tokens_per_run: 1_000, max_cost_tokens_per_month: 5_000 };
const needOf = (limit: BudgetNeed["limit"], caps = OWN) =>
  describeNeed(gatewayErrors.runBudgetExceeded().with({ needed_tokens: 420 }), limit, {
    own: OWN,
    caps,
    refills: 3,
    now: NOW,
  });

test("a need has what is missing, the cap in force, and what would help", () => {
  expect(needOf("run", { ...OWN, max_cost_tokens_per_run: 2_000 })).toEqual({
    limit: "run",
    needed_tokens: 420,
    cap_tokens: 2_000,
    added_tokens: 1_000,
    refills: null,
    renews_at: null,
    error: { code: "budget_exceeded", message: expect.any(String) },
  });
  expect(needOf("month")).toMatchObject({
    cap_tokens: 5_000,
    added_tokens: null,
    renews_at: "2026-12-01T00:00:00.000Z",
  });
  expect(needOf("balance")).toMatchObject({ cap_tokens: null, added_tokens: null, refills: 3, renews_at: null });
});

test("the reason names the figures, and what an approval or a top-up does", () => {
  expect(explainNeed(needOf("run"), 900)).toBe(
    "The run has spent 900 tokens of its limit of 1,000 tokens, and its next model call needs 420 tokens. An approval gives this run 1,000 tokens more.",
  );
  expect(explainNeed(needOf("month"), 900)).toContain("limit of 5,000 tokens a month is reached");
  expect(explainNeed(needOf("balance"), 900)).toContain("Top up");
});

describe("a run that waits for a limit", () => {
  const present = { caps: OWN, refills: 3, now: NOW };
  const raised = (caps: Partial<Record<keyof typeof OWN, number | null>>) => ({
    ...present,
    caps: { ...OWN, ...caps },
  });
  test.each([
    ["run", "the limits are as before", present, null],
    ["run", "tokens come", { ...present, refills: 4 }, null],
    ["run", "the month's cap is raised", raised({ max_cost_tokens_per_month: 9_000 }), null],
    ["run", "its cap is lowered", raised({ max_cost_tokens_per_run: 900 }), null],
    ["run", "its cap is raised", raised({ max_cost_tokens_per_run: 1_001 }), "max_cost_tokens_per_run was raised."],
    ["run", "its cap is removed", raised({ max_cost_tokens_per_run: null }), "max_cost_tokens_per_run was raised."],
    ["month", "the limits are as before", present, null],
    [
      "month",
      "the cap is raised",
      raised({ max_cost_tokens_per_month: 5_001 }),
      "max_cost_tokens_per_month was raised.",
    ],
    [
      "month",
      "the cap is removed",
      raised({ max_cost_tokens_per_month: null }),
      "max_cost_tokens_per_month was raised.",
    ],
    ["month", "the month ends", { ...present, now: "2026-12-01T00:00:00.000Z" }, "A new month began."],
    ["balance", "nothing comes", present, null],
    ["balance", "a cap is removed", raised({ max_cost_tokens_per_run: null }), null],
    ["balance", "tokens come", { ...present, refills: 4 }, "The account got tokens."],
  ] as const)("(%s) when %s", (limit, _when, given, relief) => {
    expect(findRelief(needOf(limit), given)).toBe(relief);
  });
});
