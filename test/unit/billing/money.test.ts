import { describe, expect, it } from "vitest";
import { overageCost, overageStatus } from "../../../src/account/billing/overage.ts";
import { planChange } from "../../../src/account/billing/plan.ts";
import { purchasePrice } from "../../../src/account/billing/purchases.service.ts";
import { clawBackTarget } from "../../../src/account/billing/returned-money.ts";

const code = (act: () => unknown) => {
  try {
    return act();
  } catch (error) {
    const { shape } = error as { shape: { code: string; param: string } };
    return [shape.code, shape.param];
  }
};

describe("purchasePrice", () => {
  it.each([
    [{ amount_cents: 100 }, { amount_cents: 100, tokens: 625_000 }],
    [{ amount_cents: 101 }, { amount_cents: 101, tokens: 631_250 }],
    [{ amount_cents: 99_999_999 }, { amount_cents: 99_999_999, tokens: 624_999_993_750 }],
    [{ tokens: 625_000 }, { amount_cents: 100, tokens: 625_000 }],
    [{ tokens: 625_001 }, { amount_cents: 101, tokens: 625_001 }],
    [{ tokens: 631_250 }, { amount_cents: 101, tokens: 631_250 }],
    // the price rounds up to the minimum
    [{ tokens: 618_751 }, { amount_cents: 100, tokens: 618_751 }],
  ])("of %j is %j", (wanted, price) => {
    expect(purchasePrice(wanted)).toEqual(price);
  });

  it.each([
    [{}, ["missing_field", "amount_cents"]],
    [{ amount_cents: 100, tokens: 625_000 }, ["invalid_value", "tokens"]],
    [{ amount_cents: 99 }, ["invalid_value", "amount_cents"]],
    [{ amount_cents: 0 }, ["invalid_value", "amount_cents"]],
    [{ amount_cents: -100 }, ["invalid_value", "amount_cents"]],
    [{ amount_cents: 100_000_000 }, ["invalid_value", "amount_cents"]],
    [{ tokens: 618_750 }, ["invalid_value", "tokens"]],
    [{ tokens: -1 }, ["invalid_value", "tokens"]],
    [{ tokens: Number.MAX_SAFE_INTEGER }, ["invalid_value", "tokens"]],
  ])("of %j is rejected: %j", (wanted, refusal) => {
    expect(code(() => purchasePrice(wanted))).toEqual(refusal);
  });
});

describe("clawBackTarget", () => {
  const bought = { tokens: 625_001, paid_cents: 101, back_cents: 0 };
  it.each([
    ["nothing without a refund", {}, 0],
    ["in proportion, rounded down", { back_cents: 50 }, 309_406],
    ["everything at the last cent, rounding included", { back_cents: 101 }, 625_001],
    ["no more than the grant, also if more was returned", { back_cents: 500 }, 625_001],
    ["nothing of a free payment", { paid_cents: 0, back_cents: 100 }, 0],
    ["nothing of a payment without a grant", { tokens: 0, back_cents: 101 }, 0],
  ])("is %s", (_, back, expected) => {
    expect(clawBackTarget({ ...bought, ...back })).toBe(expected);
  });
});

describe("planChange", () => {
  const plan = { id: "a", name: "A", currency: "usd", interval: "month", rollover_months: 3 };
  const current = { ...plan, price_cents: 2900, included_tokens: 18 };
  it.each([
    ["keep", { id: "a", price_cents: 9900 }],
    ["upgrade", { id: "b", price_cents: 4900 }],
    ["downgrade", { id: "b", price_cents: 1900 }],
    ["upgrade", { id: "b", price_cents: 2900, included_tokens: 18 }],
    ["downgrade", { id: "b", price_cents: 2900, included_tokens: 17 }],
    ["upgrade", { id: "b", price_cents: 4900, included_tokens: 1 }],
  ])("is %s to %j", (expected, wanted) => {
    expect(planChange(current, { ...current, ...wanted })).toBe(expected);
  });
});

describe("overage", () => {
  it.each([
    [0, 0, 0],
    [6249, 0, 6249],
    [6250, 1, 0],
    [6251, 1, 1],
    [18_000_000, 2880, 0],
  ])("%i tokens cost %i cents and carry %i", (used, cents, carried_tokens) => {
    expect(overageCost(used)).toEqual({ cents, carried_tokens });
  });

  const given = {
    enabled: true,
    eligible: true,
    cap_tokens: 20_000,
    used_tokens: 12_600,
    held_tokens: 3000,
    invoiced_cents: 0,
    currency: "usd",
    period: null,
  };
  it.each([
    ["what the cap still allows, holds deducted", {}, 4400],
    ["never negative, when the cap was lowered", { cap_tokens: 1000 }, 0],
    ["nothing while it is off", { enabled: false }, 0],
    ["nothing while the user is not eligible", { eligible: false }, 0],
  ])("leaves %s", (_, change, remaining_tokens) => {
    expect(overageStatus({ ...given, ...change })).toMatchObject({ remaining_tokens, amount_due_cents: 2 });
  });

  it("is computed for the whole period, with the amount that is already invoiced", () => {
    const status = overageStatus({ ...given, invoiced_cents: 1 });
    expect(status).toMatchObject({ amount_due_cents: 2, invoiced_cents: 1, used_tokens: 12_600 });
  });
});
