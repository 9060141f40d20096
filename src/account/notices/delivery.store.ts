import type { NoticeEvent } from "../../api/contract/notices.ts";
import type { Db } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import { lockInserts } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { MAIL_DAY } from "./notices.store.ts";
import type { TryResult, Verdict } from "./notices.types.ts";

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

const CLAIM_DELIVERIES = readStatement(import.meta.dirname, "claim-deliveries");
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
      db.query<ClaimedDelivery>({
        name: "delivery_claim",
        text: CLAIM_DELIVERIES,
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
    /**
     * Counts the notice as mailed, unless `most` other notices were mailed to the user within 24 hours, also to endpoints
     * that were deleted. False: it must not be mailed now.
     */
    countMail: ({ user_id, notice_id }: ClaimedDelivery, most: number): Promise<boolean> =>
      db.transaction(async (tx) => {
        await lockInserts(tx, "notice", user_id);
        const counted = await tx.query({
          text: `update notice set mailed_at = clock_timestamp() where user_id = $1 and id = $2 and $3 > (
              select count(*) from notice other
              where other.user_id = $1 and other.id <> $2 and other.mailed_at > clock_timestamp() - ${MAIL_DAY}
            ) returning id`,
          values: [user_id, notice_id, most],
        });
        return counted.length > 0;
      }),
    /** Takes the count back: the mail was not sent. */
    async uncountMail({ user_id, notice_id }: ClaimedDelivery): Promise<void> {
      await db.query({
        text: "update notice set mailed_at = null where user_id = $1 and id = $2",
        values: [user_id, notice_id],
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

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;
