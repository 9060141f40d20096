import type { Instant, Sql } from "../platform/db.ts";
import { entryId } from "./entry-id.ts";
import type { Entry, EntryFilter } from "./ledger.types.ts";

/** Entries, newest first, from before `before_seq`. `from` is included, `to` is not. */
export async function listEntries(
  sql: Sql,
  user_id: string,
  filter: EntryFilter,
  page: { limit: number; before_seq: number | null },
): Promise<Entry[]> {
  const values: (string | number | Instant)[] = [user_id, page.limit];
  const conditions: string[] = ["e.user_id = $1"];
  const only = (condition: string, value: string | number | null | undefined) => {
    if (value !== undefined && value !== null) conditions.push(`${condition} $${values.push(value)}`);
  };
  only("e.seq <", page.before_seq);
  only("e.type =", filter.type);
  only("e.run_id =", filter.run_id);
  only("e.agent_id =", filter.agent_id);
  only("e.created_at >=", filter.from);
  only("e.created_at <", filter.to);
  const rows = await sql.query<Omit<Entry, "id">>({
    text: `select e.seq, e.type, e.amount, e.balance_after, e.bucket_id, e.hold_id, b.source, e.model, e.agent_id,
        e.run_id, e.request_id, e.api_key_id, e.description, e.created_at, encode(e.hash, 'hex') as hash
      from entry e left join bucket b on b.user_id = e.user_id and b.id = e.bucket_id
      where ${conditions.join(" and ")} order by e.seq desc limit $2`,
    values,
  });
  return rows.map((row) => ({ id: entryId(row), ...row }));
}
