import type { User } from "../accounts/accounts.service.ts";
import type { Standing } from "../ledger/ledger.types.ts";
import type { Subscription } from "./subscriptions.service.ts";

/** contract 3: the profile, from the user, their token account and their subscription once it is paid. */
export function profileOf(user: User, standing: Standing, { status, plan_id }: Subscription) {
  const { posted, held, available, debt } = standing;
  return {
    id: user.id,
    email: user.email ?? "",
    token_balance: available,
    is_trial: standing.is_trial,
    trial_ends_at: standing.trial_ends_at,
    created_at: user.created_at,
    plan: status === "active" || status === "past_due" ? plan_id : null,
    balance: { posted, held, available, debt },
  };
}
