import type { Instant } from "../../platform/lib/instant.ts";
import type { PaymentCode } from "./errors.ts";
import type { AccountStatus } from "./ledger.types.ts";

/**
 * An account's figures at an instant. `posted` and `held` count unexpired buckets only; a null cap means no overage.
 */
export interface AccountFigures {
  posted: number;
  held: number;
  debt: number;
  trial_ends_at: Instant | null;
  paid_since: Instant | null;
  overage: number;
  overage_held: number;
  overage_cap: number | null;
}

/** The account's status at `now`. */
export function toAccountStatus(account: AccountFigures, now: Instant): AccountStatus {
  const { posted, held, debt, trial_ends_at, paid_since } = account;
  return {
    posted,
    held,
    available: posted - held,
    debt,
    trial_ends_at,
    is_trial: trial_ends_at !== null && trial_ends_at > now && paid_since === null,
    refusal: explainRefusal(account, now),
  };
}

/** The code with which the smallest paid request would be refused, or null. Contract 5 defines the order. */
function explainRefusal(account: AccountFigures, now: Instant): PaymentCode | null {
  if (account.trial_ends_at !== null && account.trial_ends_at <= now && account.paid_since === null)
    return "trial_ended";
  const overage_left = account.overage_cap === null ? 0 : Math.max(0, account.overage_cap - account.overage);
  if (account.posted + overage_left === 0)
    return account.overage_cap === null ? "out_of_tokens" : "overage_cap_reached";
  const available = account.posted - account.held + Math.max(0, overage_left - account.overage_held);
  return available === 0 ? "in_flight_exhausted" : null;
}
