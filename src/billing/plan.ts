import { errors } from "../errors.ts";

/** One row of the plans table. The numbers are configuration; none is computed from the token rate. */
export interface Plan {
  id: string;
  name: string;
  price_cents: number;
  currency: string;
  interval: string;
  included_tokens: number;
  rollover_months: number;
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
 * tokens; takes effect now. `downgrade` takes effect at the end of the period. `keep`: the same plan.
 */
export function planChange(current: Plan, wanted: Plan): "keep" | "upgrade" | "downgrade" {
  if (wanted.id === current.id) return "keep";
  if (wanted.price_cents !== current.price_cents) {
    return wanted.price_cents > current.price_cents ? "upgrade" : "downgrade";
  }
  return wanted.included_tokens >= current.included_tokens ? "upgrade" : "downgrade";
}
