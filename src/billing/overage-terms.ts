import { OVERAGE_INVOICE_CENTS, PURCHASE_CENTS, TOKENS_PER_CENT } from "../constants.ts";
import type { BillingAccountRow } from "./accounts.store.ts";
import type { Payments, Provider } from "./payments.types.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** No cap may let more be used than one invoice can ask for. */
export const OVERAGE_CAP_TOKENS = PURCHASE_CENTS.max * TOKENS_PER_CENT;

/** Where no provider can charge for overage, nobody may use more of it than this many times what the plan includes … */
const UNCHARGED_PLANS = 10;
/** … or than one invoice within the period asks for, where that is more. */
const UNCHARGED_TOKENS = OVERAGE_INVOICE_CENTS * TOKENS_PER_CENT;

type Paying = Pick<BillingAccountRow, "customer_provider"> | undefined;

/**
 * Who collects what overage costs: the provider that runs the subscription, else the one that is configured, once the
 * user is its customer (the sandbox asks for none), else the operator, by hand. It never costs nothing.
 */
export function overageCollector(
  row: Pick<SubscriptionRow, "provider">,
  account: Paying,
  configured: Payments["provider"],
): Provider {
  if (row.provider === "stripe") return "stripe";
  if (configured === "sandbox") return "sandbox";
  return configured === "stripe" && account?.customer_provider === "stripe" ? "stripe" : "operator";
}

/** The highest cap that a subscriber may set, in billed tokens. */
export function highestCap(row: Pick<SubscriptionRow, "plan">, collector: Provider): number {
  if (collector !== "operator") return OVERAGE_CAP_TOKENS;
  return Math.min(OVERAGE_CAP_TOKENS, Math.max(UNCHARGED_TOKENS, UNCHARGED_PLANS * row.plan.included_tokens));
}
