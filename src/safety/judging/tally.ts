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

/** Different features of pieces, in order. */
interface Kept {
  /** The piece before that has the feature, below 0 for none. */
  before: Int32Array;
  weights: Float32Array;
  count: number;
}

/** Used again from text to text, where it is long enough: making it anew would cost more than most texts. */
const usual: Kept = roomFor(1 << 17);

/**
 * Reads the features of all pieces once. Kept is where each stood before: in a window it counts where it comes first, so
 * that a window is weighed by reading on, without looking anything up. Works until the next tally is made.
 */
export function createTally(model: Model, pieces: readonly Piece[]): (window: Window) => Weighed {
  if (counted > MOST_COUNTED) {
    seen.fill(0);
    counted = 1;
  }
  const start = counted;
  counted += pieces.length;
  const room = Math.ceil(pieces.reduce((sum, { folded }) => sum + folded.length, 0) * USUAL_FEATURES);
  const kept = room > usual.before.length ? roomFor(room) : usual;
  kept.count = 0;
  /** Where each piece's features begin, and the last one's end. */
  const begins = new Int32Array(pieces.length + 1);
  for (let index = 0; index < pieces.length; index++) {
    keep(kept, textFeatures((pieces[index] as Piece).folded, model.clusters), model.weights, start + index, start);
    begins[index + 1] = kept.count;
  }
  return ({ first, last }) => weigh(kept, begins[first] as number, begins[last + 1] as number, first);
}

function roomFor(features: number): Kept {
  return { before: new Int32Array(features), weights: new Float32Array(features), count: 0 };
}

/** @param piece the number of the piece, of which `start` is that of the text's first one */
function keep(kept: Kept, features: Int32Array, weightOf: Model["weights"], piece: number, start: number): void {
  let { count } = kept;
  if (count + features.length > kept.before.length) {
    const longer = roomFor(2 * (count + features.length));
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
