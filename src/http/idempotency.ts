import type { Context, MiddlewareHandler } from "hono";
import type { Caller, HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";
import { stableDigest } from "../platform/json.ts";
import type { Log } from "../platform/log.ts";
import { SHOULD_RETRY } from "./error-response.ts";
import type { IdempotencyStore, StoredAnswer } from "./idempotency.store.ts";

const PRINTABLE = /^[\x20-\x7e]{1,255}$/;
/** Headers that belong to the answer, not to one exchange. */
const KEPT_HEADERS = ["content-type", "location", SHOULD_RETRY];
/** Statuses that are not stored if the request did nothing, so a retry runs. 499: the caller disconnected early. */
const PASSING = new Set([401, 402, 403, 409, 429, 499]);

/** Whole databases and accounts: they are streamed, and no copy of them is kept. Each request makes another. */
const DOWNLOADS = /^\/api\/v1\/(admin\/backup|(users\/me|admin\/users\/[^/]+)\/export)$/;

/** contract 2: the same key and body within a day replays the first answer, streams included. */
export function idempotency(store: IdempotencyStore, log: Log): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const header = c.req.header("Idempotency-Key");
    const caller: Caller | undefined = c.get("caller");
    if (header === undefined || c.req.method !== "POST" || caller === undefined || DOWNLOADS.test(c.req.path)) {
      return next();
    }
    if (!PRINTABLE.test(header)) {
      throw errors.invalidValue("Idempotency-Key", "Idempotency-Key takes 1 to 255 printable ASCII characters.");
    }
    const key = { user_id: caller.user_id, key: header };
    const claim = await store.claim({ ...key, request: await requestOf(c, caller) });
    if (claim.state === "in_flight") throw errors.idempotencyInFlight();
    if (claim.state === "mismatch") throw errors.idempotencyMismatch();
    if (claim.state === "answered") return replay(claim.answer);
    await next();
    const { status, headers } = c.res;
    const did_nothing = headers.get(SHOULD_RETRY) !== "false";
    if (did_nothing && (status >= 500 || PASSING.has(status))) await store.release(key);
    else await keep(c, (answer) => store.answer(key, answer), log);
  };
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

/** Stores the answer: JSON before it is sent, a stream while it is sent. */
async function keep(c: Context, store: (answer: StoredAnswer) => Promise<void>, log: Log): Promise<void> {
  const { status } = c.res;
  const headers = Object.fromEntries(
    KEPT_HEADERS.flatMap((name) => {
      const value = c.res.headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
  if (c.res.body === null || !(headers["content-type"] ?? "").startsWith("text/event-stream")) {
    const body = new Uint8Array(await c.res.clone().arrayBuffer());
    await store({ status, headers, body });
    return;
  }
  const chunks: Uint8Array[] = [];
  const finish = () =>
    store({ status, headers, body: Buffer.concat(chunks) }).catch((error: Error) =>
      log.error({ error }, "a streamed answer was not kept for its Idempotency-Key"),
    );
  c.res = new Response(copying(c.res.body, chunks, finish), c.res);
}

/** Passes a stream on and keeps a copy. `finish` runs at its end, also when the caller disconnects. */
function copying(source: ReadableStream<Uint8Array>, chunks: Uint8Array[], finish: () => Promise<void>) {
  const reader = source.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
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
