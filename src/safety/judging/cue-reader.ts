import { CUES } from "./cues.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/** Which cues speak in a window of a text, by name, each once, in the order of the list. */
export type CueReader = (window: Window) => readonly string[];

/** Negated classes that hold the line feed do not take one. */
const BOUND_TO_LINE = /\[\^[^\]]*\\n[^\]]*\]/g;
const GOES_ON = /\\[nsWD]|\[\^|\^/;
/** Whether a pattern may see more than one line, or where the text begins: it is looked for in whole windows. */
const isOfWindow = CUES.map(({ pattern }) => GOES_ON.test(pattern.source.replace(BOUND_TO_LINE, "")));

/** Windows overlap: what stands within a line is looked for in each piece once. */
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
