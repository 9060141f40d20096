import { fold } from "./fold.ts";

/** Sentences are cut at this length at the latest. */
const MAX_PIECE = 400;

/** A sentence or line: where it stands in the text, and how it reads folded (fold.ts). */
export interface Piece {
  readonly start: number;
  readonly end: number;
  readonly folded: string;
  /** 0 for the text as it is written; each other reading of a part of it has its own number, and follows it. */
  readonly reading: number;
}

/** The text in sentences and lines, none longer than MAX_PIECE, blank ones left out. */
export function written(text: string): Piece[] {
  const pieces: Piece[] = [];
  for (const { start, end } of sentences(text)) {
    // Cut off first, as to fold a line feed is a pattern's work.
    const folded = fold(text.slice(start, end).trim()).trim();
    if (folded !== "") pieces.push({ start, end, folded, reading: 0 });
  }
  return pieces;
}

function sentences(text: string): { start: number; end: number }[] {
  const all: { start: number; end: number }[] = [];
  // Of several full stops only the last can match, so that a row of them is read once.
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
