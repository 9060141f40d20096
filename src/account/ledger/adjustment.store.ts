import type { Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { Adjustment, BucketClosing } from "./adjustment.types.ts";

/** Operators' adjustments of balances. */

/** Adds a bonus bucket and returns its id. */
export async function insertAdjustment(tx: Tx, id: string, adjustment: Adjustment, now: Instant): Promise<string> {
  const { user_id, amount_tokens, reason, expires_at } = adjustment;
  await tx.query({
    text: "select ledger_adjust_up($1, $2, $3, $4, $5, $6)",
    values: [user_id, id, amount_tokens, reason, now, expires_at],
  });
  return id;
}

/** Takes free tokens, bonuses before paid buckets. Returns the free tokens before it; if they are too few, nothing changes. */
export async function takeTokens(tx: Tx, { user_id, amount_tokens, reason }: Adjustment, now: Instant) {
  const [row] = await tx.query<{ free: number }>({
    text: "select ledger_adjust_down($1, $2, null, $3, $4) as free",
    values: [user_id, -amount_tokens, reason, now],
  });
  return row?.free ?? 0;
}

/** Closes a bucket and returns the tokens taken. Null: no such bucket, or it is closed. */
export async function closeBucket(
  tx: Tx,
  { user_id, bucket_id, reason }: BucketClosing,
  now: Instant,
): Promise<number | null> {
  const [row] = await tx.query<{ taken: number | null }>({
    text: "select ledger_close_bucket($1, $2, $3, $4) as taken",
    values: [user_id, bucket_id, reason, now],
  });
  return row?.taken ?? null;
}

/** The tokens that adjustments took from a bucket. Locks the account, so that the number holds until the transaction ends. */
export async function findAdjusted(tx: Tx, user_id: string, bucket_id: string): Promise<number> {
  // A statement of its own: one that waits for the lock reads the bucket as it was before.
  await tx.query({ text: "select from account where user_id = $1 for update", values: [user_id] });
  const [row] = await tx.query<{ adjusted: number }>({
    text: "select adjusted from bucket where user_id = $1 and id = $2",
    values: [user_id, bucket_id],
  });
  return row?.adjusted ?? 0;
}

/** Deletes what operators wrote about a user: reasons of adjustments and notes of grants. The hashes do not cover them. */
export async function forgetReasons(tx: Tx, user_id: string): Promise<void> {
  await tx.query({ text: "delete from entry_reason where user_id = $1", values: [user_id] });
  await tx.query({
    text: "update bucket set note = null where user_id = $1 and note is not null and (by_adjustment or grant_key is null)",
    values: [user_id],
  });
}
