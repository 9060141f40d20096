import type { IncomingMessage } from "node:http";
import type { Context, MiddlewareHandler } from "hono";
import { errors, PurserError } from "../../kernel/errors.ts";
import { isTurnUsed, untilTurn } from "../../platform/lib/event-loop-turn.ts";
import type { HttpEnv } from "../contract/caller.ts";
import type { BodyShare } from "./body-budget.ts";
import { decoded, type Encoding, encodingOf } from "./content-encoding.ts";
import { createJsonParser } from "./json-parser.ts";
import { createJsonScan, type JsonLimits, scanOnce } from "./json-scan.ts";
import { JsonError, parsedJson, utf8Text } from "./json-text.ts";

/** The limits of a request's body, by path. */
export interface BodyLimits {
  bytes: number;
  json: JsonLimits;
}

/** contract 2: paths under /api/v1 that need no key. */
export const SIGN_IN = "/api/v1/auth/";
export const LEAKED_KEYS = "/api/v1/api-keys/revoke-leaked";
export const STRIPE_WEBHOOK = "/api/v1/billing/stripe/webhook";

const SANITIZE = "/api/v1/safety/sanitize";
/** Conversations with their images and files, and texts to embed. */
const MODEL_PATHS =
  /^\/api\/v1\/(chat\/completions|embeddings|responses|messages|messages\/count_tokens|agents\/[^/]+\/chat)$/;

/** Up to this size a route may ask for the body's text; a larger body is parsed in a thread. */
export const TEXT_BYTES = 262_144;
const PUBLIC_BYTES = 16_384;
/** Far above Stripe's largest events (an invoice with many lines). Their signature covers the body's text. */
const STRIPE_BYTES = TEXT_BYTES;
const SANITIZE_BYTES = 1_048_576;
export const MODEL_BYTES = 33_554_432;
const EVERYWHERE = { depth: 64, key_bytes: 65_536 };
const ORDINARY: JsonLimits = { ...EVERYWHERE, keys: 10_000, elements: 100_000 };
const MODEL: JsonLimits = { ...EVERYWHERE, keys: 100_000, elements: 200_000 };

/** `ordinary_bytes`: limits.body_bytes of PURSER_CONFIG. Where a path's own limit is lower, the lower one counts. */
export function bodyLimitsOf(path: string, ordinary_bytes: number): BodyLimits {
  if (MODEL_PATHS.test(path)) return { bytes: Math.max(MODEL_BYTES, ordinary_bytes), json: MODEL };
  return { bytes: Math.min(ordinary_bytes, ownLimit(path)), json: ORDINARY };
}

function ownLimit(path: string): number {
  if (path.startsWith(SIGN_IN) || path === LEAKED_KEYS) return PUBLIC_BYTES;
  if (path === STRIPE_WEBHOOK) return STRIPE_BYTES;
  return path === SANITIZE ? SANITIZE_BYTES : Number.POSITIVE_INFINITY;
}

const JSON_MEDIA = "application/json";
export const JSON_TYPE = /^application\/([a-z0-9.-]+\+)?json\s*(;|$)/i;
/** Declared bodies up to this size are read in one piece. */
export const ONE_PIECE_BYTES = 65_536;
const BLOCK_BYTES = 262_144;
/** Beyond its limit a body is read this far, so that its sender gets the 413 instead of a closed connection. */
const MAX_DROPPED_BYTES = 1_048_576;

interface Reading {
  limit: number;
  json: JsonLimits;
  share: BodyShare;
  /** null: the body is not compressed. */
  encoding: Encoding | null;
}

/** Reads the body in blocks and rejects a body over a limit. Does not trust Content-Length. Limits count decoded bytes. */
async function readStream(request: Request, { limit, json, share, encoding }: Reading): Promise<Buffer<ArrayBuffer>[]> {
  const scan = createJsonScan(json);
  const blocks = createBlocks();
  let bytes = 0;
  let fault: string | null = null;
  const { body } = request;
  const stream: AsyncIterable<Uint8Array> | null =
    body === null || encoding === null ? body : decoded(body as never, { encoding, limit });
  const dropped = encoding === null ? MAX_DROPPED_BYTES : 0;
  share.beginUpload();
  try {
    for await (const chunk of stream ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limit + dropped) break;
      // The rest of a rejected body is read and dropped: many clients read no answer before they have sent everything.
      if (fault !== null || bytes > limit) continue;
      share.take(chunk.byteLength);
      if (isTurnUsed()) await untilTurn();
      fault = scan(chunk);
      if (fault === null) blocks.add(chunk);
      else blocks.drop();
    }
  } finally {
    share.endUpload();
  }
  if (bytes > limit) throw errors.bodyTooLarge(limit);
  if (fault !== null) throw errors.bodyTooComplex(fault);
  return blocks.all();
}

/** Collects chunks in blocks that a thread can take over. To join 32 MB takes 30 ms, and the thread has that time. */
function createBlocks() {
  let blocks: Buffer<ArrayBuffer>[] = [];
  let used = BLOCK_BYTES;
  return {
    add(chunk: Uint8Array): void {
      for (let at = 0; at < chunk.length; ) {
        if (used === BLOCK_BYTES) {
          blocks.push(Buffer.allocUnsafeSlow(BLOCK_BYTES));
          used = 0;
        }
        const part = chunk.subarray(at, at + BLOCK_BYTES - used);
        blocks.at(-1)?.set(part, used);
        used += part.length;
        at += part.length;
      }
    },
    drop(): void {
      blocks = [];
      used = BLOCK_BYTES;
    },
    all(): Buffer<ArrayBuffer>[] {
      const last = blocks.pop();
      return last === undefined ? [] : [...blocks, last.subarray(0, used)];
    },
  };
}

/** The body's bytes in blocks. */
async function readBytes(c: Context, reading: Reading): Promise<Buffer<ArrayBuffer>[]> {
  const declared = c.req.header("Content-Length");
  if (declared === undefined && c.req.header("Transfer-Encoding") === undefined) return [];
  const length = Number(declared ?? Number.POSITIVE_INFINITY);
  if (declared !== undefined && length > reading.limit) throw errors.bodyTooLarge(reading.limit);
  if (length === 0) return [];
  if (length > ONE_PIECE_BYTES || reading.encoding !== null) return await readStream(c.req.raw, reading);
  reading.share.take(length);
  const bytes = Buffer.from(await c.req.arrayBuffer());
  if (isTurnUsed()) await untilTurn();
  const fault = createJsonScan(reading.json)(bytes);
  if (fault !== null) throw errors.bodyTooComplex(fault);
  return [bytes];
}

/**
 * The value of a model call's body that was read in one piece, and whether its validation needs no pause. Throws as
 * `jsonBodies`.
 */
export function parsedModelBody(bytes: Uint8Array): { value: unknown; is_short: boolean } {
  const { fault, is_short } = scanOnce(bytes, MODEL);
  if (fault !== null) throw errors.bodyTooComplex(fault);
  try {
    const text = utf8Text(bytes);
    return { value: text.trim() === "" ? {} : parsedJson(text), is_short };
  } catch (error) {
    throw error instanceof JsonError ? errors.invalidJson(error.message) : error;
  }
}

/**
 * Reads and parses a JSON body before any handler, within its path's limits and the node's memory. Throws 413 for its
 * size, 415 for another content type, 400 for invalid or too complex JSON, 503 when the budget is used up. A missing
 * body counts as `{}`. An unreadable body for an address that does not exist is that address's 404.
 *
 * After a body that arrives behind its headers, `checkCaller` runs: the caller may have lost access meanwhile.
 */
export function jsonBodies({
  ordinaryBytes,
  shareOf,
  callerOf,
  checkCaller,
  wrongAddress,
}: {
  ordinaryBytes(): number;
  shareOf(caller: string): BodyShare;
  callerOf(c: Context<HttpEnv>): string;
  checkCaller(c: Context<HttpEnv>): Promise<void>;
  wrongAddress(c: Context<HttpEnv>): PurserError | null;
}): MiddlewareHandler<HttpEnv> {
  const parseInThread = createJsonParser();

  async function read(c: Context<HttpEnv>, share: BodyShare): Promise<void> {
    const { bytes: limit, json } = bodyLimitsOf(c.req.path, ordinaryBytes());
    const encoding = encodingOf(c.req.header("Content-Encoding"));
    const blocks = await readBytes(c, { limit, json, share, encoding }).catch((error: unknown) => {
      // The connection ended or was too slow, which is not a failure of the service.
      throw error instanceof PurserError || error instanceof JsonError ? error : errors.requestTimeout();
    });
    const type = c.req.header("Content-Type") ?? "";
    const is_large = blocks.reduce((sum, { length }) => sum + length, 0) > TEXT_BYTES;
    const sent = is_large ? null : utf8Text(Buffer.concat(blocks));
    const is_empty = sent !== null && sent.trim() === "";
    if (!is_empty && !JSON_TYPE.test(type)) throw errors.unsupportedMediaType();
    // An empty body counts as {}, with any content type. The routes' validators check the type, and accept fewer
    // spellings of it.
    if (type !== JSON_MEDIA) c.req.raw.headers.set("Content-Type", JSON_MEDIA);
    let value: unknown;
    if (sent === null) {
      const digest = c.req.header("Idempotency-Key") !== undefined;
      const parsed = await parseInThread(callerOf(c), { blocks, digest });
      value = parsed.value;
      c.set("body_digest", parsed.digest);
    } else {
      const text = is_empty ? "{}" : sent;
      value = parsedJson(text);
      c.req.bodyCache.text = Promise.resolve(text) as never;
    }
    // Keeps the validators from parsing the text again.
    c.req.json = async () => value as never;
  }

  return async (c, next) => {
    if (c.req.method === "GET" || c.req.method === "HEAD") return next();
    const share = shareOf(callerOf(c));
    const { incoming } = (c.env ?? {}) as { incoming?: IncomingMessage };
    const is_whole = incoming?.complete === true;
    try {
      await read(c, share).catch((error: unknown) => {
        // A body that no route reads is not what is wrong, such as a file that is uploaded.
        throw wrongAddress(c) ?? (error instanceof JsonError ? errors.invalidJson(error.message) : error);
      });
      if (!is_whole) await checkCaller(c);
      await next();
    } finally {
      share.release();
    }
  };
}
