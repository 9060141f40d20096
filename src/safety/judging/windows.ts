import { decodedRuns } from "./decode.ts";
import { type Piece, written } from "./pieces.ts";
import { type Rereading, rereadings } from "./rereadings.ts";

/** The size of a window in characters of the folded text: an order and its pretext. */
const WINDOW = 300;
/** The smallest distance between the starts of two windows. */
const STRIDE = 150;
/** A sentence of at least this length is also judged alone, so that its neighbours do not hide it. */
const MIN_ALONE = 12;

/** Prefix of decoded text. That the text was encoded counts as evidence too. */
const DECODED = "xdecoded ";

/** Pieces judged together, from `first` to `last` inclusive. */
export interface Window {
  readonly first: number;
  readonly last: number;
}

/**
 * The most characters judged of decoded text, and as many of other readings. Ordinary pages have less than a tenth of
 * it.
 */
const MAX_REREAD = 250_000;

/**
 * Splits the text into sentences and lines of at most MAX_PIECE characters, followed by its other readings. Drops blank
 * ones.
 */
export function piecesOf(text: string): Piece[] {
  const pieces = written(text);
  const others: Piece[] = [];
  let reading = 0;
  let left = MAX_REREAD;
  const read = (span: Rereading, mark: string) => {
    reading++;
    left -= span.text.length;
    const { start, end } = span;
    const said = written(span.text);
    for (const { folded } of said) others.push({ start, end, folded: mark + folded, reading });
    for (const again of rereadings(said)) {
      others.push({ start, end, folded: mark + again.text, reading: ++reading });
      left -= again.text.length;
      if (left < 0) return;
    }
  };
  for (const run of decodedRuns(text)) {
    read(run, run.is_opaque ? DECODED : "");
    if (left < 0) break;
  }
  left = MAX_REREAD;
  for (const span of rereadings(pieces)) {
    read(span, "");
    if (left < 0) break;
  }
  return [...pieces, ...others];
}

/** Every piece alone, and overlapping windows over neighbours. Each piece is in a bounded number of windows. */
export function windowsOf(pieces: readonly Piece[]): Window[] {
  const windows: Window[] = [];
  let nextAt = 0;
  let position = 0;
  let last = -1;
  let length = 0;
  const goesOn = (reading: number) => pieces[last + 1]?.reading === reading;
  pieces.forEach(({ folded, reading }, first) => {
    if (folded.length >= MIN_ALONE) windows.push({ first, last: first });
    // `length` is the length of pieces first…last together.
    while (last < first || (goesOn(reading) && length < WINDOW)) length += pieces[++last]?.folded.length ?? 0;
    if (position >= nextAt && last > first) {
      windows.push({ first, last });
      nextAt = position + STRIDE;
    }
    length -= folded.length;
    position += folded.length;
  });
  return windows;
}
