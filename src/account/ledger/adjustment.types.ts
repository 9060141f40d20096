import type { Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";

/** An operator's correction of a balance. `amount_tokens` is not 0. */
export interface Adjustment {
  user_id: string;
  amount_tokens: number;
  /** The description of the entry. */
  reason: string;
  /** The expiry of the bucket of a positive amount. */
  expires_at: Instant;
}

/** The bucket to close. */
export interface BucketClosing {
  user_id: string;
  bucket_id: string;
  /** The description of the entry. */
  reason: string;
}

/**
 * Operators' corrections, each in the transaction of the caller. They never take tokens that calls hold, and never make
 * debt.
 */
export interface Adjustments {
  /**
   * Corrects a balance. A positive amount becomes a bonus bucket; a negative one takes free tokens, bonuses before paid buckets.
   * Throws 400 when there are fewer. After the commit of a positive amount, call `notifyGrant`.
   */
  adjust(tx: Tx, adjustment: Adjustment): Promise<{ bucket_id: string | null }>;
  /**
   * Takes all free tokens of a bucket and returns their number. Calls may still spend what they hold. Null: no such
   * bucket, or it is closed.
   */
  closeBucket(tx: Tx, closing: BucketClosing): Promise<number | null>;
  /** Deletes the reasons of adjustments and the operator's notes of an erased user. The entries and their hashes stay. */
  forgetUser(tx: Tx, user_id: string): Promise<void>;
  /** The tokens that adjustments took from a bucket. Locks the account until the transaction ends. */
  adjustedTokens(tx: Tx, user_id: string, bucket_id: string): Promise<number>;
}

/** Takes back tokens that a payment granted, or returns them. */
export interface Reversal {
  user_id: string;
  /** The bucket of the payment's grant. null: the payment was for overage, which is used already. */
  bucket_id: string | null;
  /** In addition to earlier reversals: partial refunds add up. The total never exceeds the bucket's grant. */
  amount_tokens: number;
  /** The description of the entry. */
  reason: string;
  /** The unique business key. Each key makes one reversal, a claw-back or a reinstatement. */
  key: string;
}

export interface ReversalOutcome {
  /**
   * May be less than asked for. A claw-back of a grant takes at most the rest of it; a reinstatement returns at most
   * the clawed-back tokens, or for overage, the debt.
   */
  reversed_tokens: number;
  /** The part that became debt (claw-back) or reduced debt (reinstatement). */
  debt_tokens: number;
}
