import { TABLE_SIZE, textFeatures } from "./features.ts";
import type { Model } from "./model.ts";
import type { Piece } from "./pieces.ts";
import type { Window } from "./windows.ts";

/** The summed weights of a window's words, each feature once. */
export interface Weighed {
  readonly sum: number;
  /** The number of different features. */
  readonly count: number;
}

/**
 * The last piece with each feature. Piece numbers continue from text to text, because clearing the table would cost
 * more than most texts.
 */
const seen = new Int32Array(TABLE_SIZE);
let counted = 1;
const MOST_COUNTED = 2 ** 30;
/** Different features per character. Most texts have fewer. */
const USUAL_FEATURES = 1.5;

/** The different features of pieces, in order. */
interface Kept {
  /** The previous piece with the feature; below 0 for none. */
  before: Int32Array;
  weights: Float32Array;
  count: number;
}

/** A buffer reused for all texts that fit, because allocating it would cost more than most texts. */
const usual: Kept = allocate(1 << 17);

/**
 * Reads the features of all pieces once and keeps the previous piece of each. A window counts a feature only at its
 * first place, so weighing needs no lookups. Valid until the next tally is created.
 */
export function createTally(model: Model, pieces: readonly Piece[]): (window: Window) => Weighed {
  if (counted > MOST_COUNTED) {
    seen.fill(0);
    counted = 1;
  }
  const start = counted;
  counted += pieces.length;
  const capacity = Math.ceil(pieces.reduce((sum, { folded }) => sum + folded.length, 0) * USUAL_FEATURES);
  const kept = capacity > usual.before.length ? allocate(capacity) : usual;
  kept.count = 0;
  /** The start of each piece's features, and the end of the last one. */
  const begins = new Int32Array(pieces.length + 1);
  for (let index = 0; index < pieces.length; index++) {
    keep(kept, textFeatures((pieces[index] as Piece).folded, model.clusters), model.weights, start + index, start);
    begins[index + 1] = kept.count;
  }
  return ({ first, last }) => weigh(kept, begins[first] as number, begins[last + 1] as number, first);
}

function allocate(features: number): Kept {
  return { before: new Int32Array(features), weights: new Float32Array(features), count: 0 };
}

/** @param piece the number of the piece; `start` is the number of the text's first piece */
function keep(kept: Kept, features: Int32Array, weightOf: Model["weights"], piece: number, start: number): void {
  let { count } = kept;
  if (count + features.length > kept.before.length) {
    const longer = allocate(2 * (count + features.length));
    longer.before.set(kept.before);
    longer.weights.set(kept.weights);
    Object.assign(kept, { before: longer.before, weights: longer.weights });
  }
  const { before, weights } = kept;
  for (let at = 0; at < features.length; at++) {
    const feature = features[at] as number;
    const last = seen[feature] as number;
    if (last === piece) continue;
    seen[feature] = piece;
    before[count] = last - start;
    weights[count++] = weightOf[feature] as number;
  }
  kept.count = count;
}

function weigh({ before, weights }: Kept, from: number, to: number, first: number): Weighed {
  let sum = 0;
  let count = 0;
  for (let at = from; at < to; at++) {
    if ((before[at] as number) >= first) continue;
    count++;
    sum += weights[at] as number;
  }
  return { sum, count };
}
