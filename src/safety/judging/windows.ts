import { decodedRuns } from "./decode.ts";
import { type Piece, written } from "./pieces.ts";
import { type Rereading, rereadings } from "./rereadings.ts";

/** A window holds about this many characters of the folded text: an order and its pretext. */
const WINDOW = 300;
/** Each window begins at least this far behind the one before it. */
const STRIDE = 150;
/** A sentence is also judged by itself, lest its neighbours drown it, when it is at least this long. */
const MIN_ALONE = 12;

/** Stands before what had to be decoded to be read: that somebody took the pains to hide it counts as well. */
const DECODED = "xdecoded ";

/** Pieces judged together: from `first` up to and with `last`. */
export interface Window {
  readonly first: number;
  readonly last: number;
}

/** Characters of other readings that are judged, of what is decoded and of what is read otherwise each: no page that people read has a tenth of it. */
const MAX_REREAD = 250_000;

/** The text in sentences and lines, none longer than MAX_PIECE, blank ones left out; behind them its other readings. */
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

/** Every piece by itself, and overlapping windows over neighbours; each piece is in a bounded number of them. */
export function windowsOf(pieces: readonly Piece[]): Window[] {
  const windows: Window[] = [];
  let nextAt = 0;
  let position = 0;
  let last = -1;
  let length = 0;
  const goesOn = (reading: number) => pieces[last + 1]?.reading === reading;
  pieces.forEach(({ folded, reading }, first) => {
    if (folded.length >= MIN_ALONE) windows.push({ first, last: first });
    // `length` is what pieces first…last hold together.
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
