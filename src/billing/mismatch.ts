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
