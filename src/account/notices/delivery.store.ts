import type { EndpointDelivery, NoticeEvent, WebhookEndpoint } from "../../api/contract/notices.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import { lockInserts } from "../../platform/db/statements.ts";
import type { FormerSecret } from "../../platform/lib/former-secrets.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { failPending } from "./notices.store.ts";
import type { LastOutput, TryResult, Verdict } from "./notices.types.ts";

/** A delivery that this node has claimed. */
interface Claim {
  user_id: string;
  /** The `webhook-id` of every try. */
  id: string;
  destination_id: string;
  /** The number of this try, from 1. A result of an expired claim has an old number and changes nothing. */
  attempts: number;
  /** The real time since the delivery was queued. */
  age_s: number;
  url: string;
}
/** A notice to an endpoint, with its content. */
export interface ClaimedNotice extends Claim {
  run_id: null;
  endpoint_id: string;
  secret: Uint8Array;
  former_secrets: readonly FormerSecret[];
  event: NoticeEvent;
  data: unknown;
  created_at: Instant;
}
/** The result of a run to an address of its agent. The try reads the run. */
export interface ClaimedResult extends Claim {
  run_id: string;
  unless_unchanged: boolean;
}
export type ClaimedDelivery = ClaimedNotice | ClaimedResult;

/** What an endpoint shows of its deliveries: those that failed, and the one that was tried last. */
interface EndpointSummary extends Pick<WebhookEndpoint, "failed_deliveries" | "last_delivery"> {
  endpoint_id: string;
}

const SHOWN = `d.id, n.event, n.created_at, d.status, d.attempts, d.last_attempt_at, d.last_status, d.last_error,
  d.next_attempt_at, d.delivered_at`;

/** How long a mail counts toward the limit of mails to its user. */
const MAIL_DAY = "interval '1 day'";
const CLAIM_DELIVERIES = readStatement(import.meta.dirname, "claim-deliveries");
const MINE = "user_id = $1 and id = $2 and destination_id = $3 and attempts = $4 and status = 'pending'";
const keyOf = (delivery: ClaimedDelivery) => [
  delivery.user_id,
  delivery.id,
  delivery.destination_id,
  delivery.attempts,
];

/** Deliveries: claim, settle, release. */
export function createDeliveryStore(db: Db) {
  return {
    /**
     * Claims up to `most` due deliveries, one per destination. Skips destinations in `at_work`, and takes other
     * destinations of the same users last. A claim expires after `claim_s`.
     */
    claim: (wanted: { most: number; at_work: readonly ClaimedDelivery[]; claim_s: number }) =>
      db.query<ClaimedDelivery>({
        name: "delivery_claim",
        text: CLAIM_DELIVERIES,
        values: [
          wanted.most,
          wanted.at_work.map(({ destination_id }) => destination_id),
          wanted.claim_s,
          wanted.at_work.map(({ user_id }) => user_id),
        ],
      }),

    /** Records the outcome of a try. False: the claim has expired. A skipped delivery was not tried. */
    async settle(
      sql: Sql,
      delivery: ClaimedDelivery,
      { status, error }: Pick<TryResult, "status" | "error">,
      verdict: Verdict,
    ): Promise<boolean> {
      const settled = await sql.query({
        name: "delivery_settle",
        text: `update delivery set last_status = $5, last_error = $6, status = $7,
            attempts = attempts - ($7 = 'skipped')::integer,
            next_attempt_at = clock_timestamp() + make_interval(secs => $8::float8),
            delivered_at = case $7 when 'delivered' then clock_timestamp() end
          where ${MINE} returning id`,
        values: [
          ...keyOf(delivery),
          status,
          error,
          verdict.outcome === "retry" ? "pending" : verdict.outcome === "gone" ? "failed" : verdict.outcome,
          verdict.outcome === "retry" ? verdict.delay_s : null,
        ],
      });
      return settled.length > 0;
    },
    /** The deliveries of an endpoint, newest first, or one of them. */
    ofEndpoint: (
      endpoint: { user_id: string; endpoint_id: string },
      { limit, before_id, id = null }: { limit: number; before_id: string | null; id?: string | null },
    ) =>
      db.query<EndpointDelivery>({
        text: `select ${SHOWN} from delivery d join notice n on n.user_id = d.user_id and n.id = d.notice_id
          where d.user_id = $1 and d.endpoint_id = $2 and ($3::uuid is null or d.id < $3) and ($4::uuid is null or d.id = $4)
          order by d.id desc limit $5`,
        values: [endpoint.user_id, endpoint.endpoint_id, before_id, id, limit],
      }),
    /** The number of failed deliveries of each endpoint, with the delivery that was tried last. */
    async summaries(user_id: string, endpoint_ids: readonly string[]): Promise<EndpointSummary[]> {
      const rows = await db.query<
        Omit<EndpointSummary, "last_delivery"> & (EndpointDelivery | Record<keyof EndpointDelivery, null>)
      >({
        text: `select e.id as endpoint_id, last.*, (
              select count(*) from delivery f where f.user_id = $1 and f.endpoint_id = e.id and f.status = 'failed'
            ) as failed_deliveries
          from webhook_endpoint e left join lateral (
            select ${SHOWN} from delivery d join notice n on n.user_id = d.user_id and n.id = d.notice_id
            where d.user_id = $1 and d.endpoint_id = e.id and d.last_attempt_at is not null
            order by d.last_attempt_at desc limit 1
          ) as last on true
          where e.user_id = $1 and e.id = any($2::uuid[])`,
        values: [user_id, endpoint_ids],
      });
      return rows.map(({ endpoint_id, failed_deliveries, ...last }) => ({
        endpoint_id,
        failed_deliveries,
        last_delivery: last.id === null ? null : last,
      }));
    },
    /** Makes a delivery due at once, for another day. A late result of an earlier try has another number of attempts. */
    async resend(endpoint: { user_id: string; endpoint_id: string }, id: string): Promise<void> {
      await db.query({
        text: `update delivery set status = 'pending', next_attempt_at = clock_timestamp(), queued_at = clock_timestamp(),
            delivered_at = null
          where user_id = $1 and endpoint_id = $2 and id = $3`,
        values: [endpoint.user_id, endpoint.endpoint_id, id],
      });
    },
    /** Whether this output is the one that the destination got last. */
    async isLastOutput(
      { user_id, destination_id }: ClaimedDelivery,
      { agent_id, schedule_id, output_hash }: LastOutput,
    ): Promise<boolean> {
      const same = await db.query({
        name: "delivered_output_find",
        text: `select from delivered_output
          where user_id = $1 and agent_id = $2 and schedule_id = $3 and destination_id = $4 and output_hash = $5`,
        values: [user_id, agent_id, schedule_id, destination_id, output_hash],
      });
      return same.length > 0;
    },
    async keepOutput(
      tx: Tx,
      { user_id, destination_id }: ClaimedDelivery,
      { agent_id, schedule_id, output_hash }: LastOutput,
    ): Promise<void> {
      await tx.query({
        text: `insert into delivered_output (user_id, agent_id, schedule_id, destination_id, output_hash)
          values ($1, $2, $3, $4, $5)
          on conflict (user_id, agent_id, schedule_id, destination_id) do update set output_hash = excluded.output_hash`,
        values: [user_id, agent_id, schedule_id, destination_id, output_hash],
      });
    },
    /**
     * Counts the mail of a delivery, unless `most` others were sent to the user within 24 hours. False: it must not be
     * sent now.
     */
    countMail: ({ user_id, id }: ClaimedDelivery, most: number): Promise<boolean> =>
      db.transaction(async (tx) => {
        await lockInserts(tx, "sent_mail", user_id);
        const counted = await tx.query({
          text: `insert into sent_mail (user_id, delivery_id) select $1, $2 where $3 > (
              select count(*) from sent_mail other
              where other.user_id = $1 and other.delivery_id <> $2 and other.sent_at > clock_timestamp() - ${MAIL_DAY}
            ) on conflict (user_id, delivery_id) do update set sent_at = clock_timestamp() returning delivery_id`,
          values: [user_id, id, most],
        });
        return counted.length > 0;
      }),
    /** Takes the count back: the mail was not sent. */
    async uncountMail({ user_id, id }: ClaimedDelivery): Promise<void> {
      await db.query({
        text: "delete from sent_mail where user_id = $1 and delivery_id = $2",
        values: [user_id, id],
      });
    },
    /** Deletes the counts of mails that count no longer. */
    async sweepMails(): Promise<void> {
      await db.query({ text: `delete from sent_mail where sent_at <= clock_timestamp() - ${MAIL_DAY}` });
    },
    /** Releases the claim of an aborted try, so that another node can claim it. */
    async release(delivery: ClaimedDelivery): Promise<void> {
      await db.query({
        text: `update delivery set next_attempt_at = clock_timestamp() where ${MINE}`,
        values: keyOf(delivery),
      });
    },
    /** Disables an endpoint that answered 410, and fails its open deliveries. */
    async disable({ user_id, endpoint_id }: ClaimedNotice, disabled_at: Instant): Promise<void> {
      await db.transaction(async (tx) => {
        await tx.query({
          text: "update webhook_endpoint set disabled_at = coalesce(disabled_at, $3) where user_id = $1 and id = $2",
          values: [user_id, endpoint_id, disabled_at],
        });
        await failPending(tx, user_id, endpoint_id);
      });
    },
  };
}

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;
