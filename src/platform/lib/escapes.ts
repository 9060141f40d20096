/**
 * The escapes in which services write characters with a special meaning: `%41`, `\\u0041`, `\\x41`, `&#65;`, `&amp;`
 * and similar ones.
 */

const [PERCENT, HASH, SEMICOLON, LETTER_U, LETTER_X] = [0x25, 0x23, 0x3b, 0x75, 0x78];
export const BACKSLASH = 0x5c;
/** Characters of escapes, besides letters, digits, and the characters after a backslash. */
export const ESCAPE_CHARACTERS = "%&\\#;{}";
const [OPENING, CLOSING] = [0x7b, 0x7d];
const IS_ESCAPE = new Uint8Array(256);
for (const byte of [PERCENT, 0x26, BACKSLASH]) IS_ESCAPE[byte] = 1;

/**
 * The end and the code point of the current escape. Reused, because a new object per escape would cost more than all
 * other work.
 */
const found = { end: 0, code: 0 };

/**
 * Undoes one level of URL, JSON and HTML escapes in `bytes`; null when there is none. `nested`: the result may hold
 * more escapes.
 */
export function unescaped(bytes: Buffer): { plain: Buffer; nested: boolean } | null {
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

/** Whether the escape character `code` may begin an escape, after the bytes from `at` on are unescaped. */
function mayBegin(code: number, bytes: Buffer, at: number): boolean {
  if (IS_ESCAPE[bytes[at] ?? 0] === 1) return true;
  if (code === PERCENT) return digitOf(bytes[at]) >= 0;
  if (code === BACKSLASH) return true;
  return bytes[at] === HASH || nameEnd(bytes, at, true) > 0;
}

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

/** Characters that programs escape with a backslash. */
export const QUOTED = new Set(Buffer.from(`"'\`\\/$=+-.:,;!?*()[]{}<>|~^#@ `));

/** Reads up to `most` hex digits from `at` into `found`; returns how many it read. */
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

/** The first number above all code points. */
const BEYOND = 0x110000;
/** Maximum number of digits in a numeric escape. Pages may write leading zeros. */
const NUMBER_DIGITS = 40;

/** Reads `\u{41}`; `at` is the position of the opening brace. */
function bracedUnit(bytes: Buffer, at: number): boolean {
  if (bytes[at] !== OPENING || hexadecimal(bytes, at + 1, NUMBER_DIGITS) === 0) return false;
  const is_closed = bytes[found.end] === CLOSING;
  found.end += 1;
  return is_closed && found.code < BEYOND;
}

/** Reads `&#65;` or `&#x41;`; `at` is the position after the hash. */
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

/** Reads `&amp;`; `at` is the position after the ampersand. */
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

/**
 * The position of the semicolon after the name that begins at `at`; 0 when there is none. With `or_escape`, an escape
 * character also ends the name.
 */
function nameEnd(bytes: Buffer, at: number, or_escape = false): number {
  for (let end = at; end <= at + NAME_CHARACTERS && end < bytes.length; end += 1) {
    if (bytes[end] === SEMICOLON || (or_escape && IS_ESCAPE[bytes[end] ?? 0] === 1)) return end === at ? 0 : end;
    const letter = (bytes[end] ?? 0) | 0x20;
    if (letter < 0x61 || letter > 0x7a) return 0;
  }
  return 0;
}

/** HTML's names of the characters that occur in credentials. */
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
