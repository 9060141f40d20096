import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fold } from "./fold.ts";

/**
 * Words of orders in other languages than English, with the English word of the same meaning. An order in any of these
 * languages gets the features of the English order, so the detector needs no examples in that language.
 */

const BASIS = 0x811c9dc5 | 0;

/** Extends a hash by one code unit. */
export function hashed(hash: number, code: number): number {
  return Math.imul(hash ^ code, 0x01000193);
}

/** The 32-bit hash of a text. */
export function hashOf(text: string): number {
  let hash = BASIS;
  for (let at = 0; at < text.length; at++) hash = hashed(hash, text.charCodeAt(at));
  return hash;
}

/** An English word: its hash, and the hash of its first letters. */
export interface Meaning {
  readonly word: number;
  readonly stem: number;
}

/** A word without a cluster counts by its first letters, which inflection changes least. */
export const STEM_LENGTH = 5;

/** Kinds of entry, as bits of `kinds`. */
export const ENTRY = { word: 1, stem: 2 } as const;

export interface Lexicon {
  /** Per low bits of a hash: the kinds of entry that may have it. The fastest check. */
  readonly kinds: Uint8Array;
  readonly words: ReadonlyMap<number, Meaning>;
  readonly stems: ReadonlyMap<number, Meaning>;
}

/** The longest entry of a script without spaces, in code units. */
export const LONGEST_UNSPACED = 14;
const FILE = join(import.meta.dirname, "lexicon.txt");
const SLOTS = 1 << 16;

/**
 * Reads lexicon.txt: `# language`, then one English word per line with its forms; `*` ends a stem that matches all
 * words that begin with it.
 * @param without the languages to leave out, to measure how well the detector reads an unknown language
 */
export function readLexicon(): Lexicon {
  const lexicon = {
    kinds: new Uint8Array(SLOTS),
    words: new Map<number, Meaning>(),
    stems: new Map<number, Meaning>(),
  };
  for (const line of readFileSync(FILE, "utf8").trimEnd().split("\n"))
    if (!line.startsWith("# ")) addLine(lexicon, line);
  return lexicon;
}

function addLine(
  { kinds, words, stems }: { kinds: Uint8Array; words: Map<number, Meaning>; stems: Map<number, Meaning> },
  line: string,
): void {
  const [english = "", ...forms] = line.split(" ");
  const meaning = { word: hashOf(english), stem: hashOf(english.slice(0, STEM_LENGTH)) };
  for (const form of forms) {
    const is_stem = form.endsWith("*");
    const hash = hashOf(fold(is_stem ? form.slice(0, -1) : form));
    const entries = is_stem ? stems : words;
    if (!entries.has(hash)) entries.set(hash, meaning);
    kinds[hash & (SLOTS - 1)] = (kinds[hash & (SLOTS - 1)] as number) | (is_stem ? ENTRY.stem : ENTRY.word);
  }
}

/** The kinds of entry that may have this hash. */
export function kindsOf({ kinds }: Lexicon, hash: number): number {
  return kinds[hash & (SLOTS - 1)] as number;
}
