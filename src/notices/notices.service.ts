import type { Notice, NoticeEvent, WebhookEndpoint } from "../contract/notices.ts";
import { errors } from "../errors.ts";
import { parseEgressAllow } from "../platform/address.ts";
import type { Cipher } from "../platform/cipher.ts";
import { addDays, type Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { isUuid, newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { Outbound } from "../platform/outbound.ts";
import { newWebhookSecret } from "../platform/standard-webhooks.ts";
import { createDeliveries, secretContext } from "./deliveries.service.ts";
import { urlProblem } from "./destination.ts";
import { createNoticesStore, type EndpointRow } from "./notices.store.ts";
import type { NewNotice } from "./notices.types.ts";

const MAX_ENDPOINTS = 10;
/** Notices are listed for so long. */
const KEPT_DAYS = 90;

export interface NoticesDeps {
  db: Db;
  clock: Clock;
  /** Seals the endpoints' secrets. */
  cipher: Cipher;
  outbound: Outbound;
  /** PURSER_EGRESS_ALLOW, the same that `outbound` was made with. */
  egress_allow: readonly string[];
  log: Log;
  metrics: Pick<Metrics, "noticeTry">;
}

/** What users are told of, and where it is delivered. Owns `webhook_endpoint`, `notice` and `notice_delivery`. */
export function createNotices(deps: NoticesDeps) {
  const { db, clock, cipher } = deps;
  const store = createNoticesStore(db);
  const allowance = parseEgressAllow(deps.egress_allow);
  const deliveries = createDeliveries({ ...deps, allowance });

  return {
    start: deliveries.start,
    stop: deliveries.stop,

    /**
     * Tells of an occurrence: a row to be listed, and a delivery to each endpoint of the user that wants the event. One
     * SQL statement, in `tx` when it is given: then it is told if, and only if, that commits. A known key changes nothing.
     */
    async emit(notice: NewNotice, tx?: Tx): Promise<void> {
      await store.insertNotice(tx ?? db, { ...notice, id: newId(), created_at: clock.now() });
    },
    /** Newest first, of one event or all; `before_id` is the last one seen. */
    list(
      user_id: string,
      page: { event: NoticeEvent | null; limit: number; before_id: string | null },
    ): Promise<Notice[]> {
      return store.notices(user_id, page);
    },

    /** An endpoint with its secret, which is shown this once. 400 for a URL that cannot be delivered to, 409 beyond the limit. */
    async createEndpoint(
      user_id: string,
      wanted: { url: string; events: readonly NoticeEvent[] },
    ): Promise<WebhookEndpoint & { secret: string }> {
      const problem = urlProblem(wanted.url, allowance);
      if (problem !== null) throw errors.invalidValue("url", problem);
      const id = newId();
      const secret = newWebhookSecret();
      const sealed = cipher.seal(Buffer.from(secret), secretContext({ user_id, endpoint_id: id }));
      const row = { user_id, id, url: wanted.url, events: [...new Set(wanted.events)], created_at: clock.now() };
      if (!(await store.insertEndpoint({ ...row, secret: sealed }, MAX_ENDPOINTS))) {
        throw errors.conflict("endpoint_limit_reached", `You have ${MAX_ENDPOINTS} endpoints. Delete one first.`);
      }
      return { ...endpointRecord({ ...row, disabled_at: null }), secret };
    },
    /** Newest first; `before_id` is the last one seen. */
    async endpoints(user_id: string, page: { limit: number; before_id: string | null }): Promise<WebhookEndpoint[]> {
      return (await store.endpoints(user_id, page)).map(endpointRecord);
    },
    /** Ends an endpoint and what is still to be delivered there. 404 when it is not the user's. */
    async deleteEndpoint(user_id: string, id: string): Promise<void> {
      if (!isUuid(id) || !(await store.deleteEndpoint(user_id, id))) throw errors.notFound("This webhook endpoint");
    },

    /** Forgets what was told long ago; called now and then. */
    sweep: () => store.deleteBefore(addDays(clock.now(), -KEPT_DAYS)),
    /** Deletes endpoints, notices and deliveries of a user who is being erased. */
    forgetUser: (tx: Tx, user_id: string) => store.deleteUser(tx, user_id),
  };
}

export type Notices = ReturnType<typeof createNotices>;

function endpointRecord(row: Omit<EndpointRow, "secret">): WebhookEndpoint {
  const { id, url, events, created_at, disabled_at } = row;
  return { id, url, events, status: disabled_at === null ? "enabled" : "disabled", created_at, disabled_at };
}
