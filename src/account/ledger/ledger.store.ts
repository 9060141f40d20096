import type { KeySpend } from "../../api/contract/key-terms.ts";
import { HOLD_SECONDS } from "../../kernel/constants.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";
import type { AccountFigures } from "./account-status.ts";
import type { Reversal, ReversalOutcome } from "./adjustment.types.ts";
import type {
  Bucket,
  Charge,
  Crossing,
  GrantRequest,
  HoldOutcome,
  HoldRequest,
  Progress,
  SettleOutcome,
  SettleRequest,
  TransactionHookAnswer,
} from "./ledger.types.ts";

/** One operation of a batch, in the form that `ledger_apply_batch` reads. */
export type Operation =
  | ({ kind: "hold" } & HoldRequest)
  | ({ kind: "settle" } & SettleRequest)
  | { kind: "release"; user_id: string; hold_id: string }
  | DeadHold;

/** A hold whose lease has expired. It is settled at its last progress, or released without one. */
type DeadHold = { kind: "expire"; user_id: string; hold_id: string } & Partial<Charge>;

/** The outcome of a hold whose hook did not answer `done`. */
export type Superseded = { status: "superseded"; hook: TransactionHookAnswer };

export type Outcome = HoldOutcome | Superseded | SettleOutcome | { status: "released" };

const APPLY = "select ledger_apply_batch($1, $2, $3, $4, null) as outcomes";

/**
 * Does all `operations` or none, in one round trip; returns the outcomes in the same order. `with_hooks` is the
 * statement for a batch with hooks: it takes the values of `APPLY` and then the hooks, carries the hooks out and returns
 * `outcomes`.
 */
export async function applyOperations(
  sql: Sql,
  operations: Operation[],
  now: Instant,
  with_hooks: string | null = null,
): Promise<Outcome[]> {
  const hooks = operations.map((operation) => ("hook" in operation ? (operation.hook ?? null) : null));
  const has_hooks = hooks.some((hook) => hook !== null);
  if (has_hooks && with_hooks === null) throw new Error("the ledger was given no statement for hooks");
  const user_ids = [...new Set(operations.map(({ user_id }) => user_id))];
  // The hooks are apart, because each reader of the operations reads the whole of their text.
  const bare = has_hooks ? operations.map((operation) => ({ ...operation, hook: undefined })) : operations;
  const values = [jsonbText(bare), user_ids, now, HOLD_SECONDS];
  const [row] = await sql.query<{ outcomes: Outcome[] }>({
    hot_path: true,
    ...(has_hooks
      ? { name: "ledger_apply_with_hooks", text: with_hooks ?? APPLY, values: [...values, jsonbText(hooks)] }
      : { name: "ledger_apply_batch", text: APPLY, values }),
  });
  return row?.outcomes ?? [];
}

/** Marks the holds of settles with estimated counts. The charge copies the mark with the hold's estimate. */
export async function markEstimated(sql: Sql, operations: readonly Operation[]): Promise<void> {
  // One row at a time: a statement that locks several rows could deadlock with another node's sweep.
  for (const operation of operations) {
    if (operation.kind !== "settle" || operation.is_estimated !== true) continue;
    const { user_id, hold_id } = operation;
    await sql.query({
      text: `update hold set estimate = estimate || '{"is_usage_estimated": true}' where user_id = $1 and id = $2`,
      values: [user_id, hold_id],
    });
  }
}

export async function insertAccount(
  sql: Sql,
  account: { user_id: string; trial_ends_at: Instant | null; opened_at: Instant },
): Promise<void> {
  await sql.query({
    text: "insert into account (user_id, trial_ends_at, opened_at) values ($1, $2, $3)",
    values: [account.user_id, account.trial_ends_at, account.opened_at],
  });
}

const BUCKET_COLUMNS = `
  id, source, original as original_amount,
  case when expires_at <= $2 then held else remaining end as remaining, held, granted_at, expires_at, note,
  coalesce(closed_reason, case when expires_at <= $2 then 'expired' end) as closed_reason`;

/** Grants once per `grant_key`. Returns the bucket of that key, also if an earlier call made it. */
export async function insertGrant(sql: Sql, bucket_id: string, request: GrantRequest, now: Instant): Promise<Bucket> {
  const [granted] = await sql.query<{ id: string }>({
    text: "select ledger_grant($1, $2, $3, $4, $5, $6, $7, $8) as id",
    values: [
      request.user_id,
      bucket_id,
      request.source,
      request.amount_tokens,
      request.granted_at,
      request.expires_at,
      request.note,
      request.grant_key ?? null,
    ],
  });
  const bucket = await findBucket(sql, request.user_id, granted?.id ?? "", now);
  if (bucket === undefined) throw new Error("a grant left no bucket");
  return bucket;
}

/** Sums over the unexpired buckets at `now`, and the other figures that decide refusals. */
export async function findAccount(sql: Sql, user_id: string, now: Instant): Promise<AccountFigures | undefined> {
  const [account] = await sql.query<AccountFigures>({
    name: "ledger_account_status",
    text: `select coalesce(sum(b.remaining), 0) as posted, coalesce(sum(b.held), 0) as held,
        a.debt, a.trial_ends_at, a.paid_since, a.overage, a.overage_held, a.overage_cap
      from account a
      left join bucket b on b.user_id = a.user_id and b.closed_reason is null and b.expires_at > $2
      where a.user_id = $1 group by a.user_id`,
    values: [user_id, now],
  });
  return account;
}

export async function findBucket(sql: Sql, user_id: string, id: string, now: Instant): Promise<Bucket | undefined> {
  const [bucket] = await sql.query<Bucket>({
    text: `select ${BUCKET_COLUMNS} from bucket where user_id = $1 and id = $3`,
    values: [user_id, now, id],
  });
  return bucket;
}

/** Buckets ordered by (granted_at, id), after the bucket with the id `after`. */
export function listBuckets(
  sql: Sql,
  user_id: string,
  page: { include_closed: boolean; limit: number; after: string | null },
  now: Instant,
): Promise<Bucket[]> {
  const open = page.include_closed ? "" : "and closed_reason is null and expires_at > $2";
  return sql.query<Bucket>({
    text: `select ${BUCKET_COLUMNS} from bucket
      where user_id = $1 ${open}
        and ($4::uuid is null or (granted_at, id) > (select granted_at, id from bucket where user_id = $1 and id = $4))
      order by bucket.granted_at, bucket.id limit $3`,
    values: [user_id, now, page.limit, page.after],
  });
}

/** The refill count of each account. */
export function listRefills(sql: Sql, user_ids: readonly string[]): Promise<{ user_id: string; refills: number }[]> {
  return sql.query({
    name: "ledger_refills",
    text: "select user_id, refills from account where user_id in (select value::uuid from jsonb_array_elements_text($1::jsonb))",
    values: [JSON.stringify(user_ids)],
  });
}

/** The billed tokens of these API keys. A key without a hold or a charge has no row. */
export function listKeySpend(
  sql: Sql,
  { user_ids, ids }: { user_ids: readonly string[]; ids: readonly string[] },
  now: Instant,
): Promise<(KeySpend & { api_key_id: string })[]> {
  return sql.query({
    name: "ledger_key_spend",
    text: `select k.api_key_id, k.spent, coalesce(d.day, 0) as day, coalesce(d.week, 0) as week, coalesce(d.month, 0) as month
      from key_spend k cross join lateral (
        select sum(cost) filter (where u.day >= today::date) as day,
            sum(cost) filter (where u.day >= date_trunc('week', today)) as week,
            sum(cost) filter (where u.day >= date_trunc('month', today)) as month
          from (select $3::timestamptz at time zone 'UTC' as today) as clock join usage_daily u
            on u.user_id = k.user_id and u.api_key_id = k.api_key_id
              and u.day >= least(date_trunc('week', today), date_trunc('month', today))::date
      ) as d
      where k.user_id in (select value::uuid from jsonb_array_elements_text($1::jsonb))
        and k.api_key_id in (select value::uuid from jsonb_array_elements_text($2::jsonb))`,
    values: [JSON.stringify(user_ids), JSON.stringify(ids), now],
  });
}

/**
 * Closes the expired buckets of at most `limit` accounts, in the order of their ids after `after`. Returns these
 * accounts; an account with a `failure` did not change.
 */
export function sweepExpired(
  sql: Sql,
  now: Instant,
  { after, limit }: { after: string | null; limit: number },
): Promise<{ user_id: string; failure: string | null }[]> {
  return sql.query({
    text: "select account_id as user_id, failure from ledger_sweep($1, $2, $3)",
    values: [now, after, limit],
  });
}

/** Renews leases and stores progress in one round trip. Waits for no lock. */
export async function noteProgress(sql: Sql, calls: Progress[]): Promise<void> {
  await sql.query({
    name: "ledger_progress",
    text: "select ledger_progress($1, $2)",
    values: [JSON.stringify(calls), HOLD_SECONDS],
  });
}

/** Holds whose lease has expired by the database's real clock, without the ids in `except`. */
export async function listDeadHolds(
  sql: Sql,
  { except, limit }: { except: readonly string[]; limit: number },
): Promise<DeadHold[]> {
  const dead = await sql.query<{ user_id: string; hold_id: string; progress: Charge | null }>({
    text: `select user_id, id as hold_id, progress from hold
      where expires_at <= clock_timestamp() and id <> all ($1) order by expires_at limit $2`,
    values: [except, limit],
  });
  return dead.map(({ user_id, hold_id, progress }) => ({ kind: "expire", user_id, hold_id, ...progress }));
}

/** Open holds, counted up to 20,000. */
export async function countHolds(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ open: number }>({
    text: "select count(*)::int as open from (select from hold limit 20000) as counted",
  });
  return row?.open ?? 0;
}

/** The first instant up to `until` when an open bucket expires or a running trial ends; null if none. */
export async function findNextDue(sql: Sql, now: Instant, until: Instant): Promise<Instant | null> {
  const [row] = await sql.query<{ at: Instant | null }>({
    text: `select least(
        (select expires_at from bucket
          where closed_reason is null and remaining > held and expires_at <= $2 order by expires_at limit 1),
        (select trial_ends_at from account
          where paid_since is null and trial_ends_at > $1 and trial_ends_at <= $2 order by trial_ends_at limit 1)
      ) as at`,
    values: [now, until],
  });
  return row?.at ?? null;
}

/** The key of a crossing. */
export type CrossingKey = Pick<Crossing, "user_id" | "seq" | "kind" | "percent">;

/** The keys of crossings that are not yet notified, in order, after the key `after`. */
export function listCrossings(sql: Sql, after: CrossingKey | null, limit: number): Promise<CrossingKey[]> {
  return sql.query({
    text: `select user_id, seq, kind, percent from crossing
      where $1::uuid is null or (user_id, seq, kind, percent) > ($1, $2::bigint, $3::text, $4::integer)
      order by user_id, seq, kind, percent limit $5`,
    values: [after?.user_id ?? null, after?.seq ?? null, after?.kind ?? null, after?.percent ?? null, limit],
  });
}

/** Deletes a crossing and returns it. undefined: another node has taken it, or is notifying it now. */
export async function takeCrossing(
  tx: Tx,
  { user_id, seq, kind, percent }: CrossingKey,
): Promise<Crossing | undefined> {
  const [taken] = await tx.query<{ crossing: Crossing }>({
    text: `delete from crossing using (
        select user_id, seq, kind, percent from crossing
          where (user_id, seq, kind, percent) = ($1, $2, $3, $4) for update skip locked
      ) as mine
      where (crossing.user_id, crossing.seq, crossing.kind, crossing.percent)
        = (mine.user_id, mine.seq, mine.kind, mine.percent)
      returning crossing.detail || jsonb_build_object('user_id', crossing.user_id, 'seq', crossing.seq,
        'hold_id', crossing.hold_id, 'kind', crossing.kind, 'percent', crossing.percent) as crossing`,
    values: [user_id, seq, kind, percent],
  });
  return taken?.crossing;
}

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
