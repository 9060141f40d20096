import { codeAt, LEET, LOOKALIKES } from "./letters.ts";
import { cutIntoWords, mayHoldOrder, nearestOrderWord, ORDER_WORDS } from "./order-words.ts";
import { mayMean, type Signs, survey } from "./survey.ts";

/** Fewer disguised key words than this are typing errors. */
const MIN_DISGUISED = 2;
/** This many consecutive short words may be letters in groups. */
const MIN_SHORT_RUN = 8;
/** A word of this length may be several words without spaces. */
const MIN_RUN_TOGETHER = 14;
const MIN_JOINTS = 3;

/** A text with this many common words backwards, or in ROT13, is decoded. */
const MIN_TURNED_WORDS = 4;

/**
 * Respells the text in the ways that its signs suggest. Keeps a result only if it differs and contains the words of an
 * order, or is mostly written backwards or in another alphabet. Begins it with the name of the way, which is a cue.
 */
export function respelt(folded: string, signs: Signs): string[] {
  const readings: string[] = [];
  const offer = (text: string, way = "", isSure = false) => {
    if (text !== folded && (isSure || isOrderLike(text, signs))) readings.push(way + text);
  };
  const isPacked = signs.short_run >= MIN_SHORT_RUN || signs.longest >= MIN_RUN_TOGETHER || signs.joints >= MIN_JOINTS;
  if (isPacked || signs.disguised >= MIN_DISGUISED) offer(unpacked(folded, signs));
  if (signs.reversed >= MIN_DISGUISED) {
    const turned = Array.from(folded).reverse().join("");
    const isSure = signs.reversed >= MIN_TURNED_WORDS;
    offer(turned, "xturned ", isSure);
    offer(turned.split(" ").reverse().join(" "), "xturned ", isSure);
  }
  if (signs.rot13 >= MIN_TURNED_WORDS) offer(rotated(folded), "xshifted ", true);
  else if (signs.shifted >= MIN_DISGUISED) offer(shiftedBack(folded), "xshifted ");
  if (signs.verbs > 0 && signs.objects > 0 && isOrderedBackwards(folded))
    readings.push(folded.split(" ").reverse().join(" "));
  return readings;
}

/** An order has a verb and an object, and the result has more order words than the text before. */
function isOrderLike(text: string, before: Signs): boolean {
  const { verbs, objects } = survey(text);
  return verbs > 0 && objects > 0 && verbs + objects > before.verbs + before.objects;
}

const WORD = /[!+]?[\p{L}\p{N}@$€£]+(?:[!+]+[\p{L}\p{N}@$€£]+)*/gu;
const INNER_MARKS = /(?<=[a-z])[*_~`·•|^\\=…‧∙⋅]+(?=[a-z])|[*~`|^]{1,3}/g;
const SHORT_RUN = /(?<![a-z])(?:[a-z]{1,3}[^a-z0-9\n]{1,3}){5,300}[a-z]{1,3}(?![a-z])/g;
const LONG_WORD = /[a-z]{14,400}/g;

function unpacked(folded: string, { short_run, longest, joints, disguised, masked }: Signs): string {
  let text = masked > 0 ? folded.replace(WORD, latinOf) : folded;
  if (disguised < MIN_DISGUISED && !mayHoldOrder(text.replace(/[^a-z]+/g, ""))) return folded;
  if (joints >= MIN_JOINTS) text = text.replace(INNER_MARKS, "");
  if (short_run >= MIN_SHORT_RUN) text = text.replace(SHORT_RUN, (run) => cutIntoWords(run.replace(/[^a-z]/g, "")));
  if (longest >= MIN_RUN_TOGETHER || joints >= MIN_JOINTS) text = text.replace(LONG_WORD, (word) => cutIntoWords(word));
  return asMeant(text);
}

/** Replaces each word by the order word that it probably means. */
function asMeant(text: string): string {
  let meaning = "";
  let copied = 0;
  const { length } = text;
  for (let at = 0; at < length; at++) {
    const start = at;
    while (isSmallLetter(codeAt(text, at))) at++;
    if (at === start || !mayMean(text, start, at)) continue;
    const word = text.slice(start, at);
    const other = nearestOrderWord(word) ?? word;
    if (other === word) continue;
    meaning += text.slice(copied, start) + other;
    copied = at;
  }
  return meaning + text.slice(copied);
}

const isSmallLetter = (code: number): boolean => code >= 97 && code <= 122;

/** Replaces look-alikes by letters, in words of letters and look-alikes only. */
function latinOf(word: string): string {
  if (!/[^a-z]/.test(word) || !/\p{L}/u.test(word)) return word;
  const letters = Array.from(word, (char) => (/[a-z]/.test(char) ? char : (LOOKALIKES.get(char) ?? LEET[char])));
  return letters.includes(undefined) ? word : letters.join("");
}

/** Pairs of words that occur only in an order written backwards. */
const TURNED_PAIR =
  /\b(?:(?:instructions|rules|prompts?|guidelines|directives|commands|orders) (?:previous|prior|system|your|all|safety|hidden|the)|(?:all|your|previous|the|everything) (?:ignore|disregard|forget|reveal|bypass|override|print|repeat|send)|to(?:ld)? (?:were|password|messages))\b/g;

function isOrderedBackwards(folded: string): boolean {
  return new Set(folded.match(TURNED_PAIR)).size >= MIN_DISGUISED;
}

/** Whether these lines together may be one order: a verb and an object. */
export function mayOrder(signs: readonly Signs[]): boolean {
  return (
    signs.some(({ verbs, disguised }) => verbs + disguised > 0) &&
    signs.some(({ objects, disguised }) => objects + disguised > 0)
  );
}

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
