import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { EndpointDelivery, Notice, NoticeEvent, WebhookEndpoint } from "../../api/contract/notices.ts";
import { paramOf } from "../../api/contract/validation.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { hasMoreRows } from "../../platform/db/statements.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { addDays, type Clock } from "../../platform/lib/clock.ts";
import { addFormerSecret, findLastEnd } from "../../platform/lib/former-secrets.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
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

/** Tests and repeated deliveries that a user may ask a node for in a minute. */
const ASKED_TRIES = 10;
const MAIL_STAYS =
  "An e-mail endpoint has no signing secret, so it cannot become a URL. Create an endpoint for the URL, and note its secret.";
const NO_MAIL_SECRET = "Mails are not signed, so an e-mail endpoint has no secret to replace.";
const NO_MAIL_TEST = "An e-mail address gets no test. Its notices are listed with their deliveries.";

type StoredEndpoint = Omit<EndpointRow, "secret">;
interface EndpointChanges {
  url?: string | undefined;
  events?: readonly NoticeEvent[] | undefined;
  status?: "enabled" | "disabled" | undefined;
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

  const endpointOf = async (user_id: string, id: string): Promise<EndpointRow> => {
    const found = isUuid(id) ? await store.endpoint(user_id, id) : undefined;
    if (found === undefined) throw errors.notFound("This webhook endpoint");
    return found;
  };
  const withSummaries = async (user_id: string, rows: readonly StoredEndpoint[]): Promise<WebhookEndpoint[]> => {
    const ids = rows.map(({ id }) => id);
    const of = new Map((await deliveries.summaries(user_id, ids)).map((row) => [row.endpoint_id, row]));
    return rows.map((row) => {
      const { last_delivery = null, failed_deliveries = 0 } = of.get(row.id) ?? {};
      return { ...endpointRecord(row, clock.now()), last_delivery, failed_deliveries };
    });
  };
  const endpoint = async (user_id: string, id: string): Promise<WebhookEndpoint> => {
    const [found] = await withSummaries(user_id, [await endpointOf(user_id, id)]);
    return found as WebhookEndpoint;
  };
  /** Throws 409 for a second e-mail endpoint. */
  const limitMailEndpoints = async (tx: Tx, user_id: string, url: string): Promise<void> => {
    if (isMailUrl(url) && (await hasMoreRows(tx, { table: "webhook_endpoint", user_id, where: IS_MAIL, most: 1 }))) {
      throw noticeErrors.mailEndpointExists();
    }
  };
  const asked = createTokenBuckets({ size: ASKED_TRIES, refill_s: 60 });
  const takeTry = (user_id: string): void => {
    const { retry_after_s } = asked.take(user_id);
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
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
        await limitMailEndpoints(tx, user_id, url);
      });
      const record = endpointRecord({ ...row, former_secrets: [], disabled_at: null }, row.created_at);
      return { ...record, last_delivery: null, failed_deliveries: 0, secret: is_mail ? null : secret };
    },
    /** Lists endpoints, newest first. `before_id` is the last one of the previous page. */
    async endpoints(user_id: string, page: { limit: number; before_id: string | null }): Promise<WebhookEndpoint[]> {
      return withSummaries(user_id, await store.endpoints(user_id, page));
    },
    /** Throws 404. */
    endpoint,
    /** Changes the given fields. Throws 404, and 400 and 409 as `createEndpoint`. */
    async updateEndpoint(user_id: string, id: string, wanted: EndpointChanges): Promise<WebhookEndpoint> {
      const { url: address, events, status } = wanted;
      const url = address === undefined ? undefined : await usableUrl(user_id, address, "url");
      const known = await endpointOf(user_id, id);
      if (url !== undefined && isMailUrl(known.url) && !isMailUrl(url)) throw errors.invalidValue("url", MAIL_STAYS);
      // A mail endpoint whose address is no longer the user's cannot be enabled again.
      if (status === "enabled" && url === undefined) await usableUrl(user_id, known.url, "url");
      await db.transaction(async (tx) => {
        const { disabled_at, ...row } = (await store.endpoint(user_id, id, tx)) ?? known;
        const changed = {
          ...row,
          url: url ?? row.url,
          events: events === undefined ? row.events : [...new Set(events)],
          disabled_at: status === undefined ? disabled_at : status === "enabled" ? null : (disabled_at ?? clock.now()),
        };
        await store.updateEndpoint(tx, changed);
        await limitMailEndpoints(tx, user_id, changed.url);
      });
      return endpoint(user_id, id);
    },
    /**
     * Gives the endpoint a new secret. The former one signs too for `overlap_hours`; 0: no former one does any more. Throws
     * 404, 400 for an e-mail address, and 409 for too many.
     */
    async rotateSecret(
      user_id: string,
      id: string,
      { overlap_hours }: { overlap_hours: number },
    ): Promise<WebhookEndpoint & { secret: string }> {
      await endpointOf(user_id, id);
      const secret = newWebhookSecret();
      await db.transaction(async (tx) => {
        const row = await store.endpoint(user_id, id, tx);
        if (row === undefined) throw errors.notFound("This webhook endpoint");
        if (isMailUrl(row.url)) throw errors.invalidValue(undefined, NO_MAIL_SECRET);
        const former_secrets = addFormerSecret(row.former_secrets, row.secret, { overlap_hours, now: clock.now() });
        const sealed = cipher.seal(Buffer.from(secret), secretContext({ user_id, endpoint_id: id }));
        await store.replaceSecret(tx, { user_id, id, secret: sealed, former_secrets });
      });
      return { ...(await endpoint(user_id, id)), secret };
    },
    /** Delivers a test event now. Throws 404, 400 for an e-mail address, and 429. */
    async testEndpoint(user_id: string, id: string) {
      const endpoint = await endpointOf(user_id, id);
      if (isMailUrl(endpoint.url)) throw errors.invalidValue(undefined, NO_MAIL_TEST);
      takeTry(user_id);
      return deliveries.test(endpoint);
    },
    /** An endpoint's deliveries, newest first. Throws 404. */
    async deliveriesOf(user_id: string, endpoint_id: string, page: { limit: number; before_id: string | null }) {
      await endpointOf(user_id, endpoint_id);
      return deliveries.ofEndpoint({ user_id, endpoint_id }, page);
    },
    /** Delivers a notice to an endpoint again now, with the same id, also one that is pending. Throws 404, 409 and 429. */
    async resend(user_id: string, endpoint_id: string, id: string): Promise<EndpointDelivery> {
      const { disabled_at } = await endpointOf(user_id, endpoint_id);
      const find = async () => {
        const [found] = isUuid(id)
          ? await deliveries.ofEndpoint({ user_id, endpoint_id }, { id, limit: 1, before_id: null })
          : [];
        if (found === undefined) throw errors.notFound("This delivery");
        return found;
      };
      await find();
      if (disabled_at !== null) throw noticeErrors.endpointDisabled();
      takeTry(user_id);
      await deliveries.resend({ user_id, endpoint_id }, id);
      return find();
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

function endpointRecord(
  { id, url, events, former_secrets, created_at, disabled_at }: StoredEndpoint,
  now: Instant,
): Omit<WebhookEndpoint, "last_delivery" | "failed_deliveries"> {
  const former_secret_until = findLastEnd(former_secrets, now);
  const status = disabled_at === null ? "enabled" : "disabled";
  return { id, url, events, status, former_secret_until, created_at, disabled_at };
}
