import { TOKENS_PER_CENT } from "../constants.ts";
import type { Instant } from "../platform/db.ts";

/** Whole cents that `used_tokens` of overage cost, and the tokens short of a cent that are carried on. */
export function overageCost(used_tokens: number): { cents: number; carried_tokens: number } {
  return { cents: Math.floor(used_tokens / TOKENS_PER_CENT), carried_tokens: used_tokens % TOKENS_PER_CENT };
}

/** The overage status as the API shows it: tokens and cents of the current period. */
export interface OverageStatus {
  enabled: boolean;
  eligible: boolean;
  /** null without a plan and without a cap of one's own. */
  cap_tokens: number | null;
  used_tokens: number;
  held_tokens: number;
  remaining_tokens: number;
  /** What the period's overage costs so far; `invoiced_cents` of it are invoiced already. */
  amount_due_cents: number;
  invoiced_cents: number;
  period_start: Instant | null;
  period_end: Instant | null;
}

/** The status from what billing and the ledger say. `remaining_tokens` is 0 while overage is off. */
export function overageStatus(given: {
  enabled: boolean;
  eligible: boolean;
  cap_tokens: number | null;
  used_tokens: number;
  held_tokens: number;
  invoiced_cents: number;
  period: { start: Instant; end: Instant } | null;
}): OverageStatus {
  const { enabled, eligible, cap_tokens, used_tokens, held_tokens, invoiced_cents, period } = given;
  const allowed = enabled && eligible ? (cap_tokens ?? 0) : 0;
  return {
    enabled,
    eligible,
    cap_tokens,
    used_tokens,
    held_tokens,
    remaining_tokens: Math.max(0, allowed - used_tokens - held_tokens),
    amount_due_cents: overageCost(used_tokens).cents,
    invoiced_cents,
    period_start: period?.start ?? null,
    period_end: period?.end ?? null,
  };
}
