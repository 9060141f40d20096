import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { ArchivedEvent, FileLine } from "./archive-file.ts";
import type { Entry } from "./ledger.types.ts";

const PLAN = readStatement(import.meta.dirname, "plan-archive");
const MOVE_EVENTS = readStatement(import.meta.dirname, "move-usage-events");
const MOVE_ENTRIES = readStatement(import.meta.dirname, "move-entries");
/** Rows per fetch of a cursor. */
const FETCHED = 1_000;
/** Accounts that are moved in one transaction, and rows after which no further account joins it. */
const ACCOUNTS = 200;
const ROWS = 20_000;

/** A month that is being moved, or was. */
export interface ArchiveMonth {
  /** Its first day, 2026-01-01. */
  month: string;
  /** Its end. */
  before: Instant;
  phase: "planned" | "written" | "moved";
  entries: number;
  usage_events: number;
  files: FileLine[] | null;
}

/** Another process archives this database. */
export class OtherArchiveError extends Error {
  constructor() {
    super("another purser archive is at work on this database: wait for its end, and repeat");
    this.name = "OtherArchiveError";
  }
}

/** An entry to archive, with the end of its account's earlier archive. */
export interface PlannedEntry extends Omit<Entry, "id"> {
  user_id: string;
  after_seq: number;
  after_hash: string;
  after_balance: number;
}

const MONTH = `select to_char(month, 'YYYY-MM-DD') as month, before, phase, entries, usage_events, files from archive_month`;

/**
 * Runs `work` while no other process archives this database. The lock needs a connection of its own, which embedded storage
 * does not have; there, no second process can open the storage.
 */
export async function archiveAlone<T>(db: Db, work: () => Promise<T>): Promise<T> {
  if (db.kind === "embedded") return work();
  return db.transaction(async (tx) => {
    await stayOpen(tx);
    const [lock] = await tx.query<{ mine: boolean }>({ text: "select pg_try_advisory_xact_lock(7470628) as mine" });
    if (lock?.mine !== true) throw new OtherArchiveError();
    return work();
  });
}

/** Keeps the transaction open while files are written, however long that takes. */
export async function stayOpen(tx: Tx): Promise<void> {
  await tx.query({ text: "set local idle_in_transaction_session_timeout = 0" });
}

/** The month that was begun and is not finished. */
export async function findOpenMonth(sql: Pick<Sql, "query">): Promise<ArchiveMonth | undefined> {
  const [month] = await sql.query<ArchiveMonth>({ text: `${MONTH} where phase <> 'moved'` });
  return month;
}

/** All months that were moved, oldest first. */
export function listMonths(sql: Pick<Sql, "query">): Promise<ArchiveMonth[]> {
  return sql.query<ArchiveMonth>({ text: `${MONTH} where phase = 'moved' order by month` });
}

/** The instant of the oldest row that no archive has, or the end of the newest archived month if that is later. */
export async function findOldest(sql: Sql): Promise<Instant | null> {
  const [row] = await sql.query<{ oldest: Instant | null }>({
    text: `select greatest(
        least((select min(created_at) from entry), (select min(created_at) from usage_event)),
        (select max(before) from archive_month)
      ) as oldest`,
    no_timeout: true,
  });
  return row?.oldest ?? null;
}

/**
 * Decides which rows the month has; from then on they do not change. False: the month has no rows to move.
 * Only a call that was charged from progress could still change its row, so `sealLostCalls` comes first.
 */
export async function planMonth(db: Db, before: Instant): Promise<boolean> {
  await sealLostCalls(db, before);
  const planned = await db.query({ text: PLAN, values: [before], no_timeout: true });
  return planned.length > 0;
}

/**
 * The charges of lost calls of before this instant become final: `ledger_is_archived` rejects their late settles. Each account
 * is locked for a moment, so a settle comes before the plan or finds the seal.
 */
async function sealLostCalls(db: Db, before: Instant): Promise<void> {
  const lost = await db.query<{ user_id: string }>({
    text: "select distinct user_id from usage_event where from_progress and created_at < $1 order by user_id",
    values: [before],
    no_timeout: true,
  });
  for (const { user_id } of lost) {
    await db.transaction(async (tx) => {
      await tx.query({ text: "select from account where user_id = $1 for update", values: [user_id] });
      await tx.query({
        text: `insert into archived_account as known (user_id, planned_seq, planned_events, before, sealed_before)
          values ($1, 0, 0, 'epoch', $2)
          on conflict (user_id) do update set sealed_before = greatest(known.sealed_before, excluded.sealed_before)`,
        values: [user_id, before],
      });
    });
  }
}

/** The planned entries in the order of accounts and numbers. */
export function plannedEntries(tx: Tx): AsyncGenerator<PlannedEntry[], undefined> {
  return fetched(
    tx,
    `select e.user_id, e.seq, type, amount, balance_after, bucket_id, source, hold_id, model, agent_id, run_id, request_id,
        api_key_id, description, created_at, encode(e.hash, 'hex') as hash, s.seq as after_seq,
        encode(s.hash, 'hex') as after_hash, s.balance as after_balance
      from archive_month m join archived_account s on s.before = m.before
        join entry e on e.user_id = s.user_id and e.seq > s.seq and e.seq <= s.planned_seq
      where m.phase = 'planned' order by e.user_id, e.seq`,
  );
}

/** The planned usage events in the order of accounts and holds. */
export function plannedEvents(tx: Tx): AsyncGenerator<ArchivedEvent[], undefined> {
  return fetched(
    tx,
    `select u.* from archive_month m join archived_account s on s.before = m.before
        join usage_event u on u.user_id = s.user_id and u.created_at < m.before and u.entries_to <= s.planned_seq
      where m.phase = 'planned' order by u.user_id, u.hold_id`,
  );
}

async function* fetched<Row>(tx: Tx, text: string): AsyncGenerator<Row[], undefined> {
  await tx.query({ text: `declare archived_rows no scroll cursor for ${text}` });
  for (;;) {
    const rows = await tx.query<Row>({ text: `fetch ${FETCHED} from archived_rows`, no_timeout: true });
    if (rows.length === 0) break;
    yield rows;
  }
  await tx.query({ text: "close archived_rows" });
}

/** Records the complete files. From then on rows may be deleted. Throws if another process recorded its own. */
export async function recordFiles(db: Db, month: ArchiveMonth, files: readonly FileLine[]): Promise<void> {
  const recorded = await db.query({
    text: "update archive_month set phase = 'written', files = $2 where month = $1 and phase = 'planned' returning month",
    values: [month.month, JSON.stringify(files)],
  });
  if (recorded.length === 0) throw new OtherArchiveError();
}

/** Accounts with rows to move after `user_id`, as many as one transaction moves. */
async function listAccounts(db: Db, before: Instant, user_id: string | null): Promise<string[]> {
  const rows = await db.query<{ user_id: string; rows: number }>({
    text: `select user_id, planned_seq - seq + planned_events as rows from archived_account
      where before = $1 and planned_seq - seq + planned_events > 0 and ($2::uuid is null or user_id > $2)
      order by user_id limit ${ACCOUNTS}`,
    values: [before, user_id],
  });
  let sum = 0;
  const many = rows.findIndex(({ rows: count }) => {
    sum += count;
    return sum > ROWS;
  });
  return rows.slice(0, many === -1 ? rows.length : many + 1).map((row) => row.user_id);
}

/** Deletes the rows of the files, an account whole in one transaction. Calls `report` with the number of moved rows. */
export async function moveRows(db: Db, month: ArchiveMonth, report: (rows: number) => void): Promise<void> {
  let moved = 0;
  for (let last: string | null = null; ; ) {
    const user_ids: string[] = await listAccounts(db, month.before, last);
    if (user_ids.length === 0) break;
    moved += await db.transaction((tx) => moveAccounts(tx, month, user_ids));
    last = user_ids.at(-1) ?? null;
    report(moved);
  }
  await db.query({
    text: "update archive_month set phase = 'moved', moved_at = clock_timestamp() where month = $1 and phase = 'written'",
    values: [month.month],
  });
}

async function moveAccounts(tx: Tx, month: ArchiveMonth, user_ids: readonly string[]): Promise<number> {
  const written = await tx.query({
    text: "select from archive_month where month = $1 and phase = 'written' for share",
    values: [month.month],
  });
  if (written.length === 0) throw new OtherArchiveError();
  const values = [user_ids, month.before];
  const accounts = await tx.query<{ entries: number; planned_events: number }>({
    text: `select planned_seq - seq as entries, planned_events from archived_account
      where user_id = any($1::uuid[]) and before = $2 order by user_id for update`,
    values,
  });
  const sum = (field: "entries" | "planned_events") => accounts.reduce((total, account) => total + account[field], 0);
  const [events] = await tx.query<{ rows: number }>({ text: MOVE_EVENTS, values, no_timeout: true });
  const [entries] = await tx.query<{ rows: number }>({ text: MOVE_ENTRIES, values, no_timeout: true });
  const counted = [events?.rows ?? 0, entries?.rows ?? 0] as const;
  if (counted[0] !== sum("planned_events") || counted[1] !== sum("entries")) {
    throw new Error(
      `the rows of accounts ${user_ids[0]} to ${user_ids.at(-1)} are not those of the files (${counted[1]} entries, ${counted[0]} usage events), and nothing of them was deleted: run purser audit`,
    );
  }
  await tx.query({
    text: "update archived_account set planned_events = 0 where user_id = any($1::uuid[]) and before = $2",
    values,
  });
  return counted[0] + counted[1];
}

/** Makes the space of the moved rows free for new ones. */
export async function reclaimSpace(db: Db): Promise<void> {
  await db.query({ text: "vacuum (analyze) entry", no_timeout: true });
  await db.query({ text: "vacuum (analyze) usage_event", no_timeout: true });
}

/** The end of a user's archived entries: rows of before this instant are in the operator's archive. Null: none are. */
export async function findArchivedBefore(sql: Pick<Sql, "query">, user_id: string): Promise<Instant | null> {
  const [row] = await sql.query<{ before: Instant }>({
    text: `select max(m.before) as before from archived_account s join archive_month m on m.before <= s.before
      where s.user_id = $1 and m.phase <> 'planned'`,
    values: [user_id],
  });
  return row?.before ?? null;
}

/** The archived end of each account's chain. */
export async function* archivedEnds(sql: Pick<Sql, "query">) {
  for (let last: string | null = null; ; ) {
    const rows: { user_id: string; seq: number; hash: string; balance: number }[] = await sql.query({
      text: `select user_id, seq, encode(hash, 'hex') as hash, balance from archived_account
        where $1::uuid is null or user_id > $1 order by user_id limit ${FETCHED}`,
      values: [last],
    });
    if (rows.length === 0) return;
    yield rows;
    last = rows.at(-1)?.user_id ?? null;
  }
}
