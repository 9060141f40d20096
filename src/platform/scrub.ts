import type { SecretValue } from "./secret-value.ts";

/**
 * Whether what came back from outside holds a secret, plainly or in the ways in which services echo what they were
 * sent: URL-, JSON- and HTML-escaped, hex, base64 and base64url at any alignment, reversed, UTF-16, and one of these
 * within another. Nothing of an answer that does is used, so there is nothing to cut out, and no count of matches to
 * exhaust.
 */

/** Shorter values stand in pages by chance. */
export const SCRUBBED_CHARACTERS = 8;
/** An encoding, and another within it. */
const DEPTH = 2;
/** Of a longer value, passages out of its middle tell it: its beginning and its end may be any key file's. */
const WHOLE_CHARACTERS = 200;
const PASSAGE_CHARACTERS = 48;
/** What stands before the part that matters: `Bearer abc`, `whsec_abc`. */
const SCHEME = /^(?:[A-Za-z]{3,10} +|whsec_)(?=.{8})/s;

/** Whether `holdsSecret` can tell the value. */
export function isScrubbed(value: SecretValue): boolean {
  return value.reveal().trim().length >= SCRUBBED_CHARACTERS;
}

/** Whether `bytes` hold `value`; a value that is too short for it is held by nothing. Linear in the bytes. */
export function holdsSecret(bytes: Buffer, value: SecretValue): boolean {
  if (!isScrubbed(value)) return false;
  const told = value.reveal().trim().replace(SCHEME, "");
  const needles = passagesOf(told).flatMap(spellingsOf);
  const shortest_bytes = Math.min(...passagesOf(told).map((passage) => Buffer.byteLength(passage)));
  // of the first and the last character of base64 a part may belong to what stands beside
  const min_run = Math.floor((shortest_bytes * 8) / 6) - 2;
  return holds(bytes, { needles, min_run }, DEPTH);
}

function passagesOf(value: string): string[] {
  if (value.length <= WHOLE_CHARACTERS) return [value];
  return [1, 2, 3].map((quarter) => {
    const from = Math.floor((value.length * quarter) / 4) - PASSAGE_CHARACTERS / 2;
    return value.slice(from, from + PASSAGE_CHARACTERS).toWellFormed();
  });
}

/** The spellings that are not told by decoding. */
function spellingsOf(text: string): Buffer[] {
  const reversed = [...text].reverse().join("");
  // Forms write a plus for a space.
  const texts = new Set([text, reversed].flatMap((each) => [each, each.replaceAll(" ", "+")]));
  // Without its last byte, UTF-16's spelling is found in either byte order.
  return [...[...texts].map((each) => Buffer.from(each)), Buffer.from(text, "utf16le").subarray(0, -1)];
}

interface Wanted {
  readonly needles: readonly Buffer[];
  /** No shorter run of base64 or hex digits can hold the value. */
  readonly min_run: number;
}

function holds(bytes: Buffer, wanted: Wanted, depth: number, is_escaped = true): boolean {
  if (wanted.needles.some((needle) => bytes.includes(needle))) return true;
  if (depth === 0) return false;
  const undone = is_escaped ? unescaped(bytes) : null;
  if (undone !== null && holds(undone.plain, wanted, depth - 1, undone.nested)) return true;
  const backwards = depth === DEPTH ? unescaped(Buffer.from(bytes).reverse()) : null;
  if (backwards !== null && holds(backwards.plain, wanted, depth - 1, backwards.nested)) return true;
  const decoded = decodedRuns(bytes, wanted.min_run);
  return decoded !== null && holds(decoded, wanted, depth - 1);
}

const [PERCENT, BACKSLASH] = [0x25, 0x5c];
const IS_ESCAPE = tableOf("%&\\");
const IS_RUN = tableOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_\r\n");

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of Buffer.from(characters)) table[byte] = 1;
  return table;
}

/** Reused for every escape: where it ends and what it stands for. Objects made for each would cost more than the rest. */
const found = { end: 0, code: 0 };

/** One level of URL, JSON and HTML escapes undone; null when there is none. `nested`: of what came out, some are escapes. */
function unescaped(bytes: Buffer): { plain: Buffer; nested: boolean } | null {
  const plain = Buffer.allocUnsafe(bytes.length);
  let [from, to] = [0, 0];
  let nested = false;
  for (let at = nextEscape(bytes, 0); at < bytes.length; at = nextEscape(bytes, at)) {
    if (!findEscape(bytes, at)) {
      nested ||= mayBegin(bytes[at] ?? 0, bytes, at + 1);
      at += 1;
      continue;
    }
    const { end, code } = found;
    if (at > from) to += bytes.copy(plain, to, from, at);
    if (code < 0x80 || bytes[at] === PERCENT) plain[to++] = code;
    else to += plain.write(String.fromCodePoint(code), to);
    nested ||= IS_ESCAPE[code] === 1 && mayBegin(code, bytes, end);
    at = end;
    from = end;
  }
  if (from === 0) return null;
  to += bytes.copy(plain, to, from);
  return { plain: plain.subarray(0, to), nested };
}

function nextEscape(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && IS_ESCAPE[bytes[at] as number] === 0) at += 1;
  return at;
}

/** Whether the escape character `code` begins an escape once what follows from `at` has been unescaped. */
function mayBegin(code: number, bytes: Buffer, at: number): boolean {
  if (IS_ESCAPE[bytes[at] ?? 0] === 1) return true;
  if (code === PERCENT) return digitOf(bytes[at]) >= 0;
  if (code === BACKSLASH) return true;
  return bytes[at] === HASH || nameEnd(bytes, at, true) > 0;
}

const [HASH, LETTER_U, LETTER_X, SEMICOLON, BRACE] = [0x23, 0x75, 0x78, 0x3b, 0x7b];

/** Reads the escape at `at` into `found`; false when there is none. */
function findEscape(bytes: Buffer, at: number): boolean {
  if (bytes[at] === PERCENT) return hexadecimal(bytes, at + 1, 2) === 2;
  const next = bytes[at + 1] ?? 0;
  if (bytes[at] === BACKSLASH) {
    if (next === LETTER_X) return hexadecimal(bytes, at + 2, 2) === 2;
    if (next === LETTER_U) return hexadecimal(bytes, at + 2, 4) === 4 || bracedUnit(bytes, at + 2);
    const code = CONTROLS.get(next) ?? (QUOTED.has(next) ? next : undefined);
    if (code === undefined) return false;
    found.code = code;
    found.end = at + 2;
    return true;
  }
  return next === HASH ? numbered(bytes, at + 2) : named(bytes, at + 1);
}

const CONTROLS = new Map(
  [..."nrtbfv0"].map((letter, index) => [letter.charCodeAt(0), [10, 13, 9, 8, 12, 11, 0][index]]),
);

/** What programs put a backslash before. */
const QUOTED = new Set(Buffer.from(`"'\`\\/$=+-.:,;!?*()[]{}<>|~^#@ `));

/** Reads up to `most` hex digits from `at`; how many there were. */
function hexadecimal(bytes: Buffer, at: number, most: number): number {
  let code = 0;
  let end = at;
  for (; end < at + most; end += 1) {
    const digit = digitOf(bytes[end]);
    if (digit < 0) break;
    code = Math.min(code * 16 + digit, BEYOND);
  }
  found.code = code;
  found.end = end;
  return end - at;
}

/** No character has a code point from here up. */
const BEYOND = 0x110000;
/** Zeros in front of a number that a page may write. */
const NUMBER_DIGITS = 40;

/** `\u{41}` */
function bracedUnit(bytes: Buffer, at: number): boolean {
  const is_read = bytes[at] === BRACE && hexadecimal(bytes, at + 1, NUMBER_DIGITS) > 0 && found.code < BEYOND;
  found.end += 1;
  return is_read;
}

/** `&#65;`, `&#x41;`: from after the hash. */
function numbered(bytes: Buffer, at: number): boolean {
  const is_hex = ((bytes[at] ?? 0) | 0x20) === LETTER_X;
  if (is_hex) {
    if (hexadecimal(bytes, at + 1, NUMBER_DIGITS) === 0) return false;
  } else {
    let [code, end] = [0, at];
    for (; end < at + NUMBER_DIGITS && isDecimal(bytes[end]); end += 1) {
      code = Math.min(code * 10 + digitOf(bytes[end]), BEYOND);
    }
    if (end === at) return false;
    found.code = code;
    found.end = end;
  }
  if (bytes[found.end] === SEMICOLON) found.end += 1;
  return found.code < BEYOND;
}

/** `&amp;`: from after the ampersand. */
function named(bytes: Buffer, at: number): boolean {
  const end = nameEnd(bytes, at);
  if (end === 0) return false;
  const code = NAMED.get(bytes.toString("latin1", at, end).toLowerCase());
  if (code === undefined) return false;
  found.code = code;
  found.end = end + 1;
  return true;
}

const NAME_CHARACTERS = 8;

/** Where the name that begins at `at` has its semicolon, or, where one may be, its escape; 0: it has none. */
function nameEnd(bytes: Buffer, at: number, or_escape = false): number {
  for (let end = at; end <= at + NAME_CHARACTERS && end < bytes.length; end += 1) {
    if (bytes[end] === SEMICOLON || (or_escape && IS_ESCAPE[bytes[end] ?? 0] === 1)) return end === at ? 0 : end;
    const letter = (bytes[end] ?? 0) | 0x20;
    if (letter < 0x61 || letter > 0x7a) return 0;
  }
  return 0;
}

/** HTML's names of the characters that stand in credentials. */
const NAMED = new Map(
  Object.entries({
    amp: "&",
    lt: "<",
    gt: ">",
    quot: '"',
    apos: "'",
    excl: "!",
    num: "#",
    dollar: "$",
    percnt: "%",
    lpar: "(",
    rpar: ")",
    ast: "*",
    plus: "+",
    comma: ",",
    period: ".",
    sol: "/",
    colon: ":",
    semi: ";",
    equals: "=",
    quest: "?",
    commat: "@",
    lsqb: "[",
    lbrack: "[",
    bsol: "\\",
    rsqb: "]",
    rbrack: "]",
    hat: "^",
    lowbar: "_",
    grave: "`",
    lcub: "{",
    lbrace: "{",
    verbar: "|",
    vert: "|",
    rcub: "}",
    rbrace: "}",
    tab: "\t",
    newline: "\n",
  }).map(([name, character]) => [name, character.charCodeAt(0)]),
);

function isDecimal(byte = 0): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function digitOf(byte = 0): number {
  if (isDecimal(byte)) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** What the runs of base64 and hex digits say that are long enough, forwards and backwards; null when there are none. */
function decodedRuns(bytes: Buffer, min_run: number): Buffer | null {
  const decoded: Buffer[] = [];
  for (const run of runsOf(bytes, min_run)) {
    const digits = run.replaceAll(/[\r\n]+/g, "");
    decoded.push(...readings(digits), ...readings(Buffer.from(digits, "latin1").reverse().toString("latin1")));
  }
  if (decoded.length === 0) return null;
  return Buffer.concat(decoded.flatMap((each) => [each, SEPARATOR]));
}

const SEPARATOR = Buffer.from([0]);

/** Every `min_run`th byte is looked at: a run that is long enough has one of them. */
function* runsOf(bytes: Buffer, min_run: number): Generator<string> {
  let from = 0;
  for (let at = min_run - 1; at < bytes.length; at += min_run) {
    if (IS_RUN[bytes[at] ?? 0] !== 1) continue;
    let start = at;
    while (start > from && IS_RUN[bytes[start - 1] ?? 0] === 1) start -= 1;
    let end = at + 1;
    while (end < bytes.length && IS_RUN[bytes[end] ?? 0] === 1) end += 1;
    if (end - start >= min_run) yield bytes.toString("latin1", start, end);
    from = end;
    at = end;
  }
}

/** What stands before the encoded text may be digits as well: the encoding begins at any of them. */
function readings(text: string): Buffer[] {
  const base64 = [0, 1, 2, 3].map((from) => Buffer.from(text.slice(from), "base64"));
  const hex = [...text.matchAll(/[0-9a-f]{16,}/gi)].flatMap(([run]) =>
    [0, 1].map((from) => Buffer.from(run.slice(from), "hex")),
  );
  return [...base64, ...hex.flatMap((each) => [each, SEPARATOR])];
}
