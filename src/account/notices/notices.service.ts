import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { Notice, NoticeEvent, WebhookEndpoint } from "../../api/contract/notices.ts";
import { paramOf } from "../../api/contract/validation.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { hasMoreRows } from "../../platform/db/statements.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { addDays, type Clock } from "../../platform/lib/clock.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import { parseEgressAllow } from "../../platform/net/address.ts";
import type { Outbound } from "../../platform/net/outbound.ts";
import { newWebhookSecret } from "../../platform/net/standard-webhooks.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { createDeliveries, type ResultDeps, secretContext } from "./deliveries.service.ts";
import { urlProblem } from "./destination.ts";
import { noticeErrors } from "./errors.ts";
import { isMailUrl, type MailDeps } from "./mail-delivery.ts";
import { createMarkdownRenderer } from "./markdown.ts";
import { createNoticesStore, type EndpointRow, IS_MAIL } from "./notices.store.ts";
import type { NewNotice, NewResult } from "./notices.types.ts";
import { deleteOutputs, deleteResults, insertResults } from "./result.store.ts";

/** How long notices are listed, and how many of a user. */
const KEPT_DAYS = 90;
const KEPT_NOTICES = 10_000;

export interface NoticesDeps {
  db: Db;
  clock: Clock;
  /** Seals the endpoints' secrets. */
  cipher: Cipher;
  outbound: Outbound;
  /** PURSER_EGRESS_ALLOW, the same list as in `outbound`. */
  egress_allow: readonly string[];
  log: Log;
  metrics: Pick<Metrics, "noticeTry" | "mailTry">;
  mail: MailDeps;
  results: ResultDeps;
}

/** Notices that are recorded only for users who have an endpoint for them. */
const IF_SUBSCRIBED: readonly NoticeEvent[] = ["run.succeeded"];

/** Notices to users, their endpoints, and results of runs. Owns the tables of `1000_notices.sql`. */
export function createNotices(deps: NoticesDeps) {
  const { db, clock, cipher } = deps;
  const store = createNoticesStore(db);
  const allowance = parseEgressAllow(deps.egress_allow);
  const deliveries = createDeliveries({ ...deps, allowance, markdown: createMarkdownRenderer() });
  /** The URL as it is stored. Throws 400 if nothing can be delivered to it. */
  const usableUrl = async (user_id: string, wanted: string, param: string): Promise<string> => {
    const is_mail = isMailUrl(wanted);
    const url = is_mail ? wanted.toLowerCase() : wanted;
    const problem = is_mail ? await deliveries.mailUrlProblem(user_id, url) : urlProblem(url, allowance, param);
    if (problem !== null) throw errors.invalidValue(param, problem);
    return url;
  };

  return {
    start: deliveries.start,
    stop: deliveries.stop,

    /**
     * Creates a notice and a delivery to each endpoint of the user that subscribed to the event. One SQL statement;
     * given `tx`, the notice exists only if it commits. A known dedupe key changes nothing.
     */
    async emit(notice: NewNotice, tx?: Tx): Promise<void> {
      const if_subscribed = IF_SUBSCRIBED.includes(notice.event);
      await store.insertNotice(tx ?? db, { ...notice, id: newId(), created_at: clock.now(), if_subscribed });
    },
    /** Lists notices of one event or all, newest first. `before_id` is the last one of the previous page. */
    list(
      user_id: string,
      page: { event: NoticeEvent | null; limit: number; before_id: string | null },
    ): Promise<Notice[]> {
      return store.notices(user_id, page);
    },

    /**
     * Creates an endpoint; its secret is shown only in this answer, and null for e-mail, which is not signed. Throws
     * 400 for an invalid URL, 409 beyond the limit and for a second e-mail endpoint.
     */
    async createEndpoint(
      user_id: string,
      wanted: { url: string; events: readonly NoticeEvent[] },
    ): Promise<WebhookEndpoint & { secret: string | null }> {
      const is_mail = isMailUrl(wanted.url);
      const url = await usableUrl(user_id, wanted.url, "url");
      const id = newId();
      const secret = newWebhookSecret();
      const sealed = cipher.seal(Buffer.from(secret), secretContext({ user_id, endpoint_id: id }));
      const row = { user_id, id, url, events: [...new Set(wanted.events)], created_at: clock.now() };
      await db.transaction(async (tx) => {
        await store.insertEndpoint(tx, { ...row, secret: sealed });
        const most = USER_ROWS.webhook_endpoints;
        if (await hasMoreRows(tx, { table: "webhook_endpoint", user_id, most }))
          throw noticeErrors.endpointLimitReached();
        if (is_mail && (await hasMoreRows(tx, { table: "webhook_endpoint", user_id, where: IS_MAIL, most: 1 }))) {
          throw noticeErrors.mailEndpointExists();
        }
      });
      return { ...endpointRecord({ ...row, disabled_at: null }), secret: is_mail ? null : secret };
    },
    /** Lists endpoints, newest first. `before_id` is the last one of the previous page. */
    async endpoints(user_id: string, page: { limit: number; before_id: string | null }): Promise<WebhookEndpoint[]> {
      return (await store.endpoints(user_id, page)).map(endpointRecord);
    },
    /** Deletes an endpoint and its open deliveries. Throws 404 when it is not the user's. */
    async deleteEndpoint(user_id: string, id: string): Promise<void> {
      if (!isUuid(id) || !(await store.deleteEndpoint(user_id, id))) throw errors.notFound("This webhook endpoint");
    },

    /**
     * An agent's deliveries with their addresses as they are stored. Throws 400 if nothing can be delivered to one, and
     * for an address that is named twice.
     */
    async usableDeliveries(user_id: string, deliveries: readonly AgentDelivery[]): Promise<AgentDelivery[]> {
      const param = (at: number) => paramOf(["deliveries", at, "to"]);
      const usable = await Promise.all(
        deliveries.map(async ({ to, on, unless }, at) => ({ to: await usableUrl(user_id, to, param(at)), on, unless })),
      );
      const addresses = usable.map(({ to }) => new URL(to).href);
      const again = addresses.findIndex((address, at) => addresses.indexOf(address) < at);
      if (again === -1) return usable;
      throw errors.invalidValue(
        param(again),
        `${param(again)} is the address of another entry. Name each address once.`,
      );
    },
    /** Queues the results of ended runs in the transaction that ends them. */
    async deliverResults(results: readonly NewResult[], tx: Tx): Promise<void> {
      if (results.length > 0)
        await insertResults(
          tx,
          results.map((result) => ({ ...result, id: newId() })),
        );
    },
    /** Deletes the deliveries of runs that are being deleted. */
    forgetRuns: deleteResults,
    /** Deletes what the addresses of deleted agents got last. */
    forgetAgents: deleteOutputs,

    /** Deletes old notices and those beyond a user's newest; called periodically. */
    async sweep(): Promise<void> {
      await store.deleteBefore(addDays(clock.now(), -KEPT_DAYS));
      await store.deleteBeyond(KEPT_NOTICES);
      await deliveries.sweepMails();
    },
    /** Deletes endpoints, notices and deliveries of a user who is being erased. */
    forgetUser: (tx: Tx, user_id: string) => store.deleteUser(tx, user_id),
  };
}

export type Notices = ReturnType<typeof createNotices>;

function endpointRecord(row: Omit<EndpointRow, "secret">): WebhookEndpoint {
  const { id, url, events, created_at, disabled_at } = row;
  return { id, url, events, status: disabled_at === null ? "enabled" : "disabled", created_at, disabled_at };
}
