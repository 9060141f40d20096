import type { Piece } from "./pieces.ts";
import { mayOrder, respelt } from "./respell.ts";
import { type Signs, survey } from "./survey.ts";

/** A stretch of a text as it may be meant to be read. */
export interface Rereading {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A line of so few words may be part of a sentence that was broken up. */
const MAX_LINE_WORDS = 5;
/** Broken lines are put together up to this length. */
const JOINED = 300;
/** So many lines of a few letters in a row may spell words. */
const MIN_TINY_LINES = 8;
const TINY = 4;

const BULLET = /^[\s>|]*(?:[-*+•–·]|\(?\d{1,3}[.):])(?:\s+|$)/;
const HYPHEN = /[a-z]-$/;

/** How pieces of a text may be meant otherwise than they are written: one by one, and broken lines put together. */
export function rereadings(pieces: readonly Piece[]): Rereading[] {
  const signs = pieces.map(({ folded }) => survey(folded));
  const found: Rereading[] = [];
  let from = 0;
  pieces.forEach(({ start, end, folded }, at) => {
    for (const text of respelt(folded, signs[at] as Signs)) found.push({ start, end, text });
    if (isBroken(folded, signs[at] as Signs)) return;
    if (at - from > 1) found.push(...joined(pieces.slice(from, at + 1), signs.slice(from, at + 1)));
    from = at + 1;
  });
  if (pieces.length - from > 1) found.push(...joined(pieces.slice(from), signs.slice(from)));
  return found;
}

function isBroken(folded: string, { words }: Signs): boolean {
  return words <= MAX_LINE_WORDS || HYPHEN.test(folded);
}

/** Broken lines put together, from where an order may begin. */
function joined(pieces: readonly Piece[], signs: readonly Signs[]): Rereading[] {
  const found: Rereading[] = [];
  const isSpelling = pieces.length >= MIN_TINY_LINES && tinyLines(pieces) >= MIN_TINY_LINES;
  const isHyphened = pieces.some(({ folded }) => HYPHEN.test(folded));
  if (!isSpelling && !isHyphened && !mayOrder(signs)) return found;
  for (let first = 0, free = 0; first < pieces.length; first++) {
    const sign = signs[first] as Signs;
    if (first < free || (!isSpelling && !isHyphened && sign.verbs + sign.disguised === 0)) continue;
    let last = first;
    let text = lineOf(pieces[first]);
    while (last + 1 < pieces.length && text.length < JOINED) {
      const line = lineOf(pieces[++last]);
      text = HYPHEN.test(text) ? text.slice(0, -1) + line : `${text} ${line}`;
    }
    const all = survey(text);
    const span = { start: pieces[first]?.start ?? 0, end: pieces[last]?.end ?? 0 };
    if (mayOrder([all])) found.push({ ...span, text });
    found.push(...respelt(text, all).map((each) => ({ ...span, text: each })));
    // The next begins in the second half of this one: an order is whole in one of them.
    free = first + Math.ceil((last - first + 1) / 2);
  }
  return found;
}

function tinyLines(pieces: readonly Piece[]): number {
  let most = 0;
  let run = 0;
  for (const { folded } of pieces) {
    run = folded.length <= TINY ? run + 1 : 0;
    most = Math.max(most, run);
  }
  return most;
}

function lineOf(piece: Piece | undefined): string {
  return (piece?.folded ?? "").replace(BULLET, "").replace(/[.,;]$/, "");
}
