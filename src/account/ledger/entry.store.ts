import type { Reader } from "../../platform/db/db.ts";
import { createConditions } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { entryId } from "./entry-id.ts";
import type { Entry, EntryFilter, ReasonedEntry } from "./ledger.types.ts";

/** Selects entries of a user, and their order. */
interface Selection {
  filter: EntryFilter;
  order: "asc" | "desc";
  /** Only entries past this number, in the direction of the order. */
  beyond_seq: number | null;
  /** The time of that entry, if it is known: its row may have been archived since. */
  beyond_at?: Instant | undefined;
  /** Only entries of this charge, up to its last entry. */
  charge?: { hold_id: string; entries_to: number };
  limit: number;
}

/**
 * Entries before `before_seq`, newest first, with the operator's reason as their description. `from` is inclusive, `to` exclusive; with either, entries are ordered by
 * time. That order differs from the order of numbers if the clock of a node was behind.
 */
export async function listEntries(
  sql: Reader,
  user_id: string,
  filter: EntryFilter,
  page: { limit: number; before_seq: number | null },
): Promise<Entry[]> {
  const wanted = { filter, order: "desc", beyond_seq: page.before_seq, limit: page.limit } as const;
  return (await selectEntries(sql, user_id, wanted)).map(shownEntry);
}

/** An entry as its owner reads it. An export has both texts, because the hash covers only the description. */
function shownEntry({ reason, ...entry }: ReasonedEntry): Entry {
  return { ...entry, description: reason ?? entry.description };
}

/**
 * All entries, oldest first, in pages of `limit`. Without a filter, throws if entries between two pages are gone: they were
 * archived meanwhile.
 */
export async function* readEntries(
  sql: Reader,
  user_id: string,
  filter: EntryFilter,
  limit: number,
): AsyncGenerator<ReasonedEntry[]> {
  const is_whole = Object.values(filter).every((value) => value === undefined);
  for (let last: ReasonedEntry | undefined; ; ) {
    const part: ReasonedEntry[] = await selectEntries(sql, user_id, {
      filter,
      order: "asc",
      beyond_seq: last?.seq ?? null,
      beyond_at: last?.created_at,
      limit,
    });
    if (
      last !== undefined &&
      is_whole &&
      part[0]?.seq !== last.seq + 1 &&
      (await isArchivedAfter(sql, user_id, last.seq))
    ) {
      throw new Error(`entries after ${last.seq} were archived while they were read: repeat the export`);
    }
    if (part.length > 0) yield part;
    if (part.length < limit) return;
    last = part.at(-1);
  }
}

async function isArchivedAfter(sql: Reader, user_id: string, seq: number): Promise<boolean> {
  const found = await sql.query({
    text: "select from archived_account where user_id = $1 and seq > $2",
    values: [user_id, seq],
  });
  return found.length > 0;
}

/** The entries of one charge. Their numbers are above `entries_after` and at most `entries_to`. */
export async function listEntriesOfCharge(
  sql: Reader,
  charge: { user_id: string; hold_id: string; entries_after: number; entries_to: number },
): Promise<Entry[]> {
  const { user_id, hold_id, entries_after, entries_to } = charge;
  const limit = entries_to - entries_after;
  if (limit === 0) return [];
  const selection = { filter: {}, order: "asc" as const, beyond_seq: entries_after, limit };
  return (await selectEntries(sql, user_id, { ...selection, charge: { hold_id, entries_to } })).map(shownEntry);
}

async function selectEntries(
  sql: Reader,
  user_id: string,
  { filter, order, beyond_seq, beyond_at, limit, charge }: Selection,
): Promise<ReasonedEntry[]> {
  const values: (string | number | Instant)[] = [user_id, limit];
  const { add, only, text: conditions } = createConditions(values, "user_id = $1");
  const beyond = order === "desc" ? "<" : ">";
  // A time window is ordered by time to use that index. Ordered by number, the planner would read from the end.
  const by_time = filter.from !== undefined || filter.to !== undefined;
  if (by_time && beyond_seq !== null) {
    const place = `$${values.push(beyond_seq)}::bigint`;
    const known = beyond_at === undefined ? "" : `$${values.push(beyond_at)}::timestamptz, `;
    const instant = `coalesce(${known}(select created_at from entry where user_id = $1 and seq = ${place}))`;
    add(`(created_at, seq) ${beyond} (${instant}, ${place})`);
  } else {
    only(`seq ${beyond}`, beyond_seq);
  }
  only("seq <=", charge?.entries_to);
  only("hold_id =", charge?.hold_id);
  only("type =", filter.type);
  only("run_id =", filter.run_id);
  only("agent_id =", filter.agent_id);
  only("created_at >=", filter.from);
  only("created_at <", filter.to);
  const rows = await sql.query<Omit<ReasonedEntry, "id">>({
    text: `select seq, type, amount, balance_after, bucket_id, hold_id, source, model, agent_id, run_id, request_id,
        api_key_id, description, created_at, encode(hash, 'hex') as hash,
        case when type in ('grant', 'adjustment') then (
          select reason from entry_reason r where r.user_id = entry.user_id and r.seq = entry.seq
        ) end as reason
      from entry where ${conditions()}
      order by ${by_time ? `created_at ${order}, ` : ""}seq ${order} limit $2`,
    values,
  });
  return rows.map((row) => ({ id: entryId(row), ...row }));
}
