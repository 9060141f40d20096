import type { Reader } from "../../platform/db/db.ts";
import { createConditions, firstRow } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { entryId } from "./entry-id.ts";
import type { Entry, EntryFilter, EntryGroup, GroupsPlace, ReasonedEntry } from "./ledger.types.ts";

/** Entries that a page of groups reads at a time, for each group of the page. */
const ENTRIES_PER_GROUP = 4;
const SUMS = `max(seq) as last_seq, count(*) as entries, min(created_at) as first_at,
  coalesce(sum(amount) filter (where type not in ('overage', 'absorbed')), 0)::bigint as moved_tokens,
  coalesce(-sum(amount) filter (where type = 'overage'), 0)::bigint as overage_tokens,
  coalesce(-sum(amount) filter (where type = 'absorbed'), 0)::bigint as absorbed_tokens`;
const COLUMNS = `seq, type, amount, balance_after, bucket_id, hold_id, source, model, agent_id, run_id, request_id,
  api_key_id, description, created_at, encode(hash, 'hex') as hash,
  case when type in ('grant', 'adjustment') then (
    select reason from entry_reason r where r.user_id = entry.user_id and r.seq = entry.seq
  ) end as reason`;

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
 * Entries before `before_seq`, newest first, with the operator's reason as their description. `from` is inclusive, `to`
 * exclusive; with either, entries are ordered by time. That order differs from the order of numbers if the clock of a node
 * was behind.
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

/** The number of the user's last entry; 0 without any. */
export async function findLastSeq(sql: Reader, user_id: string): Promise<number> {
  const found = await firstRow<{ seq: number }>(sql, {
    text: "select seq from account where user_id = $1",
    values: [user_id],
  });
  return found?.seq ?? 0;
}

/**
 * Entries by run, or by call without a run; each other entry alone. The group with the newest entry first. Entries never
 * change, so all pages of the same `as_of` show the same groups.
 */
export async function listEntryGroups(
  sql: Reader,
  user_id: string,
  filter: EntryFilter,
  { as_of, before_seq, limit }: GroupsPlace & { limit: number },
): Promise<EntryGroup[]> {
  const { first, last } = await findSpan(sql, user_id, filter, as_of);
  const selected = () => {
    const values: unknown[] = [user_id];
    const conditions = createConditions(values, "user_id = $1");
    conditions.only("seq >=", first);
    conditions.only("seq <=", last);
    addFilter(conditions, filter);
    return { values, ...conditions };
  };
  const groups: EntryGroup[] = [];
  for (let below = before_seq ?? last + 1; ; ) {
    const { values, only, text } = selected();
    only("seq <", below);
    const rows = await sql.query<Omit<ReasonedEntry, "id">>({
      text: `select ${COLUMNS} from entry where ${text()} order by seq desc limit $${values.push(limit * ENTRIES_PER_GROUP)}`,
      values,
    });
    const sums = await sumGroups(sql, selected, rows);
    for (const row of rows) {
      const { last_seq, ...sum } = sums.get(groupKey(row)) ?? sumOf(row);
      if (last_seq !== row.seq) continue;
      groups.push({ ...sum, newest: shownEntry({ id: entryId(row), ...row }) });
      if (groups.length === limit) return groups;
    }
    below = rows.at(-1)?.seq ?? 0;
    if (rows.length < limit * ENTRIES_PER_GROUP) return groups;
  }
}

type GroupSum = Omit<EntryGroup, "newest"> & { last_seq: number };
/** New conditions for the entries that the list selects. */
type Selected = () => ReturnType<typeof createConditions> & { values: unknown[] };
type EntryRow = Omit<ReasonedEntry, "id">;

/** The run, or the call without a run; null: the entry is alone. */
const groupKey = ({ run_id, hold_id }: EntryRow) => run_id ?? hold_id;

function sumOf({ seq, type, amount, created_at }: EntryRow): GroupSum {
  return {
    last_seq: seq,
    entries: 1,
    first_at: created_at,
    moved_tokens: type === "overage" || type === "absorbed" ? 0 : amount,
    overage_tokens: type === "overage" ? -amount : 0,
    absorbed_tokens: type === "absorbed" ? -amount : 0,
  };
}

/** The sums of the runs of these entries, and of their calls that have more than one entry. */
async function sumGroups(sql: Reader, selected: Selected, rows: readonly EntryRow[]) {
  const sums = new Map<string | null, GroupSum>();
  const read = async (key: "run_id" | "hold_id", ids: (string | null)[], conditionOf: (ids: string) => string) => {
    const of = [...new Set(ids.filter((id) => id !== null))];
    if (of.length === 0) return;
    const { values, add, text } = selected();
    add(conditionOf(`any($${values.push(of)}::uuid[])`));
    const found = await sql.query<GroupSum & { key: string }>({
      text: `select ${key} as key, ${SUMS} from entry where ${text()} group by ${key}`,
      values,
    });
    for (const { key: id, ...sum } of found) sums.set(id, sum);
  };
  await read(
    "run_id",
    rows.map(({ run_id }) => run_id),
    (ids) => `run_id = ${ids}`,
  );
  // A usage event has the numbers of its call's entries, so no index of calls is necessary.
  await read(
    "hold_id",
    rows.map(({ run_id, hold_id }) => (run_id === null ? hold_id : null)),
    (ids) => `run_id is null and (hold_id, seq) in (
      select hold_id, generate_series(entries_after + 1, entries_to) from usage_event
        where user_id = $1 and hold_id = ${ids} and entries_to > entries_after + 1
    )`,
  );
  return sums;
}

/** The numbers of the entries in the filter's window of time: their order can differ a little from the order of time. */
async function findSpan(sql: Reader, user_id: string, { from, to }: EntryFilter, as_of: number) {
  if (from === undefined && to === undefined) return { first: 1, last: as_of };
  const values: unknown[] = [user_id];
  const { only, text } = createConditions(values, "user_id = $1");
  only("created_at >=", from);
  only("created_at <", to);
  const found = await firstRow<{ first: number | null; last: number | null }>(sql, {
    text: `select min(seq) as first, max(seq) as last from entry where ${text()}`,
    values,
  });
  return { first: found?.first ?? 1, last: Math.min(found?.last ?? 0, as_of) };
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
  if (filter.hold_id !== undefined) {
    // A usage event has the numbers of its call's entries, so no index of calls is necessary.
    const call = `$${values.push(filter.hold_id)}::uuid`;
    const event = `from usage_event where user_id = $1 and hold_id = ${call}`;
    add(`hold_id = ${call} and seq > (select entries_after ${event}) and seq <= (select entries_to ${event})`);
  }
  addFilter({ only }, filter);
  const rows = await sql.query<EntryRow>({
    text: `select ${COLUMNS} from entry where ${conditions()}
      order by ${by_time ? `created_at ${order}, ` : ""}seq ${order} limit $2`,
    values,
  });
  return rows.map((row) => ({ id: entryId(row), ...row }));
}

function addFilter({ only }: Pick<ReturnType<typeof createConditions>, "only">, filter: EntryFilter): void {
  only("type =", filter.type);
  only("run_id =", filter.run_id);
  only("agent_id =", filter.agent_id);
  only("created_at >=", filter.from);
  only("created_at <", filter.to);
}
