import { createHash, randomBytes } from "node:crypto";

/** 256 random bits as 43 base64url characters, for a session or a mailed link. */
const SHAPE = /^[A-Za-z0-9_-]{43}$/;

/** Creates a token and the hash that is stored in its place. */
export function newToken(): { token: string; token_hash: Buffer } {
  const token = randomBytes(32).toString("base64url");
  return { token, token_hash: sha256(token) };
}

/** SHA-256 of a token, enough for 256 random bits. Null for a text that cannot be a token. */
export function hashToken(token: string): Buffer | null {
  return SHAPE.test(token) ? sha256(token) : null;
}

const sha256 = (token: string) => createHash("sha256").update(token).digest();
