import { BACKSLASH, ESCAPE_CHARACTERS, QUOTED, unescaped } from "../lib/escapes.ts";
import type { SecretValue } from "../lib/secret-value.ts";

/**
 * Whether an answer from outside holds a secret, in plain text or as services echo their input: URL-, JSON- and
 * HTML-escaped, hex, base64 and base64url at any alignment, reversed, in the other case, UTF-16, its UTF-8 read as
 * latin1, and one of these within another.
 *
 * An answer that holds a secret is discarded as a whole. So there is nothing to cut out, and no limit on matches to
 * exhaust.
 */

/** Minimum length of a searched value. Shorter values occur in pages by chance. */
export const SCRUBBED_CHARACTERS = 8;
/** Levels of encoding: one encoding, and another within it. */
const DEPTH = 2;
/** A longer value is recognized by passages from its middle. Its beginning and end may be the same in any key file. */
const WHOLE_CHARACTERS = 200;
const PASSAGE_CHARACTERS = 48;
/** A prefix before the part that matters: `Bearer abc`, `whsec_abc`. */
const SCHEME = /^(?:[A-Za-z]{3,10} +|whsec_)(?=.{8})/s;

/** Whether the value is long enough for `holdsSecret` to find it. */
export function isScrubbed(value: SecretValue): boolean {
  return value.reveal().trim().length >= SCRUBBED_CHARACTERS;
}

/** Whether `bytes` hold `value`; always false for a value that is too short. Linear in the bytes. */
export function holdsSecret(bytes: Buffer, value: SecretValue): boolean {
  return isScrubbed(value) && heldIn(bytes, searchFor([searchedText(value)])).has(0);
}

/** The part of a value that answers are searched for. It is as secret as the value. */
export function searchedText(value: SecretValue): string {
  return value.reveal().trim().replace(SCHEME, "");
}

/** Prepares one search for all `texts`. Each encoding is decoded once for all of them. */
export function searchFor(texts: readonly string[]): Search {
  const needles = texts.flatMap((text, index) =>
    passagesOf(text)
      .flatMap(spellingsOf)
      .map((bytes) => ({ bytes, index })),
  );
  const shortest_bytes = Math.min(...needles.map(({ bytes }) => bytes.length));
  // the first and the last base64 character may partly encode bytes beside the text
  const min_run = Math.floor((shortest_bytes * 8) / 6) - 2;
  const may_stand = Uint8Array.from(MAY_ENCODE);
  for (const { bytes } of needles) for (const byte of bytes) may_stand[byte] = 1;
  // The next character decides whether a backslash is literal or begins an escape.
  if (needles.some(({ bytes }) => bytes.includes(BACKSLASH))) for (const byte of QUOTED) may_stand[byte] = 1;
  const min_bytes = Math.min(min_run, shortest_bytes);
  const barrier = may_stand.indexOf(0);
  return { texts: texts.length, needles, min_run, min_hex: 2 * shortest_bytes, may_stand, min_bytes, barrier };
}

/** The indexes of the searched texts that `bytes` hold. Linear in the bytes. */
export function heldIn(bytes: Buffer, search: Search): Set<number> {
  const found = new Set<number>();
  markHeld(bytes, { search, found }, DEPTH);
  return found;
}

function passagesOf(value: string): string[] {
  if (value.length <= WHOLE_CHARACTERS) return [value];
  return [1, 2, 3].map((quarter) => passageAt(value, Math.floor((value.length * quarter) / 4)));
}

/**
 * The passage around `at`, within one line if that line is long enough. Services may change the form of line breaks.
 */
function passageAt(value: string, at: number): string {
  const [from, to] = [at - PASSAGE_CHARACTERS / 2, at + PASSAGE_CHARACTERS / 2];
  const line_from = Math.max(from, value.lastIndexOf("\n", at - 1) + 1);
  const line_to = value.slice(line_from, to).search(/[\r\n]/);
  const line = value.slice(line_from, line_to === -1 ? to : line_from + line_to);
  const passage = line.length >= PASSAGE_CHARACTERS / 2 ? line : value.slice(from, to);
  return passage.replaceAll(/^\p{Cs}|\p{Cs}$/gu, ""); // removes half a character at either end
}

/** The spellings of a text that decoding does not reveal. */
function spellingsOf(told: string): Buffer[] {
  // Headers carry UTF-8 as latin1. A server that answers their text in UTF-8 writes "Ã¼" for "ü".
  return [...new Set([told, Buffer.from(told).toString("latin1")])].flatMap(writtenAs);
}

function writtenAs(text: string): Buffer[] {
  const texts = new Set([
    text,
    // Hex and host names mean the same in either case.
    text.toLowerCase(),
    text.toUpperCase(),
    // HTML forms write two characters for a line break, and a plus for a space.
    text.replaceAll(/\r?\n/g, "\r\n"),
    text.replaceAll("\r\n", "\n"),
  ]);
  for (const each of [...texts]) texts.add(each.replaceAll(" ", "+"));
  for (const each of [...texts]) texts.add([...each].reverse().join(""));
  // Without its last byte, the UTF-16 spelling is found in either byte order.
  return [...[...texts].map((each) => Buffer.from(each)), Buffer.from(text, "utf16le").subarray(0, -1)];
}

/** A search for several texts at once. */
export interface Search {
  /** How many texts are searched for. */
  readonly texts: number;
  /** The spellings of all texts, each with the index of its text. */
  readonly needles: readonly { readonly bytes: Buffer; readonly index: number }[];
  /** No shorter run of base64 digits can hold one of the texts. */
  readonly min_run: number;
  /** No shorter run of hex digits can hold one of the texts. */
  readonly min_hex: number;
  /** Indexed by byte: 1 if the byte may be part of a spelling, encoded or not. */
  readonly may_stand: Uint8Array;
  /** No spelling is shorter. */
  readonly min_bytes: number;
  /** A byte that is part of no spelling; -1 when there is none. */
  readonly barrier: number;
}

/** A search under way, with the indexes of the texts that it has found. */
interface Progress {
  readonly search: Search;
  readonly found: Set<number>;
}

/** Adds to `found` the texts that `all` holds; true once every text is found. */
function markHeld(all: Buffer, progress: Progress, depth: number, is_escaped = true): boolean {
  const { search, found } = progress;
  const bytes = sieved(all, search) ?? all;
  for (const needle of search.needles) {
    if (!found.has(needle.index) && bytes.includes(needle.bytes)) found.add(needle.index);
  }
  if (found.size === search.texts) return true;
  if (depth === 0) return false;
  const undone = is_escaped ? unescaped(bytes) : null;
  if (undone !== null && markHeld(undone.plain, progress, depth - 1, undone.nested)) return true;
  const backwards = depth === DEPTH ? unescaped(Buffer.from(bytes).reverse()) : null;
  if (backwards !== null && markHeld(backwards.plain, progress, depth - 1, backwards.nested)) return true;
  for (const decoded of decodedRuns(bytes, search)) if (markHeld(decoded, progress, depth - 1)) return true;
  return false;
}

/**
 * The spans of `bytes` that can hold a searched text: long enough, and only of bytes that a spelling may contain. A
 * page has few of them, because words are short.
 *
 * Returns null when the spans exceed `max_bytes`, or when every byte can be part of a spelling.
 */
export function sieved(
  bytes: Buffer,
  { may_stand, min_bytes, barrier }: Search,
  max_bytes: number = bytes.length,
): Buffer | null {
  if (barrier === -1) return null;
  let kept = NOTHING;
  let to = 0;
  const is_whole = forEachSpan(bytes, { is_part: may_stand, min_bytes }, (start, end) => {
    if (to + end - start > max_bytes) return false;
    if (to === 0) kept = Buffer.allocUnsafe(Math.min(bytes.length - start, 2 * max_bytes) + 1);
    to += bytes.copy(kept, to, start, end);
    kept[to++] = barrier;
    return true;
  });
  return is_whole ? kept.subarray(0, to) : null;
}

const NOTHING = Buffer.alloc(0);

const [LINE_FEED, CARRIAGE_RETURN] = [0x0a, 0x0d];
const LETTERS_AND_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/** Includes line breaks, because digits may span several lines. */
const HEX_DIGITS = tableOf("0123456789abcdefABCDEF\r\n");
const BASE64_DIGITS = tableOf(`${LETTERS_AND_DIGITS}+/-_\r\n`);
/** The characters of escapes and of encoded digits. */
const MAY_ENCODE = tableOf(`${LETTERS_AND_DIGITS}+/-_\r\n${ESCAPE_CHARACTERS}`);

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of Buffer.from(characters)) table[byte] = 1;
  return table;
}

const BASE64 = { coding: "base64", filler: "A", group: 4 } as const;
const HEX = { coding: "hex", filler: "0", group: 2 } as const;

/** Decodes the runs of base64 and hex digits that are long enough, forwards and backwards. */
function* decodedRuns(bytes: Buffer, { min_run, min_hex }: Search): Generator<Buffer> {
  for (const { coding, filler, group, ...runs } of [
    { ...BASE64, is_digit: BASE64_DIGITS, min_run },
    { ...HEX, is_digit: HEX_DIGITS, min_run: min_hex },
  ]) {
    const digits = joinedRuns(bytes, { ...runs, filler: filler.charCodeAt(0), group });
    if (digits === null) continue;
    const backwards = Buffer.from(digits).reverse();
    // The bytes before the encoded text may be digits too, so decoding starts at each position of a group.
    for (let from = 0; from < group; from += 1) {
      yield Buffer.from(digits.toString("latin1", from), coding);
      yield Buffer.from(backwards.toString("latin1", from), coding);
    }
  }
}

/** Joins the digits of the runs. Fillers align each run to the beginning of a group; null when there is no run. */
function joinedRuns(
  bytes: Buffer,
  { is_digit, min_run, filler, group }: { is_digit: Uint8Array; min_run: number; filler: number; group: number },
): Buffer | null {
  let joined: Buffer | null = null;
  let to = 0;
  forEachSpan(bytes, { is_part: is_digit, min_bytes: min_run }, (start, end) => {
    // No run is shorter than its fillers.
    joined ??= Buffer.allocUnsafe(2 * (bytes.length - start) + 2 * group);
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (byte !== LINE_FEED && byte !== CARRIAGE_RETURN) joined[to++] = byte;
    }
    const next = to + group + ((group - (to % group)) % group);
    joined.fill(filler, to, next);
    to = next;
    return true;
  });
  return (joined as Buffer | null)?.subarray(0, to) ?? null;
}

/**
 * Visits each maximal span of at least `min_bytes` bytes that are all `is_part`. Returns false as soon as `visit` does.
 *
 * Checks only every `min_bytes`th byte, because each span that is long enough contains one of them.
 */
function forEachSpan(
  bytes: Buffer,
  { is_part, min_bytes }: { is_part: Uint8Array; min_bytes: number },
  visit: (start: number, end: number) => boolean,
): boolean {
  let from = 0;
  for (let at = min_bytes - 1; at < bytes.length; at += min_bytes) {
    if (is_part[bytes[at] as number] !== 1) continue;
    let start = at;
    while (start > from && is_part[bytes[start - 1] as number] === 1) start -= 1;
    let end = at + 1;
    while (end < bytes.length && is_part[bytes[end] as number] === 1) end += 1;
    if (end - start >= min_bytes && !visit(start, end)) return false;
    from = end;
    at = end;
  }
  return true;
}
