import { expect } from "vitest";
import type { ExportedEntry } from "../../src/account/ledger/export-file.ts";
import { entryHash } from "../../src/account/ledger/verify-export.ts";
import type { Db } from "../../src/platform/db/db.ts";

/** All rows of one account, read at one moment. */
export interface State {
  account: Row;
  buckets: Row[];
  holds: Row[];
  events: Row[];
  daily: Row[];
  keys: Row[];
  reversals: Row[];
  /** Every entry so far. An entry is read only once: a change to it would break the hashes of later entries. */
  entries: Entry[];
}

type Entry = Omit<ExportedEntry, "id">;
// biome-ignore lint/suspicious/noExplicitAny: rows of any table, as they are
type Row = Record<string, any>;

const TABLES = { buckets: "bucket", holds: "hold", events: "usage_event", daily: "usage_daily", keys: "key_spend" };
const rowsOf = (table: string, order: string) =>
  `(select coalesce(json_agg(r order by ${order}), '[]') from ${table} r where user_id = $1)`;

const STATE = `select
  (select row_to_json(r) from account r where user_id = $1) as account,
  ${Object.entries(TABLES)
    .map(([name, table]) => `${rowsOf(table, table === "bucket" ? "granted_at, id" : "r")} as ${name}`)
    .join(", ")},
  ${rowsOf("reversal", "key")} as reversals,
  (select coalesce(json_agg(r order by seq), '[]') from (
    select user_id, seq, type, amount, balance_after, bucket_id, source, hold_id, model, agent_id, run_id, request_id,
        api_key_id, description, encode(hash, 'hex') as hash,
        to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at
      from entry where user_id = $1 and seq > $2
  ) r) as entries`;

/** The account's state, in one query. `before` is the last state that was read. */
export async function readState(db: Db, user_id: string, before: State | null): Promise<State> {
  const known = before?.entries ?? [];
  const [state] = await db.query<State>({ name: "state", text: STATE, values: [user_id, known.length] });
  if (state === undefined) throw new Error("no state");
  expectChained(known.at(-1), state.entries);
  return { ...state, entries: [...known, ...state.entries] };
}

/** New entries are numbered without a gap; each balance and hash follows from the one before. */
function expectChained(last: Entry | undefined, added: Entry[]): void {
  let { seq, balance_after, hash } = last ?? { seq: 0, balance_after: 0, hash: "0".repeat(64) };
  for (const entry of added) {
    seq += 1;
    balance_after += movesBalance(entry) ? entry.amount : 0;
    hash = entryHash(hash, entry as ExportedEntry);
    expect(entry).toMatchObject({ seq, balance_after, hash });
  }
}

const movesBalance = ({ type }: Row) => type !== "overage" && type !== "absorbed";

/** Σ of a field. */
const total = (rows: readonly Row[], field: string): number => rows.reduce((sum, row) => sum + row[field], 0);

/** The sum of a field, grouped by another field that is not 0. */
function sums(rows: readonly Row[], by: string, field: string): Map<string, number> {
  const totals = new Map<string, number>();
  for (const row of rows) totals.set(row[by], (totals.get(row[by]) ?? 0) + row[field]);
  totals.delete(null as never);
  return new Map([...totals].filter(([, sum]) => sum !== 0).toSorted());
}

/** Compares every invariant of the ledger (src/account/ledger/README.md) with this account's rows. */
export function expectInvariants(state: State): void {
  const { account, buckets, holds, events, entries } = state;
  const stored = { ...storedOfAccount(state), ...storedOfCalls(state) };
  expect(stored).toEqual({ ...computedOfAccount(state), ...computedOfCalls(state) });
  expect(account.overage + account.overage_held).toBeLessThanOrEqual(account.overage_limit);
  const charged = new Set(events.map(({ hold_id }) => hold_id));
  expect(holds.filter(({ id }) => charged.has(id))).toEqual([]);
  const spent = entries.filter(({ type }) => type === "usage");
  for (const bucket of buckets) {
    const late = spent.filter(({ bucket_id, created_at }) => bucket_id === bucket.id && isExpired(bucket, created_at));
    for (const { hold_id, amount } of late) expect(-amount).toBeLessThanOrEqual(heldOf(events, hold_id, bucket.id));
  }
}

function storedOfAccount({ account, buckets, holds }: State) {
  return {
    posted: account.posted,
    held: account.held,
    sliced: account.held,
    overage_held: account.overage_held,
    balance: account.posted - account.debt,
    entries: account.seq,
    hash: account.last_hash,
    debt: 0 - account.debt,
    overage: 0 - account.overage - account.overage_closed,
    reversals: total(buckets, "recalled") - total(buckets, "clawed_back"),
    bucket_held: sums(buckets, "id", "held"),
    bucket_remaining: sums(buckets, "id", "remaining"),
    bucket_original: sums(buckets, "id", "original"),
    bucket_clawed_back: sums(buckets, "id", "clawed_back"),
    hold: sums(holds, "id", "held"),
  };
}

function computedOfAccount({ buckets, holds, entries, reversals }: State): ReturnType<typeof storedOfAccount> {
  const slices = holds.flatMap(({ id, slice_buckets, slice_tokens }): Row[] =>
    slice_buckets.map((bucket_id: string, place: number) => ({ id, bucket_id, tokens: slice_tokens[place] })),
  );
  const of = (...types: string[]) => entries.filter(({ type }) => types.includes(type));
  const reversed = of("clawback", "adjustment");
  const owed = reversed.filter(({ bucket_id }) => bucket_id === null);
  const pinned = [...slices, ...holds.map(({ id, overage }) => ({ id, tokens: overage }))];
  return {
    posted: total(buckets, "remaining"),
    held: total(buckets, "held"),
    sliced: total(slices, "tokens"),
    overage_held: total(holds, "overage"),
    balance: total(entries.filter(movesBalance), "amount"),
    entries: entries.length,
    hash: `\\x${entries.at(-1)?.hash ?? "0".repeat(64)}`,
    debt: total(owed, "amount"),
    overage: total(of("overage"), "amount"),
    reversals: total(reversed, "amount"),
    bucket_held: sums(slices, "bucket_id", "tokens"),
    bucket_remaining: sums(entries, "bucket_id", "amount"),
    bucket_original: sums(of("grant"), "bucket_id", "amount"),
    bucket_clawed_back: sums(reversals, "bucket_id", "amount"),
    hold: sums(pinned, "id", "tokens"),
  };
}

function storedOfCalls({ events, daily, keys }: State) {
  const days = daily.map((row): Row => ({ ...row, of: `${row.day} ${row.model}` }));
  return {
    charged: sums(events, "hold_id", "charged"),
    overages: sums(events, "hold_id", "overage"),
    absorbed: sums(events, "hold_id", "absorbed"),
    cost: sums(events, "hold_id", "cost"),
    legs: sums(events, "hold_id", "cost"),
    requests: sums(days, "of", "requests"),
    daily_cost: sums(days, "of", "cost"),
    daily_output: sums(days, "of", "output_tokens"),
    daily_written: sums(days, "of", "cache_write_tokens"),
    daily_upstream: sums(days, "of", "upstream_cost_micro_usd"),
    key_spent: sums(keys, "api_key_id", "spent"),
    key_held: sums(keys, "api_key_id", "held"),
  };
}

function computedOfCalls({ events, holds, entries }: State): ReturnType<typeof storedOfCalls> {
  const legs = entries.map((entry): Row => ({ ...entry, tokens: -entry.amount }));
  const of = (...types: string[]) => legs.filter(({ type }) => types.includes(type));
  const priced = events.map(
    (event): Row => ({
      ...event,
      of: `${event.created_at.slice(0, 10)} ${event.model}`,
      request: 1,
      price: price(event),
    }),
  );
  return {
    charged: sums(of("usage"), "hold_id", "tokens"),
    overages: sums(of("overage"), "hold_id", "tokens"),
    absorbed: sums(of("absorbed"), "hold_id", "tokens"),
    cost: sums(priced, "hold_id", "price"),
    legs: sums(of("usage", "overage", "absorbed"), "hold_id", "tokens"),
    requests: sums(priced, "of", "request"),
    daily_cost: sums(priced, "of", "cost"),
    daily_output: sums(priced, "of", "output_tokens"),
    daily_written: sums(priced, "of", "cache_write_tokens"),
    daily_upstream: sums(priced, "of", "upstream_cost_micro_usd"),
    key_spent: sums(events, "api_key_id", "cost"),
    key_held: sums(holds, "api_key_id", "held"),
  };
}

function price(event: Row): number {
  const { input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens } = event;
  const { input_rate_micro, output_rate_micro } = event;
  const write_rate_micro = event.cache_write_rate_micro ?? input_rate_micro;
  const micro =
    (input_tokens - cached_input_tokens - cache_write_tokens) * input_rate_micro +
    cached_input_tokens * (event.cached_input_rate_micro ?? input_rate_micro) +
    (cache_write_tokens - cache_write_1h_tokens) * write_rate_micro +
    cache_write_1h_tokens * (event.cache_write_1h_rate_micro ?? write_rate_micro) +
    output_tokens * output_rate_micro;
  return Math.ceil(micro / 1e6);
}

const isExpired = (bucket: Row, at: string) => Date.parse(at) >= Date.parse(bucket.expires_at);

/** The tokens that a call held of a bucket. */
function heldOf(events: Row[], of_hold: string | null, bucket_id: string): number {
  const event = events.find(({ hold_id }) => hold_id === of_hold);
  const place = event?.slice_buckets?.indexOf(bucket_id) ?? -1;
  return place < 0 ? 0 : event?.slice_tokens[place];
}
