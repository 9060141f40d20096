/** What of a payment's money has gone back, or may yet. Amounts in cents of what was paid. */
export interface MoneyBack {
  tokens: number;
  paid_cents: number;
  refunded_cents: number;
  /** Σ of disputes that are open or lost. */
  disputed_cents: number;
}

/**
 * The tokens of a payment that must be taken back altogether, in proportion to the money that went back, rounded down
 * until all of it did. A payment that granted nothing, or cost nothing, gives nothing back.
 */
export function clawBackTarget({ tokens, paid_cents, refunded_cents, disputed_cents }: MoneyBack): number {
  if (paid_cents === 0) return 0;
  const back_cents = Math.min(paid_cents, refunded_cents + disputed_cents);
  return Number((BigInt(tokens) * BigInt(back_cents)) / BigInt(paid_cents));
}
