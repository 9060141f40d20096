import type { Db } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { type Clock, realNowMs } from "../../platform/lib/clock.ts";
import { coalesced } from "../../platform/lib/coalesced.ts";
import { backoff } from "../../platform/lib/retry.ts";
import type { EgressAllowance } from "../../platform/net/address.ts";
import type { Outbound } from "../../platform/net/outbound.ts";
import { OutboundError } from "../../platform/net/outbound-errors.ts";
import { webhookHeaders } from "../../platform/net/standard-webhooks.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { type ClaimedDelivery, createDeliveryStore } from "./delivery.store.ts";
import { isSecureEnough } from "./destination.ts";
import { createMailDelivery, isMailUrl, type MailDeps } from "./mail-delivery.ts";
import type { TryResult, Verdict } from "./notices.types.ts";

/** Seconds from each failed try to the next: from 5 s to 8 h. The last value repeats. */
const DELAYS_S = backoff({ first: 5, max: 28_800, retries: 8 });
/** contract 5: retried for a day. */
const RETRY_FOR_S = 86_400;

/**
 * Concurrent tries on this node, each to a different endpoint. A free slot goes first to a user without a running try,
 * so hanging endpoints do not block other users for long.
 */
const CONCURRENT_TRIES = 32;
const TRY_TIMEOUT_MS = 15_000;
/** The most bytes that are read of an answer. The body is not used. */
const ANSWER_BYTES = 65_536;
/** A claim expires after this time, well above the longest try. Then another node can claim it. */
const CLAIM_S = 60;
/** The poll interval: retries become due without a signal, and signals can get lost. */
const POLL_MS = 1_000;

export interface DeliveriesDeps {
  db: Db;
  clock: Clock;
  /** Opens the endpoints' secrets (`secretContext`). */
  cipher: Cipher;
  outbound: Outbound;
  allowance: EgressAllowance;
  log: Log;
  metrics: Pick<Metrics, "noticeTry" | "mailTry">;
  mail: MailDeps;
}

/** Binds a sealed secret to its row. */
export function secretContext({ user_id, endpoint_id }: { user_id: string; endpoint_id: string }): string {
  return `${user_id} ${endpoint_id}`;
}

/** Delivers notices to their endpoints, on every node. One node claims each try. */
export function createDeliveries(deps: DeliveriesDeps) {
  const { db, clock, log, metrics } = deps;
  const store = createDeliveryStore(db);
  const mails = createMailDelivery(deps.mail, store);
  const stopping = new AbortController();
  /** The running tries of this node, by endpoint. */
  const tries = new Map<string, { delivery: ClaimedDelivery; done: Promise<void> }>();
  let stopListening = async () => {};
  let timer: NodeJS.Timeout | undefined;

  const carryOut = async (delivery: ClaimedDelivery) => {
    const result = isMailUrl(delivery.url)
      ? await mails.attempt(delivery, stopping.signal)
      : await post(deps, delivery, stopping.signal);
    if (result === null) return store.release(delivery);
    const verdict = verdictOf(result, { attempt: delivery.attempts, age_s: delivery.age_s });
    await store.settle(delivery, result, verdict);
    if (verdict.outcome === "gone") await store.disable(delivery, clock.now());
    metrics.noticeTry(verdict.outcome);
    if (result.was_mailed === true) {
      metrics.mailTry(
        "notice",
        verdict.outcome === "delivered" ? "sent" : verdict.outcome === "retry" ? "retry" : "failed",
      );
    }
  };
  const begin = (delivery: ClaimedDelivery) => {
    const { endpoint_id, notice_id } = delivery;
    const done = carryOut(delivery)
      // The claim expires and the delivery is retried.
      .catch((error: Error) =>
        log.error(
          { notice_id, endpoint_id, error },
          "A delivery failed with an unexpected error; it is tried again when its claim expires.",
        ),
      )
      .finally(() => {
        tries.delete(endpoint_id);
        filling.run();
      });
    tries.set(endpoint_id, { delivery, done });
  };
  const claim = async () => {
    const most = CONCURRENT_TRIES - tries.size;
    if (stopping.signal.aborted || most <= 0) return;
    const at_work = [...tries.values()].map(({ delivery }) => delivery);
    for (const delivery of await store.claim({ most, at_work, claim_s: CLAIM_S })) begin(delivery);
  };
  const filling = coalesced(() =>
    claim().catch((error: Error) =>
      log.error({ error }, "Deliveries could not be claimed; the next turn tries again."),
    ),
  );

  return {
    mailUrlProblem: mails.urlProblem,
    /** Starts delivering. */
    async start(): Promise<void> {
      stopListening = await db.listen("notice_due", filling.run, filling.run);
      timer = setInterval(filling.run, POLL_MS);
      filling.run();
    },
    /** Aborts the running tries and returns their claims. A repeated try has the same id, so it does no harm. */
    async stop(): Promise<void> {
      clearInterval(timer);
      await stopListening();
      stopping.abort();
      await filling.done();
      await Promise.all([...tries.values()].map(({ done }) => done));
    },
  };
}

/** Posts a delivery once. Returns null when `signal` aborted it without a result. */
async function post(
  { cipher, outbound, allowance }: DeliveriesDeps,
  delivery: ClaimedDelivery,
  signal: AbortSignal,
): Promise<TryResult | null> {
  const secret = cipher.open(delivery.secret, secretContext(delivery))?.toString();
  if (secret === undefined) return { status: null, error: "secret_unreadable" };
  const body = JSON.stringify({ type: delivery.event, timestamp: delivery.created_at, data: delivery.data });
  const signed = { id: delivery.notice_id, timestamp_s: Math.floor(realNowMs() / 1000), body };
  try {
    const { status } = await outbound.request({
      url: delivery.url,
      method: "POST",
      headers: { "content-type": "application/json", ...webhookHeaders(secret, signed) },
      body,
      max_bytes: ANSWER_BYTES,
      timeout_ms: TRY_TIMEOUT_MS,
      max_redirects: 0,
      permits: (url) => isSecureEnough(url, allowance),
      signal,
    });
    return { status, error: null };
  } catch (error) {
    if (signal.aborted) return null;
    if (!(error instanceof OutboundError)) throw error;
    // A status received before the answer was aborted or too large still counts.
    return { status: error.status, error: error.code };
  }
}

/**
 * Decides after try number `attempt` (from 1) of a delivery queued `age_s` seconds ago. Only 2xx is success; a redirect
 * is a failure.
 */
export function verdictOf(
  { status, is_final }: TryResult,
  { attempt, age_s }: { attempt: number; age_s: number },
): Verdict {
  if (status !== null && status >= 200 && status < 300) return { outcome: "delivered" };
  if (status === 410) return { outcome: "gone" };
  if (is_final === true) return { outcome: "failed" };
  const delay_s = DELAYS_S[Math.min(attempt, DELAYS_S.length) - 1] ?? 0;
  return age_s + delay_s <= RETRY_FOR_S ? { outcome: "retry", delay_s } : { outcome: "failed" };
}
