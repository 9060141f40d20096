/** What of a payment's money has gone back, or may yet. Amounts in cents of what was paid. */
export interface MoneyBack {
  tokens: number;
  paid_cents: number;
  /** Σ of refunds that did not fail, and of disputes that are open or lost. */
  back_cents: number;
}

/**
 * The tokens of a payment that must be taken back altogether, in proportion to the money that went back, rounded down
 * until all of it did. A payment that cost nothing gives nothing back.
 */
export function clawBackTarget({ tokens, paid_cents, back_cents }: MoneyBack): number {
  if (paid_cents === 0) return 0;
  return Number((BigInt(tokens) * BigInt(Math.min(paid_cents, back_cents))) / BigInt(paid_cents));
}
