import { codeAt, fillWhere } from "./letters.ts";
import {
  ENTRY,
  hashed,
  hashOf,
  kindsOf,
  type Lexicon,
  LONGEST_UNSPACED,
  type Meaning,
  STEM_LENGTH,
} from "./lexicon.ts";

/** The words, numbers and signs of a folded text as hashes, read in one pass without creating strings. */

const ADDRESS = /https?:\/\/\S+|\bwww\.\S+/g;
/** Characters allowed before the `@` of a mail address, and after it. */
const IS_MAILBOX = new Uint8Array(1 << 16);
fillWhere(IS_MAILBOX, /[\w.+-]+/g, 1);
const MAX_MAILBOX = 40;
const MAIL_HOST = /[\w-]{1,40}\.\w[\w.]{1,30}/y;
const SIGNS = '!?:"{}<>#*=[]()';
/** Scripts with short words or without spaces. Each character is a token. */
const UNSPACED = /(?:(?=[\p{L}\p{M}])[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])+/gu;
const LETTERS = /[\p{L}\p{M}]+/gu;
const LETTER = /^[\p{L}\p{M}]/u;
/** The shortest beginning of a word that is looked up as a stem. */
const MIN_STEM = 3;

/** Kinds of code unit. From LETTER_FROM up it is part of a word. */
const UNIT = { other: 0, sign: 1, digit: 2, surrogate: 3, letter: 4, unspaced: 5 } as const;
const UNITS = units();

function units(): Uint8Array {
  const table = new Uint8Array(1 << 16);
  fillWhere(table, LETTERS, UNIT.letter);
  fillWhere(table, UNSPACED, UNIT.unspaced);
  table.fill(UNIT.surrogate, 0xd800, 0xe000);
  table.fill(UNIT.digit, 48, 58);
  for (const sign of SIGNS) table[sign.charCodeAt(0)] = UNIT.sign;
  return table;
}

/** The entry in `stems` for a token that is not a word. */
export const NO_WORD = 0;

/** The tokens of the last text, in a buffer that the next call overwrites. */
const tokens = {
  words: new Int32Array(1 << 10),
  stems: new Int32Array(1 << 10),
  /** The English word with the meaning of a foreign one. */
  meanings: [] as (Meaning | undefined)[],
  count: 0,
};

/**
 * Reads the tokens of a folded text: the hash of each, and the hash of its first letters if it is a word. The next call
 * overwrites the result.
 */
export function tokensOf(folded: string, lexicon: Lexicon): Readonly<typeof tokens> {
  const text = plain(folded);
  if (tokens.words.length < text.length) {
    tokens.words = new Int32Array(text.length * 2);
    tokens.stems = new Int32Array(text.length * 2);
  }
  tokens.count = 0;
  const { length } = text;
  for (let at = 0; at < length; ) {
    const code = codeAt(text, at);
    const unit = unitAt(text, at, code);
    if (unit >= UNIT.letter) at = readWord(text, at, lexicon);
    else if (unit === UNIT.digit) at = readNumber(text, at);
    else {
      if (unit === UNIT.sign) put(hashed(BASIS, code), NO_WORD);
      at++;
    }
  }
  return tokens;
}

function plain(folded: string): string {
  const text = /:\/\/|www\./.test(folded) ? folded.replace(ADDRESS, " xaddress ") : folded;
  return text.includes("@") ? withoutMails(text) : text;
}

/** Searches from each `@`, because a pattern over the whole text would reread a mailbox from each of its letters. */
function withoutMails(text: string): string {
  let plain = "";
  let copied = 0;
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    let start = at;
    while (start > copied && at - start < MAX_MAILBOX && IS_MAILBOX[codeAt(text, start - 1)] === 1) start--;
    MAIL_HOST.lastIndex = at + 1;
    if (start === at || !MAIL_HOST.test(text)) continue;
    plain += `${text.slice(copied, start)} xmail `;
    copied = MAIL_HOST.lastIndex;
    at = copied - 1;
  }
  return copied === 0 ? text : plain + text.slice(copied);
}

function unitAt(text: string, at: number, code: number): number {
  const unit = UNITS[code] as number;
  if (unit !== UNIT.surrogate) return unit;
  const whole = text.codePointAt(code >= 0xdc00 && at > 0 ? at - 1 : at) as number;
  return whole > 0xffff && LETTER.test(String.fromCodePoint(whole)) ? UNIT.letter : UNIT.other;
}

/** @returns the end of the word */
function readWord(text: string, start: number, lexicon: Lexicon): number {
  let hash = BASIS;
  let stem = BASIS;
  let isUnspaced = false;
  let meaning: Meaning | undefined;
  let at = start;
  const { length } = text;
  for (; at < length; at++) {
    const code = codeAt(text, at);
    const unit = unitAt(text, at, code);
    if (unit < UNIT.letter) break;
    if (unit === UNIT.unspaced) isUnspaced = true;
    hash = hashed(hash, code);
    if (at - start < STEM_LENGTH) stem = hash;
    if (at - start >= MIN_STEM - 1 && (kindsOf(lexicon, hash) & ENTRY.stem) !== 0)
      meaning = lexicon.stems.get(hash) ?? meaning;
  }
  if (isUnspaced) readUnspaced(text.slice(start, at), lexicon);
  else put(hash, stem, (kindsOf(lexicon, hash) & ENTRY.word) === 0 ? meaning : (lexicon.words.get(hash) ?? meaning));
  return at;
}

/** Each character is a token, but the longest known word at a place is one token. */
function readUnspaced(run: string, lexicon: Lexicon): void {
  for (let at = 0; at < run.length; ) {
    let end = at + ((run.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
    const first = hashOf(run.slice(at, end));
    let meaning: Meaning | undefined;
    let hash = BASIS;
    for (let to = at; to < run.length && to - at < LONGEST_UNSPACED; to++) {
      hash = hashed(hash, codeAt(run, to));
      if ((kindsOf(lexicon, hash) & ENTRY.word) === 0) continue;
      const known = lexicon.words.get(hash);
      if (known === undefined) continue;
      meaning = known;
      end = to + 1;
    }
    put(first, first, meaning);
    at = end;
  }
}

/** Gives all numbers the same hash. @returns the end of the number */
function readNumber(text: string, start: number): number {
  let at = start + 1;
  while (UNITS[codeAt(text, at)] === UNIT.digit) at++;
  put(NUMBER, NO_WORD);
  return at;
}

function put(word: number, stem: number, meaning?: Meaning): void {
  tokens.words[tokens.count] = word;
  tokens.stems[tokens.count] = stem;
  tokens.meanings[tokens.count] = meaning;
  tokens.count++;
}

const BASIS = hashOf("");
const NUMBER = hashOf("0");
