import { CUES } from "./cues.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/** The names of the cues found in a window, each once, in the order of the list. */
export type CueReader = (window: Window) => readonly string[];

/** A negated class that contains the line feed does not match across lines. */
const BOUND_TO_LINE = /\[\^[^\]]*\\n[^\]]*\]/g;
const GOES_ON = /\\[nsWD]|\[\^|\^/;
/** A pattern that can match across lines, or at the start of the text, is tested on whole windows. */
const isOfWindow = CUES.map(({ pattern }) => GOES_ON.test(pattern.source.replace(BOUND_TO_LINE, "")));

/** Windows overlap, so each piece is searched once for the patterns that stay within a line. */
export function createCueReader(pieces: readonly Piece[]): CueReader {
  const known: (readonly number[] | undefined)[] = [];

  const inPiece = (at: number): readonly number[] => {
    const { folded } = pieces[at] as Piece;
    known[at] ??= CUES.flatMap((_cue, cue) => (!isOfWindow[cue] && matches(cue, folded) ? [cue] : []));
    return known[at];
  };

  return ({ first, last }) => {
    const speaking = new Set<number>();
    for (let at = first; at <= last; at++) for (const cue of inPiece(at)) speaking.add(cue);
    const folded = foldedOf(pieces, first, last);
    const names = new Set<string>();
    CUES.forEach(({ name }, cue) => {
      if (speaking.has(cue) || (isOfWindow[cue] && matches(cue, folded))) names.add(name);
    });
    return [...names];
  };
}

function matches(cue: number, folded: string): boolean {
  return folded.search((CUES[cue] as (typeof CUES)[number]).pattern) >= 0;
}

function foldedOf(pieces: readonly Piece[], first: number, last: number): string {
  let folded = pieces[first]?.folded ?? "";
  for (let at = first + 1; at <= last; at++) folded += `\n${pieces[at]?.folded}`;
  return folded;
}
