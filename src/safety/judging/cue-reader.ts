import { ABROAD, CUES } from "./cues.ts";
import { codeAt } from "./letters.ts";
import { hashed, hashOf } from "./lexicon.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/** The names of the cues found in a window, each once, in the order of the list. */
export type CueReader = (window: Window) => readonly string[];

/** A set of cues: bit N is cue N of the list. */
type Cues = number;

if (CUES.length > 32) throw new Error(`${CUES.length} cues, but a set of cues has 32 bits`);

/** A negated class that contains the line feed does not match across lines. */
const BOUND_TO_LINE = /\[\^[^\]]*\\n[^\]]*\]/g;
const GOES_ON = /\\[nsWD]|\[\^|\^/;
/** A pattern that can match across lines, or at the start of the text, is tested on whole windows. */
const OF_WINDOW = cuesWhere(({ pattern }) => GOES_ON.test(pattern.source.replace(BOUND_TO_LINE, "")));
const EVERYWHERE = cuesWhere(({ begins }) => begins === undefined);

/** Per low bits of the hash of a word's beginning, or of a sign: the cues that need it. */
const NEEDING = new Int32Array(1 << 14);
CUES.forEach(({ begins = "" }, cue) => {
  for (const beginning of begins.split(" ").filter((each) => each !== "")) {
    const place = hashOf(beginning) & (NEEDING.length - 1);
    NEEDING[place] = (NEEDING[place] as number) | (1 << cue);
  }
});

function cuesWhere(holds: (cue: (typeof CUES)[number]) => boolean): Cues {
  return CUES.reduce((cues, cue, at) => (holds(cue) ? cues | (1 << at) : cues), 0);
}

/** Windows overlap, so each piece is searched once for the patterns that stay within a line. */
export function createCueReader(pieces: readonly Piece[]): CueReader {
  const possible = new Int32Array(pieces.length);
  const found = new Int32Array(pieces.length);
  const isRead = new Uint8Array(pieces.length);

  return ({ first, last }) => {
    let ofWindow = 0;
    let speaking = 0;
    for (let at = first; at <= last; at++) {
      if (isRead[at] === 0) {
        const { folded } = pieces[at] as Piece;
        const cues = possibleCues(folded);
        possible[at] = cues & OF_WINDOW;
        found[at] = matching(cues & ~OF_WINDOW, folded);
        isRead[at] = 1;
      }
      ofWindow |= possible[at] as number;
      speaking |= found[at] as number;
    }
    if (ofWindow !== 0) speaking |= matching(ofWindow, foldedOf(pieces, first, last));
    return namesOf(speaking);
  };
}

const LETTER_A = 97;
const LETTER_Z = 122;
const FIRST_ABROAD = ABROAD.charCodeAt(0);
/** The signs between the letters of European and of East Asian scripts. */
const FIRST_SIGN = 0x2000;
const LAST_SIGN = 0x2bff;
const BASIS = hashOf("");

/** Whether it is a letter from Greek on. Dashes, quotation marks and other signs of all languages are not. */
function isAbroad(code: number): boolean {
  return code >= FIRST_ABROAD && (code < FIRST_SIGN || code > LAST_SIGN);
}

/** The cues whose patterns may match the text, from the beginnings of its words and from its signs. */
export function possibleCues(folded: string): Cues {
  let cues = EVERYWHERE;
  let hash = BASIS;
  const { length } = folded;
  for (let at = 0; at < length; at++) {
    const code = codeAt(folded, at);
    const isLetter = code >= LETTER_A && code <= LETTER_Z;
    hash = hashed(isLetter ? hash : BASIS, isAbroad(code) ? FIRST_ABROAD : code);
    cues |= NEEDING[hash & (NEEDING.length - 1)] as number;
    if (!isLetter) hash = BASIS;
  }
  return cues;
}

/** Which of these cues match the text. */
function matching(cues: Cues, text: string): Cues {
  let found = 0;
  for (let left = cues; left !== 0; left &= left - 1) {
    const cue = 31 - Math.clz32(left & -left);
    if (text.search((CUES[cue] as (typeof CUES)[number]).pattern) >= 0) found |= 1 << cue;
  }
  return found;
}

const NO_NAMES: readonly string[] = [];

function namesOf(cues: Cues): readonly string[] {
  if (cues === 0) return NO_NAMES;
  return [...new Set(CUES.flatMap(({ name }, cue) => ((cues & (1 << cue)) === 0 ? [] : [name])))];
}

function foldedOf(pieces: readonly Piece[], first: number, last: number): string {
  let folded = pieces[first]?.folded ?? "";
  for (let at = first + 1; at <= last; at++) folded += `\n${pieces[at]?.folded}`;
  return folded;
}
