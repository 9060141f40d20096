import type { Piece } from "./pieces.ts";
import { mayOrder, respelt } from "./respell.ts";
import { type Signs, survey } from "./survey.ts";

/** Another way to read a stretch of a text. */
export interface Rereading {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A line with at most this many words may be part of a broken sentence. */
const MAX_LINE_WORDS = 5;
/** The longest text joined from broken lines. */
const JOINED = 300;
/** This many consecutive lines of a few letters may spell words. */
const MIN_TINY_LINES = 8;
const TINY = 4;

/** Limits of the cache of surveyed lines: the longest line, and the number of lines. */
const MAX_KNOWN = 8;
const MOST_KNOWN = 2_000;

const BULLET = /^[\s>|]*(?:[-*+•–·]|\(?\d{1,3}[.):])(?:\s+|$)/;
const HYPHEN = /[a-z]-$/;

/** Yields other readings of a text: of single pieces, and of broken lines joined. */
export function* rereadings(pieces: readonly Piece[]): Generator<Rereading> {
  const signs = surveyAll(pieces);
  let from = 0;
  for (let at = 0; at < pieces.length; at++) {
    const { start, end, folded } = pieces[at] as Piece;
    for (const text of respelt(folded, signs[at] as Signs)) yield { start, end, text };
    if (isBroken(folded, signs[at] as Signs)) continue;
    if (at - from > 1) yield* joined(pieces.slice(from, at + 1), signs.slice(from, at + 1));
    from = at + 1;
  }
  if (pieces.length - from > 1) yield* joined(pieces.slice(from), signs.slice(from));
}

/** Caches the survey of short lines, because pages repeat them. */
function surveyAll(pieces: readonly Piece[]): Signs[] {
  const known = new Map<string, Signs>();
  return pieces.map(({ folded }) => {
    if (folded.length > MAX_KNOWN) return survey(folded);
    const before = known.get(folded);
    if (before !== undefined) return before;
    const signs = survey(folded);
    if (known.size < MOST_KNOWN) known.set(folded, signs);
    return signs;
  });
}

function isBroken(folded: string, { words }: Signs): boolean {
  return words <= MAX_LINE_WORDS || HYPHEN.test(folded);
}

/** Yields broken lines joined, from each line where an order may begin. */
function* joined(pieces: readonly Piece[], signs: readonly Signs[]): Generator<Rereading> {
  const isSpelling = pieces.length >= MIN_TINY_LINES && tinyLines(pieces) >= MIN_TINY_LINES;
  /** Cached, because a line is joined to several lines before it. */
  const lines: (string | undefined)[] = [];
  const lineAt = (at: number): string => (lines[at] ??= lineOf(pieces[at]));
  const isHyphened = pieces.some(({ folded }) => HYPHEN.test(folded));
  if (!isSpelling && !isHyphened && !mayOrder(signs)) return;
  for (let first = 0, free = 0; first < pieces.length; first++) {
    const sign = signs[first] as Signs;
    if (first < free || (!isSpelling && !isHyphened && sign.verbs + sign.disguised === 0)) continue;
    let last = first;
    let text = lineAt(first);
    /** The end of the text, kept because reading it from `text` would flatten the string for each line. */
    let tail = text.slice(-2);
    while (last + 1 < pieces.length && text.length < JOINED) {
      const line = lineAt(++last);
      const goesOn = HYPHEN.test(tail);
      text = goesOn ? text.slice(0, -1) + line : `${text} ${line}`;
      tail = `${goesOn ? tail.slice(0, -1) : `${tail} `}${line}`.slice(-2);
    }
    const all = survey(text);
    const span = { start: pieces[first]?.start ?? 0, end: pieces[last]?.end ?? 0 };
    if (mayOrder([all])) yield { ...span, text };
    for (const each of respelt(text, all)) yield { ...span, text: each };
    // The next one begins in the second half of this one, so that one of them contains the whole order.
    free = first + Math.ceil((last - first + 1) / 2);
  }
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
