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

/**
 * JSON text of `value` that PostgreSQL accepts. jsonb rejects NUL and unpaired surrogates, which models and web pages
 * can write; they become U+FFFD.
 */
export function jsonbText(value: unknown): string {
  // JSON.stringify writes both as escapes. `\\` is matched first, so that an escaped backslash is not mistaken for one.
  return (JSON.stringify(value) ?? "null").replaceAll(/\\(?:\\|u0000|ud[89a-f][0-9a-f]{2})/g, (found) =>
    found === "\\\\" ? found : "\\ufffd",
  );
}

/** `text` with U+FFFD in place of NUL and unpaired surrogates. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}
