import type { Sql, Tx } from "../../platform/db/db.ts";
import type { BalanceThreshold, Overage } from "./ledger.types.ts";

/** Sets the cap. A cap below the used and held overage does not change them. */
export async function updateCap(sql: Sql, user_id: string, cap_tokens: number | null): Promise<void> {
  await sql.query({
    text: `update account set overage_cap = $2, overage_limit = greatest($2, overage + overage_held),
        refills = refills + case when $2 > coalesce(overage_cap, 0) then 1 else 0 end
      where user_id = $1`,
    values: [user_id, cap_tokens],
  });
}

export async function findOverage(sql: Sql, user_id: string, lock: "locked" | "unlocked"): Promise<Overage> {
  const [overage] = await sql.query<Overage>({
    text: `select overage_cap as cap_tokens, overage as used_tokens, overage_held as held_tokens
      from account where user_id = $1 ${lock === "locked" ? "for update" : ""}`,
    values: [user_id],
  });
  if (overage === undefined) throw new Error(`the user ${user_id} has no account`);
  return overage;
}

/** Starts a new period with `carried_tokens` used, at most the use of the ended period. */
export async function closePeriod(tx: Tx, user_id: string, carried_tokens: number): Promise<{ used_tokens: number }> {
  const { used_tokens } = await findOverage(tx, user_id, "locked");
  if (carried_tokens > used_tokens) throw new RangeError("an overage period cannot carry on more than was used in it");
  await tx.query({
    text: `update account set overage = $2, overage_closed = overage_closed + overage - $2,
        overage_limit = greatest(overage_cap, $2 + overage_held),
        refills = refills + case when overage > $2 and overage_cap is not null then 1 else 0 end
      where user_id = $1`,
    values: [user_id, carried_tokens],
  });
  return { used_tokens };
}

export function listAccountsWithOverage(
  sql: Sql,
  used_tokens: number,
  uncapped_tokens: number,
): Promise<{ user_id: string }[]> {
  return sql.query({
    text: `select user_id from account
      where overage > 0 and (overage >= $1 or overage_cap is null and overage >= $2) order by user_id`,
    values: [used_tokens, uncapped_tokens],
  });
}

/** Expired buckets count until the sweep has closed them. */
export function listAccountsBelow(sql: Sql, thresholds: readonly BalanceThreshold[]): Promise<{ user_id: string }[]> {
  return sql.query({
    text: `select user_id from unnest($1::uuid[], $2::bigint[]) as wanted (user_id, threshold) join account using (user_id)
      where posted < threshold`,
    values: [thresholds.map(({ user_id }) => user_id), thresholds.map(({ threshold_tokens }) => threshold_tokens)],
  });
}
