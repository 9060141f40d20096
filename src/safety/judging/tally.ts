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
/** Repeated features per character. Most texts have fewer. */
const USUAL_REPEATS = 1.5;

/** The features of pieces that an earlier piece has too, in order. */
interface Repeats {
  /** The latest earlier piece with the feature. */
  before: Int32Array;
  weights: Float32Array;
  count: number;
}

/** A buffer reused for all texts that fit, because allocating it would cost more than most texts. */
const usual: Repeats = allocate(1 << 17);

/**
 * Reads the features of all pieces once. A window weighs what its pieces weigh, without the features that an earlier
 * piece of the window has too. Valid until the next tally is created.
 */
export function createTally(model: Model, pieces: readonly Piece[]): (window: Window) => Weighed {
  if (counted > MOST_COUNTED) {
    seen.fill(0);
    counted = 1;
  }
  const start = counted;
  counted += pieces.length;
  const capacity = Math.ceil(pieces.reduce((sum, { folded }) => sum + folded.length, 0) * USUAL_REPEATS);
  const repeats = capacity > usual.before.length ? allocate(capacity) : usual;
  repeats.count = 0;
  /** The end of each piece's repeats. */
  const ends = new Int32Array(pieces.length);
  const totals = pieces.map(({ folded }, index) => {
    const total = read(repeats, textFeatures(folded, model.clusters), model.weights, start + index, start);
    ends[index] = repeats.count;
    return total;
  });
  return ({ first, last }) => {
    if (first === last) return totals[first] as Weighed;
    const all = together(totals, first, last);
    return withoutRepeats(all, repeats, ends[first] as number, ends[last] as number, first);
  };
}

function allocate(features: number): Repeats {
  return { before: new Int32Array(features), weights: new Float32Array(features), count: 0 };
}

/** Weighs one piece and keeps its repeats. @param piece the number of the piece; `start` is the number of the text's first piece */
function read(
  repeats: Repeats,
  features: Int32Array,
  weightOf: Model["weights"],
  piece: number,
  start: number,
): Weighed {
  let repeated = repeats.count;
  if (repeated + features.length > repeats.before.length) {
    const longer = allocate(2 * (repeated + features.length));
    longer.before.set(repeats.before);
    longer.weights.set(repeats.weights);
    Object.assign(repeats, { before: longer.before, weights: longer.weights });
  }
  const { before, weights } = repeats;
  let sum = 0;
  let count = 0;
  for (let at = 0; at < features.length; at++) {
    const feature = features[at] as number;
    const last = seen[feature] as number;
    if (last === piece) continue;
    seen[feature] = piece;
    const weight = weightOf[feature] as number;
    sum += weight;
    count++;
    if (last < start) continue;
    before[repeated] = last - start;
    weights[repeated++] = weight;
  }
  repeats.count = repeated;
  return { sum, count };
}

function together(totals: readonly Weighed[], first: number, last: number): Weighed {
  let sum = 0;
  let count = 0;
  for (let at = first; at <= last; at++) {
    const total = totals[at] as Weighed;
    sum += total.sum;
    count += total.count;
  }
  return { sum, count };
}

/** @param first the first piece of the window; `from` and `to` are the bounds of the repeats in the pieces after it */
function withoutRepeats(all: Weighed, { before, weights }: Repeats, from: number, to: number, first: number): Weighed {
  let { sum, count } = all;
  for (let at = from; at < to; at++) {
    if ((before[at] as number) < first) continue;
    sum -= weights[at] as number;
    count--;
  }
  return { sum, count };
}
