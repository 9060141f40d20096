import type { Instant, Sql } from "../platform/db.ts";
import { entryId } from "./entry-id.ts";
import type { Entry, EntryFilter } from "./ledger.types.ts";

/** Which entries of a user, and in what order. */
interface Selection {
  filter: EntryFilter;
  order: "asc" | "desc";
  /** Only those beyond this number, in the order's direction. */
  beyond_seq: number | null;
  limit: number;
}

/** Entries, newest first, from before `before_seq`. `from` is included, `to` is not. */
export function listEntries(
  sql: Sql,
  user_id: string,
  filter: EntryFilter,
  page: { limit: number; before_seq: number | null },
): Promise<Entry[]> {
  return selectEntries(sql, user_id, { filter, order: "desc", beyond_seq: page.before_seq, limit: page.limit });
}

/** All entries, oldest first, in parts of `limit`. */
export async function* readEntries(
  sql: Sql,
  user_id: string,
  filter: EntryFilter,
  limit: number,
): AsyncGenerator<Entry[]> {
  for (let beyond_seq = 0; ; ) {
    const part = await selectEntries(sql, user_id, { filter, order: "asc", beyond_seq, limit });
    if (part.length > 0) yield part;
    if (part.length < limit) return;
    beyond_seq = part.at(-1)?.seq ?? beyond_seq;
  }
}

/** The entries of one charge, which are numbered from after `entries_after` to `entries_to`. */
export async function listEntriesOfCharge(
  sql: Sql,
  charge: { user_id: string; hold_id: string; entries_after: number; entries_to: number },
): Promise<Entry[]> {
  const { user_id, hold_id, entries_after, entries_to } = charge;
  const page = { order: "asc" as const, beyond_seq: entries_after, limit: entries_to - entries_after };
  if (page.limit === 0) return [];
  const entries = await selectEntries(sql, user_id, { filter: {}, ...page });
  return entries.filter((entry) => entry.hold_id === hold_id);
}

async function selectEntries(
  sql: Sql,
  user_id: string,
  { filter, order, beyond_seq, limit }: Selection,
): Promise<Entry[]> {
  const values: (string | number | Instant)[] = [user_id, limit];
  const conditions: string[] = ["e.user_id = $1"];
  const only = (condition: string, value: string | number | null | undefined) => {
    if (value !== undefined && value !== null) conditions.push(`${condition} $${values.push(value)}`);
  };
  only(order === "desc" ? "e.seq <" : "e.seq >", beyond_seq);
  only("e.type =", filter.type);
  only("e.run_id =", filter.run_id);
  only("e.agent_id =", filter.agent_id);
  only("e.created_at >=", filter.from);
  only("e.created_at <", filter.to);
  const rows = await sql.query<Omit<Entry, "id">>({
    text: `select e.seq, e.type, e.amount, e.balance_after, e.bucket_id, e.hold_id, b.source, e.model, e.agent_id,
        e.run_id, e.request_id, e.api_key_id, e.description, e.created_at, encode(e.hash, 'hex') as hash
      from entry e left join bucket b on b.user_id = e.user_id and b.id = e.bucket_id
      where ${conditions.join(" and ")} order by e.seq ${order} limit $2`,
    values,
  });
  return rows.map((row) => ({ id: entryId(row), ...row }));
}
