import { createHash, hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

/** contract 3: `purser_live_`, 43 base62 characters (256 random bits), 6 base62 characters of their CRC-32. */
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

/** Creates a key. It is shown once; only its hash is stored. */
export function newApiKey(): string {
  const body = base62(BigInt(`0x${randomBytes(32).toString("hex")}`), 43);
  return `${PREFIX}${body}${checksum(body)}`;
}

/** True if `text` has the form and checksum of a key. Mistyped keys are rejected without a query. */
export function isApiKey(text: string): boolean {
  return KEY_SHAPE.test(text) && text.slice(-6) === checksum(text.slice(PREFIX.length, -6));
}

/** SHA-256: enough for 256 random bits, and fast. */
export function hashApiKey(key: string): Buffer {
  return hash("sha256", key, "buffer");
}

/** The part of a key that lists show. */
export function shownParts(key: string): { prefix: string; last_four: string } {
  return { prefix: key.slice(0, PREFIX.length + 4), last_four: key.slice(-4) };
}

/** 256 random bits as 43 base64url characters: the token of a session or of a mailed link. */
const TOKEN_SHAPE = /^[A-Za-z0-9_-]{43}$/;

/** Creates a token and the hash that is stored in its place. */
export function newToken(): { token: string; token_hash: Buffer } {
  const token = randomBytes(32).toString("base64url");
  return { token, token_hash: sha256(token) };
}

/** SHA-256 of a token, enough for 256 random bits. Null for a text that cannot be a token. */
export function hashToken(token: string): Buffer | null {
  return TOKEN_SHAPE.test(token) ? sha256(token) : null;
}

const sha256 = (token: string) => createHash("sha256").update(token).digest();
