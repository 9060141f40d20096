import { codeAt, LEET, LOOKALIKES, unframed } from "./letters.ts";

/**
 * The detection view of a text: one spelling for many disguised spellings. Only the cues read it; it never goes to a
 * model.
 */

const MIXED_WORD = /[\p{L}\p{N}@$]{2,40}/gu;
const FRAMED = /[\u20d0-\u20ff\u249c-\u24b5\ud83c]/;

/** Kinds of code unit for `lookAt`. Capitals are letters, because they become lower case. */
const UNIT = { plain: 0, letter: 1, leet: 2, space: 3, gap: 4, control: 5, foreign: 6, foreign_gap: 7 } as const;
const UNITS = units();
/** Facts about a text, found from pairs of code units. */
const SAID = { spaced: 1, masked: 2, not_ascii: 4 } as const;
const PAIRS = Uint8Array.from({ length: 64 }, (_said, pair) => saidBy(pair >> 3, pair & 7));

function units(): Uint8Array {
  const table = new Uint8Array(1 << 16).fill(UNIT.foreign, 0x80);
  table.fill(UNIT.control, 0, 0x20);
  table[0x7f] = UNIT.control;
  table.fill(UNIT.letter, 0x41, 0x5b).fill(UNIT.letter, 0x61, 0x7b);
  for (const leet of "013457@$") table[leet.charCodeAt(0)] = UNIT.leet;
  for (const gap of "\t\n\v\f\r") table[gap.charCodeAt(0)] = UNIT.gap;
  for (const gap of "\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") table[gap.charCodeAt(0)] = UNIT.foreign_gap;
  table.fill(UNIT.foreign_gap, 0x2000, 0x200b);
  table[0x20] = UNIT.space;
  return table;
}

function saidBy(first: number, second: number): number {
  const isMask = (unit: number) => unit === UNIT.leet || unit === UNIT.foreign;
  const isMasked = (first === UNIT.letter && isMask(second)) || (second === UNIT.letter && isMask(first));
  const isGap = second === UNIT.gap || second === UNIT.foreign_gap;
  return (
    (isGap || (first === UNIT.space && second === UNIT.space) ? SAID.spaced : 0) |
    (isMasked ? SAID.masked : 0) |
    (second >= UNIT.control ? SAID.not_ascii : 0)
  );
}

/** Checks all facts in one pass. Most texts need only lower case. */
function lookAt(text: string): number {
  let said = 0;
  let before: number = UNIT.plain;
  const { length } = text;
  for (let at = 0; at < length; at++) {
    const unit = UNITS[codeAt(text, at)] as number;
    said |= PAIRS[(before << 3) | unit] as number;
    before = unit;
  }
  return said;
}

/**
 * Folds a text: lower case, compatibility forms, no accents on Latin letters. Within mixed words, look-alikes and leet
 * become Latin letters.
 */
export function fold(text: string): string {
  let said = lookAt(text);
  let plain = text;
  if ((said & SAID.not_ascii) === 0) plain = text.toLowerCase();
  else {
    plain = composed(text);
    said = lookAt(plain);
  }
  if ((said & SAID.spaced) !== 0) plain = plain.replace(/\s+/g, " ");
  if ((said & SAID.masked) === 0) return plain;
  return plain.replace(MIXED_WORD, (word) => (/[a-z]/.test(word) && /[^a-z]/.test(word) ? unmasked(word) : word));
}

/** Accented Latin letters and common punctuation. Each folds alone, independent of its neighbours. */
const SIMPLE = /[\u0080-\u024f\u2010-\u205e]/g;
/** Any other character, except Chinese and Japanese ones, which stay as they are. */
const NOT_SIMPLE = /[^\0-\u024f\u2010-\u205e\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff]/;
const simple = new Map<string, string>();

function composed(text: string): string {
  if (NOT_SIMPLE.test(text)) return composedWhole(text);
  return text.replace(SIMPLE, composedChar).toLowerCase();
}

function composedChar(char: string): string {
  const known = simple.get(char);
  if (known !== undefined) return known;
  const form = composedWhole(char);
  simple.set(char, form);
  return form;
}

function composedWhole(text: string): string {
  return (
    (FRAMED.test(text) ? unframed(text) : text)
      // Compatibility forms expand these characters to 18 or 8 characters, which would let a text grow as much.
      .replace(/[\ufdfa\ufdfb]/g, " ")
      .normalize("NFKD")
      .replace(/[\u0300-\u036f]/g, "")
      .normalize("NFC")
      .toLowerCase()
      .replace(/[\u2018\u2019\u02bc]/g, "'")
      .replace(/[\u201c\u201d\u00ab\u00bb]/g, '"')
  );
}

function unmasked(word: string): string {
  const latin = word.replace(/[\u0080-\uffff]/g, (char) => LOOKALIKES.get(char) ?? char);
  // Only digits between letters: 2024, 3d and v1 stay.
  return latin.replace(/(?<=[a-z])[013457@$]+(?=[a-z])|^[013457@$](?=[a-z]{2})/g, (run) =>
    Array.from(run, (char) => LEET[char] ?? char).join(""),
  );
}
