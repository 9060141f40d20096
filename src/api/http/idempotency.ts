import type { Context, MiddlewareHandler } from "hono";
import { errors } from "../../kernel/errors.ts";
import { stableDigest } from "../../platform/lib/json.ts";
import { isEventStream } from "../../platform/net/event-stream.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Caller, HttpEnv } from "../contract/caller.ts";
import { SHOULD_RETRY } from "./error-response.ts";
import type { IdempotencyStore, StoredAnswer } from "./idempotency.store.ts";

const PRINTABLE = /^[\x20-\x7e]{1,255}$/;
const USER_IN_PATH = /^\/api\/v1\/admin\/users\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\/|$)/i;
/** Headers that belong to the answer, not to one exchange. */
const KEPT_HEADERS = ["content-type", "location", SHOULD_RETRY];

/** Agents have a limit of their own, so a repetition may create another one. */
const CREATES_AGENT = "/api/v1/agents";

/** The last event of a stream that is whole or has failed, in the shape of each endpoint. */
const LAST_EVENT =
  /^data: \[DONE\]|^event: (?:message_stop|error|response\.(?:completed|incomplete|failed))\n|^data: \{"error":/;

/** As many bytes of an event tell whether it is the last one. */
const LAST_EVENT_BYTES = 100;
const EVENT_END = "\n\n";
const LINE_FEED = 0x0a;

/** Ends the replay of a stream whose caller hung up. */
const LEFT =
  "The first request with this Idempotency-Key hung up here. The output so far is charged. Send the request with a new key for a whole answer.";

/** Interval between two renewals of a claim, a quarter of its lease. A request may run for an hour and more. */
const RENEW_MS = 240_000;

/** contract 2: the same key and body within a day replays the first answer, streams included. */
export function idempotency(store: IdempotencyStore, log: Log, renew_ms = RENEW_MS): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const header = c.req.header("Idempotency-Key");
    const caller: Caller | undefined = c.get("caller");
    if (header === undefined || c.req.method !== "POST" || caller === undefined) return next();
    if (!PRINTABLE.test(header)) {
      throw errors.invalidValue("Idempotency-Key", "Idempotency-Key takes 1 to 255 printable ASCII characters.");
    }
    const key = { user_id: caller.user_id, key: header };
    const claim = await store.claim({ ...key, request: await requestOf(c, caller) });
    if (claim.state === "in_flight") throw errors.idempotencyInFlight();
    if (claim.state === "mismatch") throw errors.idempotencyMismatch();
    if (claim.state === "erased") throw errors.notFound("This user");
    if (claim.state === "not_kept") throw errors.answerNotKept();
    if (claim.state === "answered") return replay(claim.answer);
    const stopRenewing = renewEvery(renew_ms, () => store.renew(key), log);
    let is_streamed = false;
    try {
      await next();
      const { status, headers } = c.res;
      const did_nothing = headers.get(SHOULD_RETRY) !== "false";
      // A backup or an export changes nothing and can be larger than the memory, so a retry makes a new one.
      const is_file = headers.has("Content-Disposition");
      const is_kept = !is_file && c.get("only_reads") !== true;
      // An error of a request that did nothing depends on what is stored or set: a retry may succeed.
      if (!is_kept || (did_nothing && status >= 400)) return await store.release(key);
      is_streamed = c.res.body !== null && isEventStream(c.res);
      if (is_streamed) keepStream(c, { store, key, over: stopRenewing, log });
      else await keep(c, { store, key, answer: await answerOf(c.res) });
    } finally {
      if (!is_streamed) stopRenewing();
    }
  };
}

/**
 * Stores an answer. One that cost nothing has a limit per user: beyond it, a request that may be repeated without harm
 * will be carried out again, and another one only says that it was carried out.
 */
async function keep(
  c: Context<HttpEnv>,
  { store, key, answer }: { store: IdempotencyStore; key: StreamKeeping["key"]; answer: StoredAnswer },
): Promise<void> {
  const call = c.get("facts")?.answered?.() ?? null;
  const cost_nothing = c.get("operator") === undefined && (call?.cost_tokens ?? 0) === 0;
  if (!cost_nothing || (await store.hasRoom(key.user_id, answer))) {
    await store.answer(key, answer, { about_user_id: aboutUser(c), cost_nothing });
    return;
  }
  // An agent, which may have effects, has no provider. The call of a stream that is cut may not be known yet.
  const is_model_call = call !== null && call.provider !== null;
  const did_nothing = answer.status >= 400 && answer.headers[SHOULD_RETRY] !== "false";
  if (is_model_call || did_nothing || c.req.path === CREATES_AGENT) await store.release(key);
  else await store.answerWithoutBody(key, answer.status);
}

/** The user whom an operator's answer is about: the one that it created, or the one in its path. */
function aboutUser(c: Context<HttpEnv>): string | null {
  return c.get("created_user_id") ?? USER_IN_PATH.exec(c.req.path)?.[1]?.toLowerCase() ?? null;
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
 * Identifies equal requests. It includes the API key: a replay skips the checks of scopes, budget and expiry, so a lesser
 * key must not get the answer of another.
 */
async function requestOf(c: Context<HttpEnv>, { api_key_id }: Caller): Promise<Buffer> {
  return Buffer.from([c.req.method, c.req.path, api_key_id ?? "", await bodyOf(c)].join("\n"));
}

/** The body's value. The order of fields and spaces do not matter. */
async function bodyOf(c: Context<HttpEnv>): Promise<string> {
  return c.get("body_digest") ?? stableDigest(await c.req.json());
}

function replay(answer: StoredAnswer): Response {
  const headers = { ...answer.headers, "Idempotent-Replayed": "true" };
  return new Response(Buffer.from(answer.body), { status: answer.status, headers });
}

function keptHeaders(response: Response): Record<string, string> {
  return Object.fromEntries(
    KEPT_HEADERS.flatMap((name) => {
      const value = response.headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
}

async function answerOf(response: Response): Promise<StoredAnswer> {
  const body = new Uint8Array(await response.clone().arrayBuffer());
  return { status: response.status, headers: keptHeaders(response), body };
}

interface StreamKeeping {
  store: IdempotencyStore;
  key: { user_id: string; key: string };
  /** Called once the stream has ended in any way. */
  over(): void;
  log: Log;
}

/** Stores a streamed answer while it is sent. One that failed before its first event is no answer, so a retry runs. */
function keepStream(c: Context<HttpEnv>, { store, key, over, log }: StreamKeeping): void {
  const { status, body } = c.res;
  if (body === null) throw new Error("a stream without a body");
  const headers = keptHeaders(c.res);
  const chunks: Uint8Array[] = [];
  const finish = (has_failed = false) =>
    (has_failed && chunks.length === 0
      ? store.release(key)
      : keep(c, { store, key, answer: { status, headers, body: endedStream(c, chunks) } })
    )
      .catch((error: Error) => log.error({ error }, "a streamed answer was not kept for its Idempotency-Key"))
      .finally(over);
  c.res = new Response(copying(body, chunks, finish), c.res);
}

/**
 * The stream as it will be replayed. If its caller hung up, it is cut, and a retry must not take it for a whole answer.
 * The source may have ended before the hang-up arrives here, so the last event decides.
 */
function endedStream(c: Context<HttpEnv>, chunks: readonly Uint8Array[]): Buffer {
  const came = Buffer.concat(chunks);
  if (LAST_EVENT.test(beginningOfLastEvent(came))) return came;
  return Buffer.concat([came, Buffer.from(c.get("error_event")?.(errors.upstream(LEFT)) ?? "")]);
}

/** A stream may have megabytes, so only this part of it is read. */
function beginningOfLastEvent(stream: Buffer): string {
  let end = stream.length;
  while (end > 0 && stream[end - 1] === LINE_FEED) end -= 1;
  const before = stream.subarray(0, end).lastIndexOf(EVENT_END);
  const start = before === -1 ? 0 : before + EVENT_END.length;
  return stream.toString("utf8", start, Math.min(end, start + LAST_EVENT_BYTES));
}

/** Passes a stream on and keeps a copy. `finish` runs at its end, also when it fails or the caller disconnects. */
function copying(
  source: ReadableStream<Uint8Array>,
  chunks: Uint8Array[],
  finish: (has_failed?: boolean) => Promise<void>,
) {
  const reader = source.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read().catch(async (error: unknown) => {
        await finish(true);
        throw error;
      });
      if (done) {
        await finish();
        controller.close();
        return;
      }
      chunks.push(value);
      controller.enqueue(value);
    },
    async cancel(reason) {
      await reader.cancel(reason);
      await finish();
    },
  });
}
