import { createHash, hash, randomBytes, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import type { Instant } from "../../platform/lib/instant.ts";
import { userErrors } from "./errors.ts";

/**
 * contract 3.6: `purser_live_`, the user's routing bucket (2 base62 characters), 41 base62 characters (244 random bits),
 * and 6 base62 characters of the CRC-32 of these 43.
 */
const PREFIX = "purser_live_";
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const KEY_SHAPE = /^purser_live_[0-9A-Za-z]{49}$/;

function base62(value: bigint, length: number): string {
  let text = "";
  for (let rest = value; text.length < length; rest /= 62n) text = BASE62[Number(rest % 62n)] + text;
  return text;
}

function checksum(body: string): string {
  return base62(BigInt(crc32(body)), 6);
}

/** 244 random bits, which 41 base62 characters can hold, after the bucket. */
function routedSecret(routing_bucket: string): string {
  const bits = BigInt(`0x${randomBytes(31).toString("hex")}`) >> 4n;
  return routing_bucket + base62(bits, 41);
}

/** The first and the last routing bucket that this installation gives to users, in the order of ASCII. */
export interface RoutingBuckets {
  first: string;
  last: string;
}

export const ALL_BUCKETS: RoutingBuckets = { first: "00", last: "zz" };

/** Two base62 characters as a number from 0 to 3843. */
function bucketNumber(text: string): number {
  return BASE62.indexOf(text.charAt(0)) * BASE62.length + BASE62.indexOf(text.charAt(1));
}

/** Chooses a bucket at random, each with the same chance. */
export function newRoutingBucket({ first, last }: RoutingBuckets): string {
  return base62(BigInt(randomInt(bucketNumber(first), bucketNumber(last) + 1)), 2);
}

/** Creates a key of a user with this routing bucket. It is shown once; only its hash is stored. */
export function newApiKey(routing_bucket: string): string {
  const body = routedSecret(routing_bucket);
  return `${PREFIX}${body}${checksum(body)}`;
}

/** True if `text` has the form and checksum of a key. Mistyped keys are rejected without a query. */
export function isApiKey(text: string): boolean {
  return KEY_SHAPE.test(text) && text.slice(-6) === checksum(text.slice(PREFIX.length, -6));
}

/** SHA-256: enough for 244 random bits, and fast. */
export function hashApiKey(key: string): Buffer {
  return hash("sha256", key, "buffer");
}

/** The part of a key that lists show. */
export function shownParts(key: string): { prefix: string; last_four: string } {
  return { prefix: key.slice(0, PREFIX.length + 4), last_four: key.slice(-4) };
}

/** The token of a mailed link (256 random bits as base64url), or of a session: a bucket and 244 random bits. */
const TOKEN_SHAPE = /^[A-Za-z0-9_-]{43}$/;

/** Creates the token of a mailed link and the hash that is stored in its place. */
export function newToken(): { token: string; token_hash: Buffer } {
  const token = randomBytes(32).toString("base64url");
  return { token, token_hash: sha256(token) };
}

/** Creates the token of a session of a user with this routing bucket, and its hash. */
export function newSessionToken(routing_bucket: string): { token: string; token_hash: Buffer } {
  const token = routedSecret(routing_bucket);
  return { token, token_hash: sha256(token) };
}

/** SHA-256 of a token, enough for 244 random bits. Null for a text that cannot be a token. */
export function hashToken(token: string): Buffer | null {
  return TOKEN_SHAPE.test(token) ? sha256(token) : null;
}

const sha256 = (token: string) => createHash("sha256").update(token).digest();

/** What decides whether a stored key is still accepted, for users' keys and operators' keys. */
interface KeyValidity {
  key_hash: Uint8Array;
  /** The secret before a rotation works until then; null: there is none. */
  previous_valid_until: Instant | null;
  revoked_at: Instant | null;
  expires_at: Instant | null;
}

/** Throws 401 for a revoked or expired key, and for a previous secret after its grace. Pure. */
export function rejectInvalidKey(stored: KeyValidity, presented_hash: Buffer, now: Instant): void {
  if (stored.revoked_at !== null) throw userErrors.revokedApiKey();
  const is_previous = Buffer.compare(stored.key_hash, presented_hash) !== 0;
  if (is_previous && (stored.previous_valid_until ?? "") <= now) throw userErrors.revokedApiKey();
  if (stored.expires_at !== null && stored.expires_at <= now) throw userErrors.expiredApiKey();
}
