import type { Billed } from "./payments.types.ts";

/** Whether a bill is not what was ordered. Providers write currencies in either case. */
export function isMismatch(ordered: Billed, billed: Billed | undefined): billed is Billed {
  if (billed === undefined) return false;
  const is_same_currency = ordered.currency.toLowerCase() === billed.currency.toLowerCase();
  return !is_same_currency || ordered.amount_cents !== billed.amount_cents;
}

/** The columns of a payment whose bill was another one: it grants nothing, and no money of it counts as paid. */
export function mismatchColumns(billed: Billed) {
  return {
    status: "mismatch" as const,
    mismatch_cents: billed.amount_cents,
    mismatch_currency: billed.currency,
    checkout_url: null,
    send_at: null,
  };
}

/** Of a payment that the right bill has paid after all: what went back of the other money is no longer counted. */
export function mismatchOver({ status }: { status: string }) {
  if (status !== "mismatch") return {};
  return { mismatch_cents: null, mismatch_currency: null, refunded_cents: 0, refund_failed_cents: 0 };
}
