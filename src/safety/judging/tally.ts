import { TABLE_SIZE, textFeatures } from "./features.ts";
import type { Model } from "./model.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/** What the words of a window weigh, each feature counted once. */
export interface Weighed {
  readonly sum: number;
  /** Different features. */
  readonly count: number;
}

/** Of each feature the piece in which it was last seen, counted on from text to text: clearing it would cost more than most texts. */
const seen = new Int32Array(TABLE_SIZE);
let counted = 1;
const MOST_COUNTED = 2 ** 30;
/** Different features for each character, nearly: some texts have more. */
const USUAL_FEATURES = 1.5;

/**
 * Reads the features of all pieces once. Kept is where each stood before: in a window it counts where it comes first, so
 * that a window is weighed by reading on, without looking anything up.
 */
export function createTally(model: Model, pieces: readonly Piece[]): (window: Window) => Weighed {
  if (counted > MOST_COUNTED) {
    seen.fill(0);
    counted = 1;
  }
  const start = counted;
  counted += pieces.length;
  const length = pieces.reduce((sum, { folded }) => sum + folded.length, 0);
  /** Of every feature in order: the piece before that has it, below 0 for none; and what it weighs. */
  let before = new Int32Array(Math.ceil(length * USUAL_FEATURES));
  let weights = new Float32Array(before.length);
  /** Where each piece's features begin, and the last one's end. */
  const begins = new Int32Array(pieces.length + 1);
  let end = 0;
  pieces.forEach(({ folded }, index) => {
    const features = textFeatures(folded, model.clusters);
    if (end + features.length > before.length) {
      before = longer(before, new Int32Array(2 * (end + features.length)));
      weights = longer(weights, new Float32Array(before.length));
    }
    for (let at = 0; at < features.length; at++) {
      const feature = features[at] as number;
      const piece = (seen[feature] as number) - start;
      if (piece === index) continue;
      seen[feature] = start + index;
      before[end] = piece;
      weights[end++] = model.weights[feature] as number;
    }
    begins[index + 1] = end;
  });
  return ({ first, last }) => {
    const stop = begins[last + 1] as number;
    let sum = 0;
    let count = 0;
    for (let at = begins[first] as number; at < stop; at++) {
      if ((before[at] as number) >= first) continue;
      count++;
      sum += weights[at] as number;
    }
    return { sum, count };
  };
}

function longer<List extends Int32Array | Float32Array>(list: List, room: List): List {
  room.set(list);
  return room;
}
