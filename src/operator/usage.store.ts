import { currencyDigits } from "../account/billing/currency.ts";
import type { UsageGroup } from "../api/contract/admin-overall.ts";
import { TOKENS_PER_CENT } from "../kernel/constants.ts";
import type { Db } from "../platform/db/db.ts";
import { readStatement } from "../platform/db/sql-functions.ts";
import type { Instant } from "../platform/lib/instant.ts";

const USAGE_OF_ALL = readStatement(import.meta.dirname, "usage-of-all");

/** The usage of one model, user, plan or day. */
export interface UsageOfGroup {
  /** null: users without a plan. */
  name: string | null;
  requests: number;
  tokens: number;
  cost_tokens: number;
  revenue_micro_usd: number;
  /** Millionths of each currency. */
  revenue_in_other_currencies: Record<string, number>;
  /** null: the upstream cost of some requests is unknown. */
  upstream_cost_micro_usd: number | null;
  requests_of_unknown_cost: number;
}

/**
 * The usage of all users by group, the largest first. `from` and `to` are starts of days. With the usual 4 MB of memory the
 * sums of a year would be sorted on disk.
 */
export function readUsageOfAll(
  db: Db,
  { from, to, group_by }: { from: Instant; to: Instant; group_by: UsageGroup },
): Promise<UsageOfGroup[]> {
  return db.transaction(async (tx) => {
    await tx.query({ text: "set local work_mem = '64MB'" });
    await tx.query({ text: "set local jit = off" });
    const rows = await tx.query<
      Omit<UsageOfGroup, "revenue_in_other_currencies"> & { other_cents: Record<string, number> }
    >({ text: USAGE_OF_ALL, values: [from, to, group_by, TOKENS_PER_CENT] });
    return rows.map(({ other_cents, ...row }) => ({ ...row, revenue_in_other_currencies: toMillionths(other_cents) }));
  });
}

function toMillionths(cents: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(cents).map(([currency, sum]) => [currency, Math.round(sum * 10 ** (6 - currencyDigits(currency)))]),
  );
}

/** The addresses of users, by id. Erased users are absent. */
export async function readEmails(db: Db, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const rows = await db.query<{ id: string; email: string }>({
    text: "select id, email from users where id = any($1::uuid[]) and email is not null",
    values: [ids],
  });
  return new Map(rows.map(({ id, email }) => [id, email]));
}
