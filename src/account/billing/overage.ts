import { OVERAGE_INVOICE_CENTS, PURCHASE_CENTS, TOKENS_PER_CENT } from "../../kernel/constants.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BillingAccountRow } from "./accounts.store.ts";
import type { PaymentProvider, ProviderName } from "./payments.types.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** The highest cap: no more than one invoice can charge. */
export const OVERAGE_CAP_TOKENS = PURCHASE_CENTS.max * TOKENS_PER_CENT;

/** Without a provider that charges for overage, the cap is this many times the plan's tokens … */
const UNCHARGED_PLANS = 10;
/** … or the tokens of one invoice within the period, if that is more. */
const UNCHARGED_TOKENS = OVERAGE_INVOICE_CENTS * TOKENS_PER_CENT;

type Paying = Pick<BillingAccountRow, "customer_provider"> | undefined;

/**
 * The collector of an overage invoice. It is the subscription's own provider (Stripe), or the configured one: the
 * sandbox always, Stripe once the user is its customer. Otherwise the operator collects manually.
 */
export function overageCollector(
  row: Pick<SubscriptionRow, "provider">,
  account: Paying,
  configured: PaymentProvider["provider"],
): ProviderName {
  if (row.provider === "stripe") return "stripe";
  if (configured === "sandbox") return "sandbox";
  return configured === "stripe" && account?.customer_provider === "stripe" ? "stripe" : "operator";
}

/** The highest cap that a subscriber can set, in billed tokens. */
export function highestCap(row: Pick<SubscriptionRow, "plan">, collector: ProviderName): number {
  if (collector !== "operator") return OVERAGE_CAP_TOKENS;
  return Math.min(OVERAGE_CAP_TOKENS, Math.max(UNCHARGED_TOKENS, UNCHARGED_PLANS * row.plan.included_tokens));
}

/** The cost of overage in whole cents. Tokens short of a cent are carried into the next period. */
export function overageCost(used_tokens: number): { cents: number; carried_tokens: number } {
  return { cents: Math.floor(used_tokens / TOKENS_PER_CENT), carried_tokens: used_tokens % TOKENS_PER_CENT };
}

/** The overage of the current period as the API shows it, in tokens and cents. */
export interface OverageStatus {
  enabled: boolean;
  eligible: boolean;
  /** null without a plan and without a cap set by the user. */
  cap_tokens: number | null;
  used_tokens: number;
  held_tokens: number;
  remaining_tokens: number;
  /** The cost of this period's overage so far. `invoiced_cents` of it are already invoiced. */
  amount_due_cents: number;
  invoiced_cents: number;
  currency: string;
  period_start: Instant | null;
  period_end: Instant | null;
}

/** Combines billing and ledger data. `remaining_tokens` is 0 while overage is off. */
export function overageStatus(given: {
  enabled: boolean;
  eligible: boolean;
  cap_tokens: number | null;
  used_tokens: number;
  held_tokens: number;
  invoiced_cents: number;
  currency: string;
  period: { start: Instant; end: Instant } | null;
}): OverageStatus {
  const { enabled, eligible, cap_tokens, used_tokens, held_tokens, invoiced_cents, currency, period } = given;
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
    currency,
    period_start: period?.start ?? null,
    period_end: period?.end ?? null,
  };
}
