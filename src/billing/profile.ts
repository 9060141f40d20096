import type { User } from "../accounts/accounts.service.ts";
import type { Standing } from "../ledger/ledger.types.ts";

/** contract 3: the profile, from the user, what the ledger says of them, and their plan. */
export function profileOf(user: User, standing: Standing, plan: string | null) {
  const { posted, held, available, debt } = standing;
  return {
    id: user.id,
    email: user.email ?? "",
    token_balance: available,
    is_trial: standing.is_trial,
    trial_ends_at: standing.trial_ends_at,
    created_at: user.created_at,
    plan,
    balance: { posted, held, available, debt },
  };
}
