import { errors } from "../../kernel/errors.ts";
import { stableDigest } from "../../platform/lib/json.ts";
import { EVENT_STREAM_HEADERS, type EventFeed, errorEvent } from "../../platform/net/event-stream.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Caller, Operator } from "../contract/caller.ts";
import type { Answer, SentRequest } from "../contract/endpoint.ts";
import { SHOULD_RETRY } from "./error-response.ts";
import { httpErrors } from "./errors.ts";
import type { IdempotencyStore, StoredAnswer } from "./idempotency.store.ts";

const PRINTABLE = /^[\x20-\x7e]{1,255}$/;
const ABOUT_A_USER = "/api/v1/admin/users/{id}";
/** Headers that belong to the answer, not to one exchange. */
const KEPT_HEADERS = new Set(["content-type", "location", SHOULD_RETRY.toLowerCase()]);

/** Agents have a limit of their own, so a repetition may create another one. */
const CREATES_AGENT = "/api/v1/agents";

/** The last event of a stream that is whole or has failed, in the shape of each endpoint. */
const LAST_EVENT =
  /^data: \[DONE\]|^event: (?:message_stop|error|response\.(?:completed|incomplete|failed))\n|^data: \{"error":/;
const EVENT_END = "\n\n";
const KEPT_EVENT_HEADERS = { "content-type": EVENT_STREAM_HEADERS["Content-Type"] };

/** Ends the replay of a stream whose caller hung up. */
const LEFT =
  "The first request with this Idempotency-Key hung up here. The output so far is charged. Send the request with a new key for a whole answer.";

/** Interval between two renewals of a claim, a quarter of its lease. A request may run for an hour and more. */
const RENEW_MS = 240_000;

interface KeepingDeps {
  store: IdempotencyStore;
  log: Log;
  renew_ms?: number;
}

/**
 * contract 2: the same key and body within a day replays the first answer, streams included. `answering` answers the
 * request; `asAnswer` turns its error into the answer that the caller gets.
 */
export function createIdempotency({ store, log, renew_ms = RENEW_MS }: KeepingDeps) {
  return async (
    request: SentRequest,
    answering: () => Promise<Answer>,
    asAnswer: (error: unknown) => Answer,
  ): Promise<Answer> => {
    const header = request.header("idempotency-key");
    const caller: Caller | null = request.caller;
    if (header === undefined || request.method !== "POST" || caller === null) return answering();
    if (!PRINTABLE.test(header)) {
      throw errors.invalidValue("Idempotency-Key", "Idempotency-Key takes 1 to 255 printable ASCII characters.");
    }
    const key = { user_id: caller.user_id, key: header };
    const claim = await store.claim({ ...key, request: fingerprint(request) });
    if (claim.state === "in_flight") throw httpErrors.idempotencyInFlight();
    if (claim.state === "mismatch") throw httpErrors.idempotencyMismatch();
    if (claim.state === "erased") throw errors.unknown("This user");
    if (claim.state === "not_kept") throw httpErrors.answerNotKept();
    if (claim.state === "answered") return replay(claim.answer);

    const stopRenewing = renewEvery(renew_ms, () => store.renew(key), log);
    /** Stores the answer, or forgets the claim so that a retry runs. */
    const finish = async (stored: StoredAnswer | null): Promise<void> => {
      try {
        if (stored === null) await store.release(key);
        else await keep(request, { store, key, answer: stored });
      } finally {
        stopRenewing();
      }
    };
    const finishLater = (stored: StoredAnswer | null) =>
      finish(stored).catch((error: Error) =>
        log.error({ error }, "a streamed answer was not kept for its Idempotency-Key"),
      );

    const answer = await answering().catch(asAnswer);
    if (answer.kind === "events") return keepEvents(answer, finishLater);
    // A backup or an export changes nothing and can be larger than the memory, so a retry makes a new one.
    const is_file = answer.kind === "parts" && "content-disposition" in lowerCased(answer.headers);
    const is_kept = !is_file && request.keeping.only_reads !== true && !isRepeatable(answer);
    if (is_kept && answer.kind === "parts") return keepParts(answer, finishLater);
    await finish(is_kept ? storedAnswer(answer) : null);
    return answer;
  };
}

/**
 * Stores an answer. One that cost nothing has a limit per user: beyond it, a request that may be repeated without harm
 * will be carried out again, and another one only says that it was carried out.
 */
async function keep(
  request: SentRequest,
  { store, key, answer }: { store: IdempotencyStore; key: { user_id: string; key: string }; answer: StoredAnswer },
): Promise<void> {
  const call = request.facts.answered?.() ?? null;
  const is_operator = (request.operator as Operator | null) !== null;
  const cost_nothing = !is_operator && (call?.cost_tokens ?? 0) === 0;
  if (!cost_nothing || (await store.hasRoom(key.user_id, answer))) {
    await store.answer(key, answer, { about_user_id: aboutUser(request), cost_nothing });
    return;
  }
  // An agent, which may have effects, has no provider. The call of a stream that is cut may not be known yet.
  const is_model_call = call !== null && call.provider !== null;
  const did_nothing = answer.status >= 400 && answer.headers[SHOULD_RETRY.toLowerCase()] !== "false";
  if (is_model_call || did_nothing || request.route === CREATES_AGENT) await store.release(key);
  else await store.answerWithoutBody(key, answer.status);
}

/** The user whom an operator's answer is about: the one that it created, or the one in its path. */
function aboutUser({ keeping, route, params }: SentRequest): string | null {
  const in_path = route.startsWith(ABOUT_A_USER) ? params.id?.toLowerCase() : undefined;
  return keeping.created_user_id ?? in_path ?? null;
}

/** Renews a claim until the returned function is called. A failed renewal is tried again after the interval. */
function renewEvery(renew_ms: number, renew: () => Promise<boolean>, log: Log): () => void {
  const timer = setInterval(() => {
    renew().then(
      (is_running) => is_running || clearInterval(timer),
      (error: Error) => log.warn({ error }, "the claim of an Idempotency-Key was not renewed"),
    );
  }, renew_ms).unref();
  return () => clearInterval(timer);
}

/**
 * Identifies equal requests; the order of fields and spaces does not matter. It includes the API key: a replay skips the
 * checks of budget and expiry, so a lesser key must not get the answer of another.
 */
function fingerprint({ method, path, caller, sent_value }: SentRequest): Buffer {
  return Buffer.from([method, path, caller.api_key_id ?? "", stableDigest(sent_value)].join("\n"));
}

function replay({ status, headers, body }: StoredAnswer): Answer {
  return { kind: "bytes", status, headers: { ...headers, "Idempotent-Replayed": "true" }, body };
}

/** An error of a request that did nothing depends on what is stored or set: a retry may succeed. */
function isRepeatable(answer: Answer): boolean {
  if (answer.kind === "hung_up") return true;
  if (answer.kind === "events" || answer.status < 400) return false;
  return answer.kind !== "json" || answer.headers?.[SHOULD_RETRY] !== "false";
}

/** Null: there is nothing to store. */
function storedAnswer(answer: Answer): StoredAnswer | null {
  if (answer.kind === "events" || answer.kind === "parts" || answer.kind === "hung_up") return null;
  const { status } = answer;
  if (answer.kind === "empty") return { status, headers: keptHeaders(answer.headers), body: new Uint8Array() };
  if (answer.kind === "bytes") return { status, headers: keptHeaders(answer.headers), body: Buffer.from(answer.body) };
  const headers = { "content-type": "application/json", ...keptHeaders(answer.headers) };
  return { status, headers, body: Buffer.from(JSON.stringify(answer.body)) };
}

function keptHeaders(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(lowerCased(headers)).filter(([name]) => KEPT_HEADERS.has(name)));
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

type Finish = (stored: StoredAnswer | null) => Promise<void>;

/** Keeps a copy of a body while it is sent. */
function keepParts(answer: Answer & { kind: "parts" }, finish: Finish): Answer {
  async function* copied() {
    const chunks: Buffer[] = [];
    let has_failed = true;
    try {
      for await (const part of answer.parts) {
        chunks.push(Buffer.from(part));
        yield part;
      }
      has_failed = false;
    } finally {
      const { status, headers } = answer;
      const stored = { status, headers: keptHeaders(headers), body: Buffer.concat(chunks) };
      await finish(has_failed && chunks.length === 0 ? null : stored);
    }
  }
  return { ...answer, parts: copied() };
}

/**
 * Keeps a copy of the events while they are sent. A stream that fails before its first event is no answer, so a retry
 * runs. If its caller hangs up, the replay ends with an error: a retry must not take it for a whole answer.
 */
function keepEvents({ feed, listener }: Answer & { kind: "events" }, finish: Finish): Answer {
  const texts: string[] = [];
  let is_over = false;
  const end = async (has_failed = false): Promise<void> => {
    if (is_over) return;
    is_over = true;
    if (has_failed && texts.length === 0) return finish(null);
    const last = texts.join("").trimEnd().split(EVENT_END).at(-1) ?? "";
    const left = LAST_EVENT.test(`${last}\n`) ? "" : errorEvent(errors.upstream(LEFT), listener);
    await finish({ status: 200, headers: KEPT_EVENT_HEADERS, body: Buffer.from(texts.join("") + left) });
  };
  const kept: EventFeed = {
    ...feed,
    async next() {
      const step = await feed.next().catch(async (error: unknown) => {
        await end(true);
        throw error;
      });
      if (step.done === true) await end();
      else texts.push(step.value);
      return step;
    },
    async leave() {
      await feed.leave();
      await end();
    },
  };
  return { kind: "events", feed: kept, listener };
}
