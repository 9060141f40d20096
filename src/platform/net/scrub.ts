import type { SecretValue } from "../lib/secret-value.ts";

/**
 * Whether an answer from outside holds a secret, in plain text or as servers repeat their input: URL-, JSON- and
 * HTML-escaped, hex, base64 and base64url in any position, and one of these within another.
 *
 * An answer that holds a secret is discarded as a whole.
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
  return isScrubbed(value) && findHeld(bytes, [searchedText(value)]).has(0);
}

/** The part of a value that answers are searched for. It is as secret as the value. */
export function searchedText(value: SecretValue): string {
  return value.reveal().trim().replace(SCHEME, "");
}

/** The indexes of the `texts` that `bytes` hold. Linear in the bytes. */
export function findHeld(bytes: Buffer, texts: readonly string[]): Set<number> {
  const needles = texts.map((text) => selectPassages(text).flatMap(listSpellings));
  const found = new Set<number>();
  const search = (text: string, depth: number): void => {
    for (const [index, spellings] of needles.entries()) {
      if (spellings.some((spelling) => text.includes(spelling))) found.add(index);
    }
    if (depth === 0) return;
    for (const decoded of decodings(text)) search(decoded, depth - 1);
  };
  // Each byte is one character, so that bytes of any charset pass unchanged.
  search(bytes.toString("latin1"), DEPTH);
  return found;
}

function selectPassages(value: string): string[] {
  if (value.length <= WHOLE_CHARACTERS) return [value];
  return [1, 2, 3].map((quarter) => {
    const from = Math.floor((value.length * quarter - 2 * PASSAGE_CHARACTERS) / 4);
    // Servers change the form of line breaks, so a passage has none.
    const lines = value.slice(from, from + PASSAGE_CHARACTERS).split(/\r?\n/);
    return lines.reduce((longest, line) => (line.length > longest.length ? line : longest));
  });
}

/** The spellings of a text that decoding does not reveal, each byte as one character. */
function listSpellings(text: string): string[] {
  const unix = text.replaceAll("\r\n", "\n");
  // HTML forms write two characters for a line break, and a plus for a space.
  const breaks = [unix, unix.replaceAll("\n", "\r\n")];
  const texts = new Set(breaks.flatMap((each) => [each, each.replaceAll(" ", "+")]));
  return [...texts].flatMap((each) => {
    const once = latin1Of(each);
    // A server may read a header as latin1 and answer its text in UTF-8: "Ã¼" for "ü".
    return once === each ? [once] : [once, latin1Of(once)];
  });
}

function latin1Of(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** The text with one encoding undone, for each encoding that it has. */
function* decodings(text: string): Generator<string> {
  for (const decode of [decodePercents, decodeBackslashes, decodeEntities]) {
    const decoded = decode(text);
    if (decoded !== text) yield decoded;
  }
  yield* decodeRuns(text, BASE64);
  yield* decodeRuns(text, HEX);
}

function decodePercents(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const CONTROLS: Record<string, string> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** Undoes the escapes of JSON. */
function decodeBackslashes(text: string): string {
  return text.replace(/\\u([0-9a-f]{4})|\\(["\\/bfnrt])/gi, (_, unit, character) =>
    unit === undefined ? (CONTROLS[character] ?? character) : latin1Of(String.fromCharCode(Number.parseInt(unit, 16))),
  );
}

const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** Undoes the escapes of HTML. */
function decodeEntities(text: string): string {
  return text.replace(/&(?:(amp|lt|gt|quot|apos)|#x0*([0-9a-f]{1,5})|#0*([0-9]{1,6}));/gi, (_, name, hex, decimal) =>
    name === undefined
      ? latin1Of(String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)))
      : (NAMED[name.toLowerCase()] ?? name),
  );
}

interface Digits {
  coding: "base64" | "hex";
  /** Digits that encode a whole number of bytes. */
  group: number;
  /** A run that can hold the shortest searched value. Digits may be in several lines. */
  run: RegExp;
}
const BASE64: Digits = { coding: "base64", group: 4, run: /(?<![\w+/\r\n-])[\w+/\r\n-]{11,}/g };
const HEX: Digits = { coding: "hex", group: 2, run: /(?<![0-9a-f\r\n])[0-9a-f\r\n]{16,}/gi };

/** Decodes the runs of digits from each position of a group, because the bytes before the value may be digits too. */
function* decodeRuns(text: string, { coding, group, run }: Digits): Generator<string> {
  const runs = text.match(run)?.map((digits) => digits.replaceAll(/[\r\n]/g, "")) ?? [];
  for (let from = 0; runs.length > 0 && from < group; from += 1) {
    yield runs.map((digits) => Buffer.from(digits.slice(from), coding).toString("latin1")).join("\0");
  }
}
