import type { JsonLimits } from "./json-scan.ts";

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
const MODEL_BYTES = 33_554_432;
const DEPTH = 64;
const ORDINARY: JsonLimits = { depth: DEPTH, keys: 10_000, values: 100_000 };
const MODEL: JsonLimits = { depth: DEPTH, keys: 100_000, values: 200_000 };

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
