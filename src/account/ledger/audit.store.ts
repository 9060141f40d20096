import { RATE_SCALE } from "../../kernel/constants.ts";
import type { Reader } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";
import type { AuditReport, Invariant } from "./ledger.types.ts";

/** Most violations reported per invariant. One is enough to act, and the report needs a limit. */
const REPORTED_PER_INVARIANT = 20;

const LEDGER_INVARIANTS: readonly Invariant[] = [
  {
    invariant: "posted and held are the sums over the buckets",
    text: `select a.user_id, format('posted %s held %s, buckets %s %s', a.posted, a.held, b.remaining, b.held) as detail
      from account a cross join lateral (
        select coalesce(sum(remaining), 0) as remaining, coalesce(sum(held), 0) as held from bucket where user_id = a.user_id
      ) b where (a.posted, a.held) is distinct from (b.remaining, b.held)`,
  },
  {
    invariant: "held and overage_held are the sums over the open holds",
    text: `select a.user_id, format('held %s overage_held %s, holds %s %s', a.held, a.overage_held, h.sliced, h.overage) as detail
      from account a cross join lateral (
        select coalesce(sum(held - overage), 0) as sliced, coalesce(sum(overage), 0) as overage from hold where user_id = a.user_id
      ) h where (a.held, a.overage_held) is distinct from (h.sliced, h.overage)`,
  },
  {
    invariant: "a bucket's held is the sum of the slices that pin it",
    text: `select user_id, format('bucket %s held %s, slices %s', id, held, pinned) as detail from (
        select b.user_id, b.id, b.held, coalesce(s.pinned, 0) as pinned from bucket b full join (
          select user_id, slice.bucket_id, sum(slice.tokens) as pinned
            from hold, unnest(slice_buckets, slice_tokens) as slice(bucket_id, tokens) group by 1, 2
        ) s on s.user_id = b.user_id and s.bucket_id = b.id
      ) both_sides where held is distinct from pinned`,
  },
  {
    invariant: "a hold is its slices and its overage",
    text: `select user_id, format('hold %s of %s', id, held) as detail from hold
      where held <> overage + (select coalesce(sum(tokens), 0) from unnest(slice_tokens) as tokens)`,
  },
  {
    invariant: "posted less debt is the sum of the entries that move the balance",
    text: `select a.user_id, format('posted %s debt %s, entries %s', a.posted, a.debt, e.total) as detail
      from account a cross join lateral (
        select coalesce(sum(amount), 0) as total from (
          select amount, type from entry where user_id = a.user_id
          union all select amount, type from archived_entry_daily where user_id = a.user_id
        ) all_entries where type not in ('overage', 'absorbed')
      ) e where a.posted - a.debt <> e.total`,
  },
  {
    invariant: "entries are numbered without a gap",
    text: `select a.user_id, format('seq %s, archived %s, entries %s from %s to %s', a.seq, s.last, e.count, e.low, e.high) as detail
      from account a cross join lateral (
        select coalesce(max(seq), 0) as last from archived_account where user_id = a.user_id
      ) s cross join lateral (
        select count(*), coalesce(min(seq), s.last + 1) as low, coalesce(max(seq), s.last) as high
          from entry where user_id = a.user_id
      ) e where (a.seq - s.last, a.seq, s.last + 1) is distinct from (e.count, e.high, e.low)`,
  },
  {
    invariant: "every entry has its account",
    text: `select distinct user_id, 'no account' as detail from entry e
      where not exists (select from account a where a.user_id = e.user_id)`,
  },
  {
    invariant: "each balance_after is the one before and the amount",
    text: `select user_id, format('entry %s', seq) as detail from (
        select e.*, coalesce(lag(balance_after) over (partition by user_id order by e.seq), s.balance, 0) as balance_before
          from entry e left join archived_account s using (user_id)
      ) chained
      where balance_after <> balance_before + case when type in ('overage', 'absorbed') then 0 else amount end`,
  },
  {
    invariant: "each hash is that of the entry and the hash before",
    text: `select a.user_id, format('entry %s', coalesce(e.seq, a.seq)) as detail
      from account a left join archived_account s on s.user_id = a.user_id left join (
        select e.*, lead(e.hash) over (partition by user_id order by e.seq) as following,
            coalesce(lag(e.hash) over (partition by user_id order by e.seq), s.hash, decode(repeat('00', 32), 'hex')) as previous
          from entry e left join archived_account s using (user_id)
      ) e on e.user_id = a.user_id
      where e.hash <> entry_hash(e.previous, e.user_id, e.seq, e.type, e.amount, e.balance_after, e.bucket_id,
          e.source, e.hold_id, e.model, e.agent_id, e.run_id, e.request_id, e.api_key_id, e.description, e.created_at)
        or (e.following is null and coalesce(e.hash, s.hash, decode(repeat('00', 32), 'hex')) <> a.last_hash)`,
  },
  {
    invariant: "a bucket's remaining is what its entries leave of its grant",
    text: readStatement(import.meta.dirname, "audit-buckets"),
  },
  {
    invariant: "a bucket is what its grant says, and has expired no sooner than it does",
    text: `select b.user_id, format('bucket %s, entry %s', b.id, e.seq) as detail
      from bucket b join entry e on e.user_id = b.user_id and e.bucket_id = b.id
      where (e.type = 'grant' and (e.source, e.created_at) is distinct from (b.source, b.granted_at))
        or (e.type = 'expiry' and e.amount < 0 and e.created_at < b.expires_at)`,
  },
  {
    invariant: "the entries of a charge are what it charged, what was overage and what was absorbed",
    text: `select u.user_id, format('hold %s cost %s', u.hold_id, u.cost) as detail
      from usage_event u left join (
        select user_id, hold_id, min(seq) as low, max(seq) as high,
            -coalesce(sum(amount) filter (where type = 'usage'), 0) as charged,
            -coalesce(sum(amount) filter (where type = 'overage'), 0) as overage,
            -coalesce(sum(amount) filter (where type = 'absorbed'), 0) as absorbed
          from entry where hold_id is not null group by 1, 2
      ) e on e.user_id = u.user_id and e.hold_id = u.hold_id
      where (u.charged, u.overage, u.absorbed) is distinct from
          (coalesce(e.charged, 0), coalesce(e.overage, 0), coalesce(e.absorbed, 0))
        or e.low <= u.entries_after or e.high > u.entries_to`,
  },
  {
    invariant: "a charge costs its tokens at its rates, rounded up once",
    text: `select user_id, format('hold %s cost %s, exactly %s millionths', hold_id, cost, micro) as detail
      from (
        select user_id, hold_id, cost,
            (input_tokens - cached_input_tokens - cache_write_tokens)::numeric * input_rate_micro
            + cached_input_tokens::numeric * coalesce(cached_input_rate_micro, input_rate_micro)
            + (cache_write_tokens - cache_write_1h_tokens)::numeric * coalesce(cache_write_rate_micro, input_rate_micro)
            + cache_write_1h_tokens::numeric
              * coalesce(cache_write_1h_rate_micro, cache_write_rate_micro, input_rate_micro)
            + output_tokens::numeric * output_rate_micro as micro
          from usage_event
      ) priced where cost <> ceil(micro / ${RATE_SCALE})`,
  },
  {
    invariant: "every entry of a charge has its usage event, of the same call",
    text: `select user_id, format('entry %s', seq) as detail from entry e
      where type in ('usage', 'overage', 'absorbed')
        and not exists (
          select from usage_event u where u.user_id = e.user_id and u.hold_id = e.hold_id
            and (u.model, u.agent_id, u.run_id, u.request_id, u.api_key_id)
              is not distinct from (e.model, e.agent_id, e.run_id, e.request_id, e.api_key_id)
            and u.created_at <= e.created_at
        )`,
  },
  {
    invariant: "what a charge keeps of its hold is its slices and perhaps overage, no more than was asked for",
    text: `select user_id, format('hold %s of %s', hold_id, held) as detail from usage_event
      where held > requested
        or held < (select coalesce(sum(tokens), 0) from unnest(slice_tokens) as tokens)`,
  },
  {
    invariant: "the daily usage is the sum of the usage events",
    text: readStatement(import.meta.dirname, "audit-daily-usage"),
  },
  {
    invariant: "the daily usage of each label is the sum of its usage events",
    text: readStatement(import.meta.dirname, "audit-label-usage"),
  },
  {
    invariant: "a key has spent what its calls cost and holds what its holds hold",
    text: `select user_id, format('key %s spent %s held %s, calls %s holds %s', api_key_id, spent, held, cost, pinned) as detail
      from (
        select user_id, api_key_id, sum(spent) as spent, sum(held) as held, sum(cost) as cost, sum(pinned) as pinned from (
          select user_id, api_key_id, spent, held, 0 as cost, 0 as pinned from key_spend
          union all select user_id, api_key_id, 0, 0, cost, 0 from usage_event where api_key_id is not null
          union all select user_id, api_key_id, 0, 0, cost, 0 from archived_usage_daily where api_key_id <> '${NIL_ID}'
          union all select user_id, api_key_id, 0, 0, 0, held from hold where api_key_id is not null
        ) rows group by 1, 2
      ) both_sides where (spent, held) is distinct from (cost, pinned)`,
  },
  {
    invariant: "overage used and held stays within its cap, unless the cap was lowered below it",
    text: `select user_id, format('overage %s and %s held, limit %s', overage, overage_held, overage_limit) as detail
      from account where overage + overage_held > overage_limit or overage_limit < overage_cap`,
  },
  {
    invariant: "the overage of all periods is the sum of the overage entries",
    text: `select a.user_id, format('overage %s and %s closed, entries %s', a.overage, a.overage_closed, e.total) as detail
      from account a cross join lateral (
        select -coalesce(sum(amount), 0) as total from (
          select amount from entry where user_id = a.user_id and type = 'overage'
          union all select amount from archived_entry_daily where user_id = a.user_id and type = 'overage'
        ) all_entries
      ) e where a.overage + a.overage_closed <> e.total`,
  },
  {
    invariant: "what was clawed back of a grant is the sum of its reversals",
    text: `select b.user_id, format('bucket %s clawed_back %s, reversals %s', b.id, b.clawed_back, r.total) as detail
      from bucket b cross join lateral (
        select coalesce(sum(amount), 0) as total from reversal where user_id = b.user_id and bucket_id = b.id
      ) r where b.clawed_back <> r.total`,
  },
  {
    invariant:
      "the entries of reversals and adjustments are what was clawed back or adjusted, less what calls hold of it",
    text: `select a.user_id, format('clawed back %s, entries %s', b.total, e.total) as detail
      from account a cross join lateral (
        select coalesce(sum(clawed_back - recalled + adjusted - case when by_adjustment then original else 0 end), 0) + (
            select coalesce(sum(amount), 0) from reversal where user_id = a.user_id and bucket_id is null
          ) as total
          from bucket where user_id = a.user_id
      ) b cross join lateral (
        select -coalesce(sum(amount), 0) as total from (
          select amount, type from entry where user_id = a.user_id
          union all select amount, type from archived_entry_daily where user_id = a.user_id
        ) all_entries where type in ('clawback', 'adjustment')
      ) e where b.total <> e.total`,
  },
  {
    invariant: "debt is the sum of the entries that moved it",
    text: `select a.user_id, format('debt %s, entries %s', a.debt, e.total) as detail
      from account a cross join lateral (
        select -coalesce(sum(amount), 0) as total from (
          select amount, type, bucket_id from entry where user_id = a.user_id
          union all select amount, type, nullif(bucket_id, '${NIL_ID}') from archived_entry_daily where user_id = a.user_id
        ) all_entries where type in ('clawback', 'adjustment') and bucket_id is null
      ) e where a.debt <> e.total`,
  },
  {
    invariant:
      "the archived sums of an account are its archived balance, and its archived calls cost its archived entries",
    text: `select s.user_id, format('balance %s, entries %s; calls %s, their entries %s', s.balance, e.moved, u.cost, e.charged) as detail
      from archived_account s cross join lateral (
        select coalesce(sum(amount) filter (where type not in ('overage', 'absorbed')), 0) as moved,
            -coalesce(sum(amount) filter (where type in ('usage', 'overage', 'absorbed')), 0) as charged
          from archived_entry_daily where user_id = s.user_id
      ) e cross join lateral (
        select coalesce(sum(cost), 0) as cost from archived_usage_daily where user_id = s.user_id
      ) u where (s.balance, u.cost) is distinct from (e.moved, e.charged)`,
  },
  {
    invariant: "no hold stands beside its own charge",
    text: `select user_id, format('hold %s', id) as detail
      from hold h join usage_event u using (user_id) where u.hold_id = h.id`,
  },
  {
    invariant: "no entry spends a bucket past its expiry unless that was held",
    text: `select e.user_id, format('entry %s', e.seq) as detail
      from entry e
      join bucket b on b.user_id = e.user_id and b.id = e.bucket_id and e.created_at >= b.expires_at
      join usage_event u on u.user_id = e.user_id and u.hold_id = e.hold_id
      where e.type = 'usage'
        and -e.amount > coalesce((
          select sum(tokens) from unnest(u.slice_buckets, u.slice_tokens) as slice(bucket_id, tokens)
            where slice.bucket_id = e.bucket_id
        ), 0)`,
  },
];

/** All invariants in one statement, so that they see the same snapshot. */
const atOnce = (invariants: readonly Invariant[]) =>
  invariants
    .map(
      ({ text }, index) =>
        `select ${index} as index, found.user_id, found.detail from (${text} limit ${REPORTED_PER_INVARIANT}) as found`,
    )
    .join("\nunion all\n");

/**
 * Recomputes every balance from the entries, buckets, holds and usage events of one snapshot. Also checks the
 * invariants of other modules (`more`).
 */
export async function runAudit(db: Reader, more: readonly Invariant[]): Promise<AuditReport> {
  const invariants = [...LEDGER_INVARIANTS, ...more];
  const [checked] = await db.query<Record<string, number>>({
    text: `select (select count(*) from account) as accounts, (select count(*) from bucket) as buckets,
      (select count(*) from hold) as holds, (select count(*) from entry) as entries,
      (select count(*) from usage_event) as usage_events,
      (select coalesce(sum(seq), 0)::bigint from archived_account) as archived_entries`,
    no_timeout: true,
  });
  const found = await db.query<{ index: number; user_id: string | null; detail: string }>({
    text: atOnce(invariants),
    no_timeout: true,
  });
  const violations = found.map(({ index, user_id, detail }) => ({
    invariant: invariants[index]?.invariant ?? "",
    account_id: user_id,
    detail,
  }));
  return { ok: violations.length === 0, checked: { ...checked, invariants: invariants.length }, violations };
}
