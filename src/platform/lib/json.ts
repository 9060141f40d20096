import { createHash } from "node:crypto";

/** Whether `value` is an object of JSON, not a list. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields of a value; none when it is no object. */
export function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** The value of a JSON text; undefined for any other text. */
export function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

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

/** The most levels of JSON that is stored or written again. PostgreSQL and JSON.stringify fail at some thousands. */
const MAX_LEVELS = 1_000;
const [QUOTE, BACKSLASH, LINE_FEED] = [0x22, 0x5c, 0x0a];
/** Setting this bit turns a square bracket into a curly one, and no other character that JSON has outside of strings. */
const CURLY = 0x20;
const [OPENING, CLOSING] = [0x7b, 0x7d];

/** Whether JSON texts, one or several, nest too deeply to be stored. One pass, a few nanoseconds for each character. */
export function isTooDeep(text: string): boolean {
  // A level takes two characters.
  if (text.length < 2 * MAX_LEVELS) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at + 1);
    else if ((code | CURLY) === OPENING) {
      depth += 1;
      if (depth > MAX_LEVELS) return true;
    } else if ((code | CURLY) === CLOSING && depth > 0) depth -= 1;
  }
  return false;
}

/** The end of the string whose text begins at `at`. A line break ends it too, so a broken text hides none after it. */
function endOfString(text: string, at: number): number {
  let end = at;
  for (; end < text.length; end += 1) {
    const code = text.charCodeAt(end);
    if (code === BACKSLASH) end += 1;
    else if (code === QUOTE || code === LINE_FEED) break;
  }
  return end;
}

/**
 * JSON text of `value` that PostgreSQL accepts. jsonb rejects NUL and unpaired surrogates, which models and web pages
 * can write; they become U+FFFD.
 */
export function jsonbText(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  // JSON.stringify writes both as escapes, which are rare.
  if (!text.includes("\\u")) return text;
  // `\\\\` is matched first, so that an escaped backslash is not mistaken for one.
  return text.replaceAll(/\\(?:\\|u0000|ud[89a-f][0-9a-f]{2})/g, (found) => (found === "\\\\" ? found : "\\ufffd"));
}
