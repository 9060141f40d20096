import type { Notice, NoticeDelivery, NoticeEvent } from "../../api/contract/notices.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { deleteBeyondNewest, firstRow } from "../../platform/db/statements.ts";
import type { FormerSecret } from "../../platform/lib/former-secrets.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { NewNotice } from "./notices.types.ts";

export interface EndpointRow {
  user_id: string;
  id: string;
  url: string;
  events: NoticeEvent[];
  secret: Uint8Array;
  /** Newest first. */
  former_secrets: readonly FormerSecret[];
  created_at: Instant;
  disabled_at: Instant | null;
}

interface NoticePage {
  event: NoticeEvent | null;
  limit: number;
  before_id: string | null;
}

/** The condition of an endpoint that is an e-mail address in use. */
export const IS_MAIL = "url like 'mailto:%' and disabled_at is null";
const ENDPOINT_COLUMNS = "user_id, id, url, events, former_secrets, created_at, disabled_at";

/** Fails the open deliveries of a disabled endpoint. */
export async function failPending(tx: Tx, user_id: string, endpoint_id: string): Promise<void> {
  await tx.query({
    text: `update delivery set status = 'failed', next_attempt_at = null, last_error = 'endpoint_disabled'
      where user_id = $1 and endpoint_id = $2 and status = 'pending'`,
    values: [user_id, endpoint_id],
  });
}

/** Endpoints and notices. delivery.store.ts stores the deliveries. */
export function createNoticesStore(db: Db) {
  return {
    insertEndpoint: (
      tx: Tx,
      { user_id, id, url, events, secret, created_at }: Omit<EndpointRow, "former_secrets" | "disabled_at">,
    ) =>
      tx.query({
        text: "insert into webhook_endpoint (user_id, id, url, events, secret, created_at) values ($1, $2, $3, $4, $5, $6)",
        values: [user_id, id, url, events, secret, created_at],
      }),
    endpoints: (user_id: string, page: { limit: number; before_id: string | null }) =>
      db.query<Omit<EndpointRow, "secret">>({
        text: `select ${ENDPOINT_COLUMNS} from webhook_endpoint where user_id = $1 and ($2::uuid is null or id < $2)
          order by id desc limit $3`,
        values: [user_id, page.before_id, page.limit],
      }),
    /** The endpoint, or undefined. With `tx`, it is locked until the transaction ends. */
    endpoint: (user_id: string, id: string, tx?: Tx) =>
      firstRow<EndpointRow>(tx ?? db, {
        text: `select ${ENDPOINT_COLUMNS}, secret from webhook_endpoint where user_id = $1 and id = $2
          ${tx === undefined ? "" : "for update"}`,
        values: [user_id, id],
      }),
    async updateEndpoint(
      tx: Tx,
      { user_id, id, url, events, disabled_at }: Omit<EndpointRow, "secret" | "former_secrets" | "created_at">,
    ) {
      await tx.query({
        text: "update webhook_endpoint set url = $3, events = $4, disabled_at = $5 where user_id = $1 and id = $2",
        values: [user_id, id, url, events, disabled_at],
      });
      if (disabled_at !== null) await failPending(tx, user_id, id);
    },
    async replaceSecret(
      tx: Tx,
      { user_id, id, secret, former_secrets }: Pick<EndpointRow, "user_id" | "id" | "secret" | "former_secrets">,
    ): Promise<void> {
      await tx.query({
        text: "update webhook_endpoint set secret = $3, former_secrets = $4 where user_id = $1 and id = $2",
        values: [user_id, id, secret, JSON.stringify(former_secrets)],
      });
    },
    async deleteEndpoint(user_id: string, id: string): Promise<boolean> {
      const deleted = await db.query({
        text: "delete from webhook_endpoint where user_id = $1 and id = $2 returning id",
        values: [user_id, id],
      });
      return deleted.length > 0;
    },

    /**
     * Inserts the notice, unless its dedupe key is known, and a delivery for each subscribed endpoint. With
     * `if_subscribed`, only if there is one.
     */
    async insertNotice(
      sql: Sql,
      notice: NewNotice & { id: string; created_at: Instant; if_subscribed: boolean },
    ): Promise<void> {
      // "for key share" skips an endpoint that is being deleted; otherwise its foreign key would fail
      await sql.query({
        name: "notice_insert",
        text: `with told as (
            insert into notice (user_id, id, event, dedupe_key, data, created_at)
            select $1::uuid, $2::uuid, $3::text, $4::text, $5::jsonb, $6::timestamptz
            where not $7 or exists (
              select from webhook_endpoint where user_id = $1 and $3 = any(events) and disabled_at is null
            )
            on conflict (user_id, event, dedupe_key) do nothing returning user_id, id, event
          )
          insert into delivery (user_id, id, destination_id, notice_id, endpoint_id)
          select told.user_id, told.id, e.id, told.id, e.id from told join webhook_endpoint e on e.user_id = told.user_id
          where told.event = any(e.events) and e.disabled_at is null
          for key share of e`,
        values: [
          notice.user_id,
          notice.id,
          notice.event,
          notice.dedupe_key,
          JSON.stringify(notice.data),
          notice.created_at,
          notice.if_subscribed,
        ],
      });
    },
    /** Lists notices, newest first, with their deliveries. */
    async notices(user_id: string, { event, limit, before_id }: NoticePage): Promise<Notice[]> {
      const notices = await db.query<Omit<Notice, "deliveries">>({
        text: `select id, event, data, created_at from notice
          where user_id = $1 and ($2::text is null or event = $2) and ($3::uuid is null or id < $3)
          order by id desc limit $4`,
        values: [user_id, event, before_id, limit],
      });
      const deliveries = await db.query<NoticeDelivery & { notice_id: string }>({
        text: `select notice_id, endpoint_id, status, attempts, last_attempt_at, last_status, last_error, next_attempt_at, delivered_at
          from delivery where user_id = $1 and notice_id = any($2::uuid[]) order by endpoint_id`,
        values: [user_id, notices.map(({ id }) => id)],
      });
      const of = Map.groupBy(deliveries, ({ notice_id }) => notice_id);
      return notices.map((notice) => ({
        ...notice,
        deliveries: (of.get(notice.id) ?? []).map(({ notice_id: _, ...delivery }) => delivery),
      }));
    },

    /** Deletes notices created before `instant`, with their deliveries. */
    async deleteBefore(instant: Instant): Promise<void> {
      await db.query({ text: "delete from notice where created_at < $1", values: [instant] });
    },
    /**
     * Deletes all but the newest `most` notices of each user, because a user can cause failed runs that cost nothing.
     */
    deleteBeyond: (most: number): Promise<void> => deleteBeyondNewest(db, "notice", most),
    /** Deletes all rows of a user who is being erased. */
    async deleteUser(tx: Tx, user_id: string): Promise<void> {
      for (const table of ["notice", "webhook_endpoint", "delivery", "delivered_output", "sent_mail"]) {
        await tx.query({ text: `delete from ${table} where user_id = $1`, values: [user_id] });
      }
    },
  };
}
