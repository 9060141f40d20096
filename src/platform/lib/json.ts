import { createHash } from "node:crypto";
import { isTurnUsed, untilTurn } from "./event-loop-turn.ts";

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
  return storableJson(JSON.stringify(value) ?? "null");
}

/** The same for a value that may be large: other work of the process runs in between. */
export async function largeJsonbText(value: unknown): Promise<string> {
  return storableJson(await jsonText(value));
}

function storableJson(text: string): string {
  // JSON.stringify writes both as escapes, which are rare.
  if (!text.includes("\\u")) return text;
  // `\\` is matched first, so that an escaped backslash is not mistaken for one.
  return text.replaceAll(/\\(?:\\|u0000|ud[89a-f][0-9a-f]{2})/g, (found) => (found === "\\\\" ? found : "\\ufffd"));
}

/** `text` with U+FFFD in place of NUL and unpaired surrogates. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

/** Characters written without a pause. In the worst case, they take a few milliseconds. */
const PIECE_CHARS = 65_536;
const VALUE_WEIGHT = 8;
/** Bytes copied without a pause. */
const COPIED_BYTES = 1_048_576;

/** The text of `jsonBytes`. */
export async function jsonText(value: unknown): Promise<string> {
  return (await jsonBytes(value)).toString();
}

/**
 * The bytes of JSON.stringify(value), for plain values. Writes a large value in pieces, so that other work of the
 * process runs in between: 32 MB take up to half a second.
 */
export async function jsonBytes(value: unknown): Promise<Buffer> {
  if (isSmallJson(value)) return Buffer.from(JSON.stringify(value));
  const written: Buffer[] = [];
  let text = "";
  for (const piece of piecesOf(value)) {
    text += piece;
    if (text.length >= PIECE_CHARS) {
      written.push(Buffer.from(text));
      text = "";
    }
    if (isTurnUsed()) await untilTurn();
  }
  return joinedBytes([...written, Buffer.from(text)]);
}

/** The bytes of `parts` in one buffer. Copies in slices: 32 MB at once take up to 30 ms. */
async function joinedBytes(parts: readonly Buffer[]): Promise<Buffer> {
  const joined = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    for (let from = 0; from < part.length; from += COPIED_BYTES) {
      if (isTurnUsed()) await untilTurn();
      at += part.copy(joined, at, from, from + COPIED_BYTES);
    }
  }
  return joined;
}

/** Whether the JSON of `value` has about 64 KB at most. Stops counting there. */
export function isSmallJson(value: unknown): boolean {
  let left = PIECE_CHARS;
  const fits = (part: unknown): boolean => {
    left -= VALUE_WEIGHT + (typeof part === "string" ? part.length : 0);
    if (left < 0) return false;
    if (part === null || typeof part !== "object") return true;
    if (Array.isArray(part)) return part.length * VALUE_WEIGHT <= left && part.every(fits);
    for (const key in part) {
      left -= key.length;
      if (!fits((part as Record<string, unknown>)[key])) return false;
    }
    return true;
  };
  return fits(value);
}

function* piecesOf(value: unknown): Generator<string> {
  if (isSmallJson(value)) yield JSON.stringify(value);
  else if (typeof value === "string") yield* piecesOfText(value);
  else if (Array.isArray(value)) yield* piecesOfList(value);
  else yield* piecesOfObject(value as Record<string, unknown>);
}

/** A slice may cut a surrogate pair in two. Then both halves are escaped, and a parser reads the same character. */
function* piecesOfText(text: string): Generator<string> {
  yield '"';
  for (let at = 0; at < text.length; at += PIECE_CHARS)
    yield JSON.stringify(text.slice(at, at + PIECE_CHARS)).slice(1, -1);
  yield '"';
}

function* piecesOfList(list: readonly unknown[]): Generator<string> {
  yield "[";
  for (const [index, item] of list.entries()) {
    if (index > 0) yield ",";
    yield* piecesOf(item === undefined ? null : item);
  }
  yield "]";
}

function* piecesOfObject(object: Readonly<Record<string, unknown>>): Generator<string> {
  let before = "{";
  for (const [key, item] of Object.entries(object)) {
    if (item === undefined) continue;
    yield `${before}${JSON.stringify(key)}:`;
    before = ",";
    yield* piecesOf(item);
  }
  yield before === "{" ? "{}" : "}";
}
