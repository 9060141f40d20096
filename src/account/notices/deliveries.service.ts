import type { AgentKey } from "../../api/contract/agents.ts";
import { TEST_EVENT } from "../../api/contract/webhooks.ts";
import type { Db } from "../../platform/db/db.ts";
import type { Cipher } from "../../platform/lib/cipher.ts";
import { type Clock, monotonicMs, realNowMs } from "../../platform/lib/clock.ts";
import { coalesced } from "../../platform/lib/coalesced.ts";
import { openSecrets } from "../../platform/lib/former-secrets.ts";
import { newId } from "../../platform/lib/ids.ts";
import { backoff } from "../../platform/lib/retry.ts";
import type { EgressAllowance } from "../../platform/net/address.ts";
import type { Outbound } from "../../platform/net/outbound.ts";
import { OutboundError } from "../../platform/net/outbound-errors.ts";
import { webhookHeaders } from "../../platform/net/standard-webhooks.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { type ClaimedDelivery, type ClaimedNotice, type ClaimedResult, createDeliveryStore } from "./delivery.store.ts";
import { isSecureEnough } from "./destination.ts";
import { createMailDelivery, isMailUrl, type MailDeps } from "./mail-delivery.ts";
import type { MarkdownRenderer } from "./markdown.ts";
import { noticeMail } from "./notice-mail.ts";
import { createNoticesStore, type EndpointRow } from "./notices.store.ts";
import type { RunResult, TryResult, Verdict } from "./notices.types.ts";
import { outputKept, resultBody, resultMail } from "./result-message.ts";

/** Seconds from each failed try to the next: from 5 s to 8 h. The last value repeats. */
const DELAYS_S = backoff({ first: 5, max: 28_800, retries: 8 });
/** contract 5: retried for a day. */
const RETRY_FOR_S = 86_400;

/**
 * Concurrent tries on this node, each to a different destination. A free slot goes first to a user without a running try,
 * so hanging destinations do not block other users for long.
 */
const CONCURRENT_TRIES = 32;
const TRY_TIMEOUT_MS = 15_000;
/** The most bytes that are read of an answer, and those of it that a test shows. */
const ANSWER_BYTES = 65_536;
const SHOWN_BYTES = 1_000;
/** A claim expires after this time, well above the longest try. Then another node can claim it. */
const CLAIM_S = 60;
/** The poll interval: retries become due without a signal, and signals can get lost. */
const POLL_MS = 1_000;

/** What the deliveries of results need of the runs and their agents. */
export interface ResultDeps {
  /** The run and its agent's name; null: the run or its agent was deleted. */
  resultOf(key: { user_id: string; run_id: string }): Promise<RunResult | null>;
  /** The key that signs the agent's webhooks; null: it is unreadable. */
  signingKeyOf(agent: AgentKey): Promise<string | null>;
}

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
  results: ResultDeps;
  markdown: MarkdownRenderer;
}

type TestedEndpoint = Pick<EndpointRow, "user_id" | "id" | "url" | "secret" | "former_secrets">;

/** Binds a sealed secret to its row. */
export function secretContext({ user_id, endpoint_id }: { user_id: string; endpoint_id: string }): string {
  return `${user_id} ${endpoint_id}`;
}

/** Delivers notices to their endpoints and results to their addresses, on every node. One node claims each try. */
export function createDeliveries(deps: DeliveriesDeps) {
  const { db, clock, log, metrics } = deps;
  const store = createDeliveryStore(db);
  const notices = createNoticesStore(db);
  const mails = createMailDelivery(deps.mail, store);
  const stopping = new AbortController();
  /** The running tries of this node, by destination. */
  const tries = new Map<string, { delivery: ClaimedDelivery; done: Promise<void> }>();
  let stopListening = async () => {};
  let timer: NodeJS.Timeout | undefined;
  let is_started = false;

  const secretsOf = (row: Pick<ClaimedNotice, "user_id" | "endpoint_id" | "secret" | "former_secrets">) =>
    openSecrets(row, clock.now(), (sealed) => deps.cipher.open(sealed, secretContext(row)));
  const attemptNotice = async (delivery: ClaimedNotice): Promise<TryResult | null> => {
    const { event, data, created_at } = delivery;
    if (isMailUrl(delivery.url)) {
      const { agent_id } = data as { agent_id?: string };
      const write = async (to: string) => {
        const names = agent_id === undefined ? null : await deps.mail.agentNames(delivery.user_id, [agent_id]);
        const agent = names?.get(agent_id ?? "")?.name ?? null;
        return noticeMail({ id: delivery.id, event, data }, { to, url: deps.mail.url(), agent });
      };
      return mails.attempt(delivery, write, stopping.signal);
    }
    const body = JSON.stringify({ type: event, timestamp: created_at, data });
    return post(deps, delivery, { secrets: secretsOf(delivery), body }, stopping.signal);
  };
  const attemptResult = async (delivery: ClaimedResult): Promise<TryResult | null> => {
    const found = await deps.results.resultOf(delivery);
    if (found === null) return { status: null, error: "agent_deleted", is_final: true };
    const { agent_id } = found.run;
    const output = outputKept(found);
    const of_run = { agent_id, output };
    if (delivery.unless_unchanged && output !== null && (await store.isLastOutput(delivery, output))) {
      return { status: null, error: null, of_run, is_unchanged: true };
    }
    const send = async () => {
      if (isMailUrl(delivery.url)) {
        const write = (to: string) =>
          resultMail(found, {
            id: delivery.id,
            to,
            url: deps.mail.url(),
            toHtml: (text) => deps.markdown.toHtml(text, delivery.user_id),
          });
        return mails.attempt(delivery, write, stopping.signal);
      }
      const key = await deps.results.signingKeyOf({ user_id: delivery.user_id, agent_id });
      const secrets = key === null ? [] : [key];
      return post(deps, delivery, { secrets, body: resultBody(found) }, stopping.signal);
    };
    const result = await send();
    return result === null ? null : { ...result, of_run };
  };
  /** Records the outcome of a try, with all that follows from it. */
  const settle = (delivery: ClaimedDelivery, result: TryResult, verdict: Verdict) =>
    db.transaction(async (tx) => {
      if (!(await store.settle(tx, delivery, result, verdict)) || result.of_run === undefined) return;
      const { agent_id, output } = result.of_run;
      if (verdict.outcome === "delivered" && output !== null) await store.keepOutput(tx, delivery, output);
      if (delivery.run_id === null || !["failed", "gone"].includes(verdict.outcome)) return;
      const { user_id, id: delivery_id, run_id, url: to } = delivery;
      const data = { agent_id, run_id, delivery_id, to, last_status: result.status, last_error: result.error };
      const notice = { user_id, event: "delivery.failed" as const, dedupe_key: delivery_id, data };
      await notices.insertNotice(tx, { ...notice, id: newId(), created_at: clock.now(), if_subscribed: false });
    });
  const carryOut = async (delivery: ClaimedDelivery) => {
    const result = await (delivery.run_id === null ? attemptNotice(delivery) : attemptResult(delivery));
    if (result === null) return store.release(delivery);
    const verdict = judgeTry(result, { attempt: delivery.attempts, age_s: delivery.age_s });
    await settle(delivery, result, verdict);
    if (verdict.outcome === "skipped") return;
    if (verdict.outcome === "gone" && delivery.run_id === null) await store.disable(delivery, clock.now());
    metrics.noticeTry(verdict.outcome);
    if (result.was_mailed === true) {
      metrics.mailTry(
        delivery.run_id === null ? "notice" : "result",
        verdict.outcome === "delivered" ? "sent" : verdict.outcome === "retry" ? "retry" : "failed",
      );
    }
  };
  const begin = (delivery: ClaimedDelivery) => {
    const { destination_id, id: delivery_id } = delivery;
    const done = carryOut(delivery)
      // The claim expires and the delivery is retried.
      .catch((error: Error) =>
        log.error(
          { delivery_id, destination_id, error },
          "A delivery failed with an unexpected error; it is tried again when its claim expires.",
        ),
      )
      .finally(() => {
        tries.delete(destination_id);
        filling.run();
      });
    tries.set(destination_id, { delivery, done });
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
    sweepMails: store.sweepMails,
    ofEndpoint: store.ofEndpoint,
    summaries: store.summaries,
    resend: store.resend,
    /** Posts an event to an endpoint once, now. It is in no list. A drill sends nothing. */
    async test({ user_id, id: endpoint_id, url, secret, former_secrets }: TestedEndpoint) {
      const id = newId();
      const secrets = secretsOf({ user_id, endpoint_id, secret, former_secrets });
      const body = JSON.stringify({ type: TEST_EVENT, timestamp: clock.now(), data: { endpoint_id } });
      const began_ms = monotonicMs();
      const result = is_started ? await post(deps, { id, url }, { secrets, body }, stopping.signal) : null;
      const { status, error, answer }: TryResult = result ?? { status: null, error: "not_sent" };
      const duration_ms = Math.round(monotonicMs() - began_ms);
      return { id, delivered: isSuccess(status), status, error, duration_ms, answer: answer ?? null };
    },
    /** Starts delivering. */
    async start(): Promise<void> {
      is_started = true;
      stopListening = await db.listen("delivery_due", filling.run, filling.run);
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
  { outbound, allowance }: DeliveriesDeps,
  { id, url }: Pick<ClaimedDelivery, "id" | "url">,
  { secrets, body }: { secrets: readonly string[]; body: string },
  signal: AbortSignal,
): Promise<TryResult | null> {
  if (secrets.length === 0) return { status: null, error: "secret_unreadable" };
  const signed = { id, timestamp_s: Math.floor(realNowMs() / 1000), body };
  try {
    const { status, body: answer } = await outbound.request({
      url,
      method: "POST",
      headers: { "content-type": "application/json", ...webhookHeaders(secrets, signed) },
      body,
      max_bytes: ANSWER_BYTES,
      timeout_ms: TRY_TIMEOUT_MS,
      max_redirects: 0,
      permits: (target) => isSecureEnough(target, allowance),
      signal,
    });
    return { status, error: null, answer: answer.subarray(0, SHOWN_BYTES).toString() };
  } catch (error) {
    if (signal.aborted) return null;
    if (!(error instanceof OutboundError)) throw error;
    // A status received before the answer was aborted or too large still counts.
    return { status: error.status, error: error.code };
  }
}

const isSuccess = (status: number | null) => status !== null && status >= 200 && status < 300;

/**
 * Decides after try number `attempt` (from 1) of a delivery queued `age_s` seconds ago. Only 2xx is success; a redirect
 * is a failure.
 */
export function judgeTry(
  { status, is_final, is_unchanged }: TryResult,
  { attempt, age_s }: { attempt: number; age_s: number },
): Verdict {
  if (is_unchanged === true) return { outcome: "skipped" };
  if (isSuccess(status)) return { outcome: "delivered" };
  if (status === 410) return { outcome: "gone" };
  if (is_final === true) return { outcome: "failed" };
  const delay_s = DELAYS_S[Math.min(attempt, DELAYS_S.length) - 1] ?? 0;
  return age_s + delay_s <= RETRY_FOR_S ? { outcome: "retry", delay_s } : { outcome: "failed" };
}
