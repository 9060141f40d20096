import { errors } from "../errors.ts";

/** One row of the table of plans. Its numbers are data: nothing here is computed from the token rate. */
export interface Plan {
  id: string;
  name: string;
  price_cents: number;
  currency: string;
  interval: string;
  included_tokens: number;
  rollover_months: number;
}

/** The plan with the id `plan_id`; 400 naming `plan_id` when there is none. */
export function planWith(plans: readonly Plan[], plan_id: string): Plan {
  const plan = plans.find((each) => each.id === plan_id);
  if (plan === undefined) {
    const known = plans.map((each) => each.id).join(", ");
    throw errors.invalidValue("plan_id", `plan_id is not a plan. The plans are ${known}.`);
  }
  return plan;
}
