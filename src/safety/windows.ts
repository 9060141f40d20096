import { decodedRuns, fold } from "./fold.ts";

/** A window holds about this many characters of the folded text: an order and its pretext. */
const WINDOW = 300;
/** Each window begins at least this far behind the one before it. */
const STRIDE = 150;
/** Sentences are cut at this length at the latest. */
const MAX_PIECE = 400;
/** A sentence is also judged by itself, lest its neighbours drown it, when it is at least this long. */
const MIN_ALONE = 12;

/** A sentence or line: where it stands in the text, and how it reads folded (fold.ts). */
export interface Piece {
  readonly start: number;
  readonly end: number;
  readonly folded: string;
}

/** Pieces judged together: from `first` up to and with `last`. */
export interface Window {
  readonly first: number;
  readonly last: number;
}

/** The text in sentences and lines, none longer than MAX_PIECE; blank ones left out. */
export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  for (const { start, end } of sentences(text)) {
    const source = text.slice(start, end);
    const folded = [fold(source), ...decodedRuns(source).map(fold)].join(" ").trim();
    if (folded !== "") pieces.push({ start, end, folded });
  }
  return pieces;
}

function* sentences(text: string): Generator<{ start: number; end: number }> {
  // Of several full stops only the last can match, so that a row of them is read once.
  const boundary = /\n+|[.!?]["')\]]*\s+|[。！？]["'」』)]*/g;
  let start = 0;
  for (;;) {
    const found = boundary.exec(text);
    const end = found === null ? text.length : boundary.lastIndex;
    for (; end - start > MAX_PIECE; start += MAX_PIECE) yield { start, end: start + MAX_PIECE };
    if (end > start) yield { start, end };
    if (found === null) return;
    start = end;
  }
}

/** Every piece by itself, and overlapping windows over neighbours; each piece is in a bounded number of them. */
export function windowsOf(pieces: readonly Piece[]): Window[] {
  const windows: Window[] = [];
  let nextAt = 0;
  let position = 0;
  let last = -1;
  let length = 0;
  pieces.forEach((piece, first) => {
    if (piece.folded.length >= MIN_ALONE) windows.push({ first, last: first });
    // `length` is what pieces first…last hold together.
    while (last < first || (last + 1 < pieces.length && length < WINDOW)) length += pieces[++last]?.folded.length ?? 0;
    if (position >= nextAt && last > first) {
      windows.push({ first, last });
      nextAt = position + STRIDE;
    }
    length -= piece.folded.length;
    position += piece.folded.length;
  });
  return windows;
}
