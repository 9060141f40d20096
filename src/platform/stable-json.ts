import { createHash } from "node:crypto";

/** JSON with the keys of every object sorted. Equal values give the same text, in any order of their keys. */
export function stableJson(value: unknown): string {
  return JSON.stringify(value, (_key, part) => {
    if (part === null || typeof part !== "object" || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)));
  });
}

/** SHA-256 of `stableJson(value)`. */
export function stableDigest(value: unknown): string {
  return createHash("sha256").update(stableJson(value)).digest("base64url");
}
