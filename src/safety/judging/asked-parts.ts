import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/** The text that a judge is asked about: doubtful passages, or all that stays. */
export type AskedFor = "doubtful" | "always";

/** A part of the text for a judge, and its range. A decoded part has another text than its range. */
export interface AskedPart {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The longest part. Classifiers read about 500 tokens, and a part is removed as a whole. */
const MAX_PART = 700;
/** The most parts of one text, the strongest first. */
const MAX_PARTS = 200;

/**
 * The parts of the text that the windows cover, without removed ones.
 * @param windows with their scores, in logits
 */
export function partsToAsk(
  text: string,
  pieces: readonly Piece[],
  windows: readonly (Window & { readonly strength: number })[],
  removed: readonly { readonly start: number; readonly end: number }[],
): AskedPart[] {
  const strengths = new Map<number, number>();
  for (const { first, last, strength } of windows)
    for (let at = first; at <= last; at++) strengths.set(at, Math.max(strength, strengths.get(at) ?? strength));
  const parts: { first: number; last: number; strength: number }[] = [];
  for (const [at, strength] of [...strengths].toSorted(([one], [other]) => one - other)) {
    const { start, end, reading } = pieces[at] as Piece;
    if (removed.some((each) => each.start < end && start < each.end)) continue;
    const part = parts.at(-1);
    const first = pieces[part?.first ?? at] as Piece;
    if (part === undefined || part.last !== at - 1 || first.reading !== reading || end - first.start > MAX_PART) {
      parts.push({ first: at, last: at, strength });
    } else {
      part.last = at;
      part.strength = Math.max(part.strength, strength);
    }
  }
  const strongest = parts.toSorted((one, other) => other.strength - one.strength).slice(0, MAX_PARTS);
  return strongest.map(({ first, last }) => {
    const within = pieces.slice(first, last + 1);
    const [{ start = 0, reading = 0 } = {}] = within;
    const end = Math.max(...within.map((piece) => piece.end));
    // Another reading has no text of its own in the page.
    const read = reading === 0 ? text.slice(start, end) : within.map(({ folded }) => folded).join(" ");
    return { start, end: start + text.slice(start, end).trimEnd().length, text: read.trim().slice(0, MAX_PART) };
  });
}
