import { codeAt } from "./letters.ts";
import { ORDER_WORDS } from "./order-words.ts";

/** Decodes texts in a shifted or reversed alphabet. */

const LETTERS = 26;
const A = 97;
/** The number of words that are read to find the alphabet. */
const MAX_WORDS = 40;

/** Order words by the distances between their letters, which a shift does not change. */
const byIntervals = new Map<string, number[]>();
for (const word of ORDER_WORDS.keys()) {
  const intervals = intervalsOf(word, 1);
  byIntervals.set(intervals, [...(byIntervals.get(intervals) ?? []), word.charCodeAt(0) - A]);
}

/** @param direction -1 for the reversed alphabet */
function intervalsOf(word: string, direction: 1 | -1): string {
  let intervals = "";
  for (let at = 1; at < word.length; at++) {
    intervals += String.fromCharCode(
      A + ((direction * (word.charCodeAt(at) - word.charCodeAt(at - 1)) + LETTERS) % LETTERS),
    );
  }
  return intervals;
}

/** Decodes the text with the alphabet that gives the most order words. */
export function shiftedBack(folded: string): string {
  /** Order words per alphabet: shifted by 0, 1, …, then reversed ones. */
  const scores = new Int32Array(2 * LETTERS);
  for (const word of folded.match(/[a-z]{4,}/g)?.slice(0, MAX_WORDS) ?? []) {
    const first = word.charCodeAt(0) - A;
    for (const initial of byIntervals.get(intervalsOf(word, 1)) ?? [])
      count(scores, (initial - first + LETTERS) % LETTERS);
    for (const initial of byIntervals.get(intervalsOf(word, -1)) ?? [])
      count(scores, LETTERS + ((2 * LETTERS - 1 - initial - first) % LETTERS));
  }
  return rewritten(folded, scores.indexOf(Math.max(...scores)));
}

/** Decodes ROT13. */
export function rotated(folded: string): string {
  return rewritten(folded, LETTERS / 2);
}

function rewritten(text: string, alphabet: number): string {
  let result = "";
  const { length } = text;
  for (let at = 0; at < length; at++) {
    const letter = codeAt(text, at) - A;
    if (letter < 0 || letter >= LETTERS) result += text[at];
    else {
      const moved = (letter + alphabet) % LETTERS;
      result += String.fromCharCode(A + (alphabet < LETTERS ? moved : LETTERS - 1 - moved));
    }
  }
  return result;
}

function count(scores: Int32Array, alphabet: number): void {
  scores[alphabet] = (scores[alphabet] as number) + 1;
}
