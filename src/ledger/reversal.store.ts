import type { Instant, Sql } from "../platform/db.ts";
import type { Reversal, ReversalOutcome } from "./ledger.types.ts";

/** Takes back tokens that a payment granted, once per key. */
export function insertClawBack(sql: Sql, request: Reversal, now: Instant): Promise<ReversalOutcome> {
  return reverse(sql, "ledger_claw_back", request, now);
}

/** Returns clawed-back tokens, once per key. */
export function insertReinstatement(sql: Sql, request: Reversal, now: Instant): Promise<ReversalOutcome> {
  return reverse(sql, "ledger_reinstate", request, now);
}

async function reverse(
  sql: Sql,
  how: "ledger_claw_back" | "ledger_reinstate",
  { user_id, bucket_id, amount_tokens, reason, key }: Reversal,
  now: Instant,
): Promise<ReversalOutcome> {
  const [outcome] = await sql.query<ReversalOutcome>({
    text: `select abs(amount) as reversed_tokens, abs(debt) as debt_tokens from ${how}($1, $2, $3, $4, $5, $6)`,
    values: [user_id, bucket_id, amount_tokens, reason, key, now],
  });
  if (outcome === undefined) throw new Error("a reversal left no record");
  return outcome;
}
