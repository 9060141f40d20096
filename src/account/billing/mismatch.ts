import type { Log } from "../../platform/telemetry/log.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { Billed } from "./payments.types.ts";

/** True if a bill differs from the order. Currencies are compared without case, as providers differ in it. */
export function isMismatch(ordered: Billed, billed: Billed | undefined): billed is Billed {
  if (billed === undefined) return false;
  const is_same_currency = ordered.currency.toLowerCase() === billed.currency.toLowerCase();
  return !is_same_currency || ordered.amount_cents !== billed.amount_cents;
}

/** The columns of a payment with a wrong bill. It grants nothing, and its money does not count as paid. */
export function mismatchColumns(billed: Billed) {
  return {
    status: "mismatch" as const,
    mismatch_cents: billed.amount_cents,
    mismatch_currency: billed.currency,
    checkout_url: null,
    send_at: null,
  };
}

/** Clears the mismatch of a payment that the correct bill has paid. Refunds of the wrong bill no longer count. */
export function mismatchOver({ status }: { status: string }) {
  if (status !== "mismatch") return {};
  return { mismatch_cents: null, mismatch_currency: null, refunded_cents: 0, refund_failed_cents: 0 };
}

/** Tells the operator of a wrong bill. */
export function logMismatch(
  log: Pick<Log, "warn">,
  { user_id, id: payment_id, amount_cents, currency }: Pick<PaymentRow, "user_id" | "amount_cents" | "currency" | "id">,
  { event, billed }: { event: { event_id: string; reference: string | null }; billed: Billed },
): void {
  const { event_id, reference } = event;
  const { amount_cents: billed_cents, currency: billed_currency } = billed;
  log.warn(
    { user_id, payment_id, event_id, reference, amount_cents, currency, billed_cents, billed_currency },
    "a payment is not what was ordered and grants nothing: see GET /api/v1/admin/purchases?status=mismatch",
  );
}
