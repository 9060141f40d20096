/**
 * The hold for a text: more tokens than the measured tokenizers make of it, by script and kind of text, in one pass. A
 * tokenizer itself would be slow, and each family of models has its own. The measurements are in
 * docs/history/2026-11-28-holds-by-script.md.
 */

/** Costs are in eighths of a token. */
const TOKEN = 8;
const HALF = 4;
const [TAB, LINE_FEED, SPACE, ASCII] = [0x09, 0x0a, 0x20, 0x80];

/** Second letters that rarely follow the first one. Most tokenizers have no token for these pairs. */
const RARE_PAIRS =
  "a:q b:jkqvwxz c:jw d:gjq f:hjkqvz g:fjkmqvwx h:bgjkqvxz j:bcfghlmnpqrtvwxyz k:dfjpqxz l:fhkqwxz m:hjwz n:kqwz o:q p:jqz q:bcdefghijkmnorvwxyz r:jkq s:x t:jq u:q v:ghjknqwxz w:fgjkquvz x:ghjkmnoqruvwz y:bfhijquvwxz z:cfgjlpqrvx";

/**
 * Ranges of characters and their costs; others cost a token for each byte of UTF-8. Some cost more, because a tokenizer
 * decomposes them first.
 */
const RANGES: readonly (readonly [from: number, to: number, cost: number])[] = [
  [0x80, 0x7ff, 2 * TOKEN],
  [0x800, 0xffff, 3 * TOKEN],
  // Half of a surrogate pair: 4 bytes, less for emoji.
  [0xd800, 0xdfff, 2 * TOKEN],
  [0xd83c, 0xd83e, 9],
  // Latin.
  [0xa1, 0xbf, 12],
  [0xc0, 0xde, 14],
  [0xdf, 0xff, 8],
  [0x100, 0x17f, 11],
  [0x300, 0x36f, 18],
  [0x1ea0, 0x1ef9, 16],
  // Greek, Cyrillic, Armenian, Hebrew and Arabic letters.
  [0x3b1, 0x3c9, 11],
  [0x410, 0x42f, 11],
  [0x430, 0x44f, 8],
  [0x451, 0x45f, 14],
  [0x530, 0x58f, 17],
  [0x5d0, 0x5ea, 12],
  [0x621, 0x64a, 11],
  [0xfdf0, 0xfdff, 120],
  // Devanagari: the letters and signs of Hindi.
  ...[
    [0x901, 0x903],
    [0x905, 0x90b],
    [0x90f, 0x910],
    [0x913, 0x928],
    [0x92a, 0x930],
    [0x932, 0x933],
    [0x935, 0x939],
    [0x93e, 0x943],
    [0x947, 0x948],
    [0x94b, 0x94d],
  ].map(([from = 0, to = 0]) => [from, to, 14] as const),
  // Gurmukhi, Oriya, Thai, Lao and Tibetan.
  [0xa00, 0xa7f, 27],
  [0xb00, 0xb7f, 27],
  [0xe01, 0xe5b, 16],
  [0xe80, 0xfff, 27],
  // General punctuation, Japanese, full-width forms, squares.
  [0x2010, 0x2027, 14],
  [0x3001, 0x3002, 8],
  [0x300c, 0x300f, 12],
  [0x3041, 0x3093, 11],
  [0x30a1, 0x30fc, 12],
  [0x3200, 0x33ff, 40],
  ...[..."，！？：；（）"].map((mark) => [mark.charCodeAt(0), mark.charCodeAt(0), 10] as const),
];

/** The first levels of East Asian charsets have the characters that ordinary texts use; all others are rare. */
const COMMON: readonly (readonly [charset: string, from: number, to: number, cost: number])[] = [
  ["gbk", 0xb0a1, 0xd7f9, 19],
  ["shift_jis", 0x889f, 0x9872, 19],
  ["big5", 0xa440, 0xc67e, 19],
  ["euc-kr", 0xb0a1, 0xc8fe, 20],
];

/** The cost of each ASCII character after each other one; after any other character as after a line feed. */
const PAIRS = pairCosts();
/** The cost of each other UTF-16 unit. */
const UNITS = unitCosts();

/** The hold for one text. */
export function heldTextTokens(text: string): number {
  return Math.ceil(computeCost(text) / TOKEN);
}

/** The hold for all texts, names and numbers of a JSON value, and half a token for each character of its syntax. */
export function heldJsonTokens(value: unknown): number {
  return Math.ceil(costOfJson(value) / TOKEN);
}

function costOfJson(value: unknown): number {
  if (typeof value === "string") return 2 * HALF + computeCost(value);
  if (typeof value === "number") return TOKEN * String(value).length;
  if (typeof value !== "object" || value === null) return value === undefined ? 0 : 2 * TOKEN;
  let cost = 2 * HALF;
  if (Array.isArray(value)) for (const item of value) cost += HALF + costOfJson(item);
  else
    for (const [name, item] of Object.entries(value))
      if (item !== undefined) cost += costOfName(name) + costOfJson(item);
  return cost;
}

/** A name with its quotes, colon and comma. */
function costOfName(name: string): number {
  return 4 * HALF + computeCost(name);
}

function computeCost(text: string): number {
  let cost = 0;
  let before = SPACE;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit < ASCII) {
      cost += PAIRS[before * ASCII + unit] as number;
      before = unit;
    } else {
      // Many tokenizers join a space with a letter of ASCII only.
      cost += (UNITS[unit] as number) + (before === SPACE ? HALF : 0);
      before = LINE_FEED;
    }
  }
  return cost;
}

type Kind = "lower" | "upper" | "digit" | "space" | "control" | "mark";

function classifyUnit(unit: number): Kind {
  const char = String.fromCharCode(unit);
  if (/[a-z]/.test(char)) return "lower";
  if (/[A-Z]/.test(char)) return "upper";
  if (/\d/.test(char)) return "digit";
  if (unit === SPACE) return "space";
  return unit < SPACE || unit === ASCII - 1 ? "control" : "mark";
}

function pairCosts(): Uint8Array {
  const rare = new Set(
    RARE_PAIRS.split(" ").flatMap((row) => [...row.slice(2)].map((second) => row.charAt(0) + second)),
  );
  const costs = new Uint8Array(ASCII * ASCII);
  for (let before = 0; before < ASCII; before += 1) {
    for (let unit = 0; unit < ASCII; unit += 1) {
      const pair = String.fromCharCode(before, unit).toLowerCase();
      costs[before * ASCII + unit] = costOfPair(
        [before, classifyUnit(before)],
        [unit, classifyUnit(unit)],
        rare.has(pair),
      );
    }
  }
  return costs;
}

/** The cost of the second character. A word or a number needs a token at its beginning, but a space joins it. */
function costOfPair([before, first]: [number, Kind], [unit, second]: [number, Kind], is_rare: boolean): number {
  const is_letter = first === "lower" || first === "upper";
  switch (second) {
    case "space":
      return HALF;
    // Many tokenizers have a token for each digit, and none for a space with a digit.
    case "digit":
      return first === "space" ? TOKEN + HALF : TOKEN;
    case "lower":
    case "upper":
      if (first === "space") return HALF;
      if (!is_letter || is_rare) return TOKEN;
      if (first === "upper") return HALF + 1;
      return second === "lower" ? HALF : TOKEN;
    case "mark":
      if (before === unit) return HALF;
      return first === "mark" ? 7 : TOKEN;
    case "control":
      return before === unit && (unit === TAB || unit === LINE_FEED) ? HALF : TOKEN;
  }
}

function unitCosts(): Uint8Array {
  const costs = new Uint8Array(0x10000);
  for (const [from, to, cost] of RANGES) costs.fill(cost, from, to + 1);
  for (const [charset, from, to, cost] of COMMON) {
    const codes = Array.from({ length: to - from + 1 }, (_, nth) => [(from + nth) >> 8, (from + nth) & 0xff]);
    const text = new TextDecoder(charset).decode(Uint8Array.from(codes.flat()));
    for (const char of text.match(/[\u4e00-\u9fff\uac00-\ud7a3]/g) ?? []) costs[char.charCodeAt(0)] = cost;
  }
  return costs;
}
