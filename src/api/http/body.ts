import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { contractErrors } from "../../api/contract/errors.ts";
import { HOOK } from "../../api/contract/triggers.ts";
import { TRIGGERS } from "../../kernel/constants.ts";
import { PurserError } from "../../kernel/errors.ts";
import type { BodyShare } from "./body-budget.ts";
import { decodeBody, type Encoding, encodingOf, isDecodingError } from "./content-encoding.ts";
import { httpErrors } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import { checkJsonLimits, decodeUtf8, type JsonLimits, parseJson } from "./json-text.ts";

/** contract 2: paths under /api/v1 that need no key. */
export const SIGN_IN = "/api/v1/auth/";
export const LEAKED_KEYS = "/api/v1/api-keys/revoke-leaked";
export const STRIPE_WEBHOOK = "/api/v1/billing/stripe/webhook";

const SANITIZE = "/api/v1/safety/sanitize";
/** Conversations with their images and files, and texts to embed. */
const MODEL_PATHS =
  /^\/api\/v1\/(chat\/completions|embeddings|responses|messages|messages\/count_tokens|responses\/input_tokens|agents\/[^/]+\/chat)$/;

const PUBLIC_BYTES = 16_384;
/** Far above Stripe's largest events (an invoice with many lines). */
const STRIPE_BYTES = 262_144;
const SANITIZE_BYTES = 1_048_576;
const ORDINARY: JsonLimits = { depth: 64, keys: 10_000, elements: 100_000 };
const MODEL: JsonLimits = { depth: 64, keys: 100_000, elements: 200_000 };
const JSON_TYPE = /^application\/([a-z0-9.-]+\+)?json\s*(;|$)/i;
/** Beyond its limit a body is read this far, so that its sender gets the 413 instead of a closed connection. */
const MAX_DROPPED_BYTES = 1_048_576;

/** The body of a request: its value, and the text as it was sent. */
export interface Body {
  value: unknown;
  text: string;
}

/** Of the configuration's `limits`. */
interface BodyLimits {
  body_bytes: number;
  model_body_bytes: number;
}

/** The limits of a path's bodies. Where a path's own limit is lower than the configured one, the lower one counts. */
export function bodyLimitsOf(path: string, { body_bytes, model_body_bytes }: BodyLimits) {
  if (MODEL_PATHS.test(path)) return { bytes: Math.max(model_body_bytes, body_bytes), json: MODEL };
  return { bytes: Math.min(body_bytes, ownLimit(path)), json: ORDINARY };
}

function ownLimit(path: string): number {
  if (path.startsWith(SIGN_IN) || path === LEAKED_KEYS) return PUBLIC_BYTES;
  if (path === STRIPE_WEBHOOK) return STRIPE_BYTES;
  if (path === HOOK) return TRIGGERS.body_bytes;
  return path === SANITIZE ? SANITIZE_BYTES : Number.POSITIVE_INFINITY;
}

/**
 * Reads and parses a JSON body, within its path's limits and the node's memory. Throws 413 for its size, 415 for another
 * content type or encoding, 400 for invalid or too complex JSON, 503 when the budget is used up. A missing body counts
 * as `{}`. A delivery to a trigger is not parsed: it may be a form, and its signature is over the text.
 */
export async function readBody(
  { incoming, route, header }: Exchange,
  configured: BodyLimits,
  share: BodyShare,
): Promise<Body> {
  const limits = bodyLimitsOf(route, configured);
  const encoding = encodingOf(header("content-encoding"));
  try {
    const sent = await readBytes(incoming, { limit: limits.bytes, encoding, share });
    if (route === HOOK) return { value: undefined, text: decodeUtf8(sent, { keeps_mark: true }) };
    const text = decodeUtf8(sent);
    if (text.trim() !== "" && !JSON_TYPE.test(header("content-type") ?? "")) throw httpErrors.unsupportedMediaType();
    const value = parseJson(text);
    checkJsonLimits(value, limits.json);
    return { value, text };
  } catch (error) {
    if (isDecodingError(error)) throw contractErrors.invalidJson(`The body is not valid ${encoding}`);
    // The connection ended or was too slow, which is not a failure of the service.
    throw error instanceof PurserError ? error : httpErrors.requestTimeout();
  }
}

interface Reading {
  limit: number;
  /** Null: the body is not compressed. */
  encoding: Encoding | null;
  share: BodyShare;
}

/** Does not trust Content-Length. Limits count decoded bytes. */
async function readBytes(incoming: IncomingMessage, { limit, encoding, share }: Reading): Promise<Buffer> {
  const declared = incoming.headers["content-length"];
  if (declared === undefined && incoming.headers["transfer-encoding"] === undefined) return Buffer.alloc(0);
  if (declared !== undefined && Number(declared) > limit) throw httpErrors.bodyTooLarge(limit);
  const source: Readable = encoding === null ? incoming : decodeBody(incoming, { encoding, limit });
  const dropped = encoding === null ? MAX_DROPPED_BYTES : 0;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > limit + dropped) break;
    // The rest of a rejected body is read and dropped: many clients read no answer before they have sent everything.
    if (bytes > limit) continue;
    share.take(chunk.length);
    chunks.push(chunk);
  }
  if (bytes > limit) throw httpErrors.bodyTooLarge(limit);
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
}
