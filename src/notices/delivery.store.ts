import type { NoticeEvent } from "../contract/notices.ts";
import type { Db, Instant } from "../platform/db.ts";
import type { TryResult, Verdict } from "./retry.ts";

/** A delivery that this node has claimed, with its content. */
export interface ClaimedDelivery {
  user_id: string;
  notice_id: string;
  endpoint_id: string;
  /** The number of this try, from 1. A result of an expired claim has an old number and changes nothing. */
  attempts: number;
  /** The real time since the delivery was queued. */
  age_s: number;
  url: string;
  secret: Uint8Array;
  event: NoticeEvent;
  data: unknown;
  created_at: Instant;
}

const MINE = "user_id = $1 and notice_id = $2 and endpoint_id = $3 and attempts = $4 and status = 'pending'";
const keyOf = (delivery: ClaimedDelivery) => [
  delivery.user_id,
  delivery.notice_id,
  delivery.endpoint_id,
  delivery.attempts,
];

/** Deliveries: claim, settle, release. */
export function createDeliveryStore(db: Db) {
  return {
    /**
     * Claims up to `most` due deliveries, one per endpoint. Skips endpoints in `at_work`, and takes other endpoints of
     * the same users last. A claim expires after `claim_s`.
     */
    claim: (wanted: { most: number; at_work: readonly ClaimedDelivery[]; claim_s: number }) =>
      // The recursion jumps from endpoint to endpoint in the index, so one endpoint's backlog does not hide the others.
      db.query<ClaimedDelivery>({
        name: "delivery_claim",
        text: `with recursive queued as (
            (select endpoint_id from notice_delivery where status = 'pending' order by endpoint_id limit 1)
            union all
            select (select d.endpoint_id from notice_delivery d
              where d.status = 'pending' and d.endpoint_id > queued.endpoint_id order by d.endpoint_id limit 1)
            from queued where queued.endpoint_id is not null
          ), chosen as materialized (
            select first.* from queued cross join lateral (
              select user_id, notice_id, endpoint_id, attempts, next_attempt_at from notice_delivery d
              where d.status = 'pending' and d.endpoint_id = queued.endpoint_id and d.next_attempt_at <= clock_timestamp()
              order by d.next_attempt_at limit 1
            ) as first
            where queued.endpoint_id <> all($2::uuid[])
            order by first.user_id = any($4::uuid[]), first.attempts, first.next_attempt_at limit $1
          ), locked as materialized (
            select d.user_id, d.notice_id, d.endpoint_id from notice_delivery d join chosen using (user_id, notice_id, endpoint_id)
            where d.status = 'pending' and d.next_attempt_at <= clock_timestamp() for update of d skip locked
          )
          update notice_delivery d set attempts = d.attempts + 1, last_attempt_at = clock_timestamp(),
            next_attempt_at = clock_timestamp() + make_interval(secs => $3)
          from locked
          join notice n on n.user_id = locked.user_id and n.id = locked.notice_id
          join webhook_endpoint e on e.user_id = locked.user_id and e.id = locked.endpoint_id
          where d.user_id = locked.user_id and d.notice_id = locked.notice_id and d.endpoint_id = locked.endpoint_id
          returning d.user_id, d.notice_id, d.endpoint_id, d.attempts, e.url, e.secret, n.event, n.data, n.created_at,
            extract(epoch from clock_timestamp() - d.queued_at)::float8 as age_s`,
        values: [
          wanted.most,
          wanted.at_work.map(({ endpoint_id }) => endpoint_id),
          wanted.claim_s,
          wanted.at_work.map(({ user_id }) => user_id),
        ],
      }),

    /** Records the result of a try. */
    async settle(delivery: ClaimedDelivery, { status, error }: TryResult, verdict: Verdict): Promise<void> {
      await db.query({
        name: "delivery_settle",
        text: `update notice_delivery set last_status = $5, last_error = $6, status = $7,
            next_attempt_at = clock_timestamp() + make_interval(secs => $8::float8),
            delivered_at = case $7 when 'delivered' then clock_timestamp() end
          where ${MINE}`,
        values: [
          ...keyOf(delivery),
          status,
          error,
          verdict.outcome === "retry" ? "pending" : verdict.outcome === "delivered" ? "delivered" : "failed",
          verdict.outcome === "retry" ? verdict.delay_s : null,
        ],
      });
    },
    /** Releases the claim of an aborted try, so that another node can claim it. */
    async release(delivery: ClaimedDelivery): Promise<void> {
      await db.query({
        text: `update notice_delivery set next_attempt_at = clock_timestamp() where ${MINE}`,
        values: keyOf(delivery),
      });
    },
    /** Disables an endpoint that answered 410, and fails its open deliveries. */
    async disable({ user_id, endpoint_id }: ClaimedDelivery, disabled_at: Instant): Promise<void> {
      await db.transaction(async (tx) => {
        await tx.query({
          text: "update webhook_endpoint set disabled_at = coalesce(disabled_at, $3) where user_id = $1 and id = $2",
          values: [user_id, endpoint_id, disabled_at],
        });
        await tx.query({
          text: `update notice_delivery set status = 'failed', next_attempt_at = null, last_error = 'endpoint_disabled'
            where user_id = $1 and endpoint_id = $2 and status = 'pending'`,
          values: [user_id, endpoint_id],
        });
      });
    },
  };
}
