import { fillWhere } from "./letters.ts";

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
/** A word without a cluster counts by its first letters, which inflection changes least. */
const STEM_LENGTH = 5;

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
const tokens = { words: new Int32Array(1 << 10), stems: new Int32Array(1 << 10), count: 0 };

/**
 * Reads the tokens of a folded text: the hash of each, and the hash of its first letters if it is a word. The next call
 * overwrites the result.
 */
export function tokensOf(folded: string): Readonly<typeof tokens> {
  const text = plain(folded);
  if (tokens.words.length < text.length) {
    tokens.words = new Int32Array(text.length * 2);
    tokens.stems = new Int32Array(text.length * 2);
  }
  tokens.count = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    const unit = unitAt(text, at, code);
    if (unit >= UNIT.letter) at = readWord(text, at);
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
    while (start > copied && at - start < MAX_MAILBOX && IS_MAILBOX[text.charCodeAt(start - 1)] === 1) start--;
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
function readWord(text: string, start: number): number {
  let hash = BASIS;
  let stem = BASIS;
  let isUnspaced = false;
  let at = start;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const unit = unitAt(text, at, code);
    if (unit < UNIT.letter) break;
    if (unit === UNIT.unspaced) isUnspaced = true;
    hash = hashed(hash, code);
    if (at - start < STEM_LENGTH) stem = hash;
  }
  if (isUnspaced) for (const char of text.slice(start, at)) put(hashOf(char), hashOf(char));
  else put(hash, stem);
  return at;
}

/** Gives all numbers the same hash. @returns the end of the number */
function readNumber(text: string, start: number): number {
  let at = start + 1;
  while (UNITS[text.charCodeAt(at)] === UNIT.digit) at++;
  put(NUMBER, NO_WORD);
  return at;
}

function put(word: number, stem: number): void {
  tokens.words[tokens.count] = word;
  tokens.stems[tokens.count] = stem;
  tokens.count++;
}

const BASIS = 0x811c9dc5 | 0;

/** Extends a hash by one code unit. */
export function hashed(hash: number, code: number): number {
  return Math.imul(hash ^ code, 0x01000193);
}

/** The 32-bit hash of a text. */
export function hashOf(text: string): number {
  let hash = BASIS;
  for (let at = 0; at < text.length; at++) hash = hashed(hash, text.charCodeAt(at));
  return hash;
}

const NUMBER = hashOf("0");
