import { fold } from "./fold.ts";

/** The longest piece; longer sentences are cut. */
const MAX_PIECE = 400;

/** A sentence or line: its range in the text and its folded form (fold.ts). */
export interface Piece {
  readonly start: number;
  readonly end: number;
  readonly folded: string;
  /** 0 for the text as written. Each other reading of a part has its own number and follows the text. */
  readonly reading: number;
}

/** Splits the text into sentences and lines of at most MAX_PIECE characters. Drops blank ones. */
export function written(text: string): Piece[] {
  const pieces: Piece[] = [];
  for (const { start, end } of sentences(text)) {
    // Trim first, because folding a line feed needs a pattern.
    const folded = fold(text.slice(start, end).trim()).trim();
    if (folded !== "") pieces.push({ start, end, folded, reading: 0 });
  }
  return pieces;
}

function sentences(text: string): { start: number; end: number }[] {
  const all: { start: number; end: number }[] = [];
  // Only the last of several full stops can match, so a row of them is read once.
  const boundary = /\n+|[.!?]["')\]]*\s+|[。！？]["'」』)]*/g;
  let start = 0;
  for (;;) {
    const found = boundary.exec(text);
    const end = found === null ? text.length : boundary.lastIndex;
    for (; end - start > MAX_PIECE; start += MAX_PIECE) all.push({ start, end: start + MAX_PIECE });
    if (end > start) all.push({ start, end });
    if (found === null) return all;
    start = end;
  }
}
