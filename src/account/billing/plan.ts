import type { UserLimits } from "../../api/contract/key-terms.ts";
import { errors } from "../../kernel/errors.ts";
import { addMonths } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";

/** One row of the plans table. The numbers are configuration; none is computed from the token rate. */
export interface Plan {
  id: string;
  name: string;
  price_cents: number;
  currency: string;
  interval: string;
  included_tokens: number;
  rollover_months: number;
  /** The limits of the plan's subscribers, over all nodes. */
  limits?: UserLimits | undefined;
}

/** Finds the plan with the id `plan_id`. Throws 400 for `plan_id` when it does not exist. */
export function planWith(plans: readonly Plan[], plan_id: string): Plan {
  const plan = plans.find((each) => each.id === plan_id);
  if (plan === undefined) {
    const known = plans.map((each) => each.id).join(", ");
    throw errors.invalidValue("plan_id", `plan_id is not the id of a plan. Use one of: ${known}.`);
  }
  return plan;
}

/**
 * The effect of choosing `wanted` when the user has `current`. `upgrade`: costs more, or costs the same without fewer
 * tokens; takes effect now. `downgrade` takes effect at the end of the period. `keep`: the same plan. Throws 400 for a plan
 * in another currency, which a reload can bring: the prices cannot be compared.
 */
export function planChange(current: Plan, wanted: Plan): "keep" | "upgrade" | "downgrade" {
  if (wanted.id === current.id) return "keep";
  if (wanted.currency !== current.currency) {
    const way = "Cancel it, and subscribe to a plan in another currency after its end.";
    throw errors.invalidValue("plan_id", `This subscription is paid in ${current.currency}. ${way}`);
  }
  if (wanted.price_cents !== current.price_cents) {
    return wanted.price_cents > current.price_cents ? "upgrade" : "downgrade";
  }
  return wanted.included_tokens >= current.included_tokens ? "upgrade" : "downgrade";
}

/**
 * The `number`th monthly period of a subscription, starting with 1. It is counted from the anchor, so a subscription
 * that begins on 31 January renews on 28 February and then on 31 March.
 */
export function computePeriod(anchor: Instant, number: number): { start: Instant; end: Instant } {
  return { start: addMonths(anchor, number - 1), end: addMonths(anchor, number) };
}

/**
 * The share of `amount` (whole tokens or cents) for the rest of a period after `at`, rounded down. It is the full
 * amount at the start of the period and 0 from its end.
 */
export function prorated(amount: number, period: { start: Instant; end: Instant; at: Instant }): number {
  const [start, end, at] = [Date.parse(period.start), Date.parse(period.end), Date.parse(period.at)];
  const left_ms = Math.min(Math.max(end - at, 0), end - start);
  return Number((BigInt(amount) * BigInt(left_ms)) / BigInt(end - start));
}
