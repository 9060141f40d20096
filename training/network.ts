import { TABLE_SIZE } from "../src/safety/judging/features.ts";
import { createRandom } from "./grammar.ts";
import { type Bag, chosen, knownFeatures, type Sample, shuffle } from "./learn.ts";

/** A network with one hidden layer over the hashed features, to compare with the shipped model (compare.ts). */

const HIDDEN = 12;
const ROUNDS = 6;
const LEARNING_RATE = 0.05;
const DECAY = 1e-5;
/** As in model.ts: a window with fewer features counts as one with this many. */
const MIN_FEATURES = 35;

/** Learns by AdaGrad from the same windows as the regression. @returns the logit of a window */
export function learnNetwork(bags: readonly Bag[]): (sample: Sample) => number {
  const random = createRandom(42);
  const known = knownFeatures(bags);
  const inner = Float32Array.from({ length: TABLE_SIZE * HIDDEN }, (_, at) =>
    known[Math.floor(at / HIDDEN)] === 0 ? 0 : 0.1 * (random() - 0.5),
  );
  const squares = new Float32Array(TABLE_SIZE).fill(0.1);
  const outer = Float32Array.from({ length: HIDDEN }, (_, at) => (at % 2 === 0 ? 1 : -1));
  const outerSquares = new Float32Array(HIDDEN).fill(0.1);
  const hidden = new Float32Array(HIDDEN);
  const back = new Float32Array(HIDDEN);
  let bias = -1;

  const shareOf = ({ text, cues }: Sample): number => 1 / Math.sqrt(Math.max(MIN_FEATURES, text.length + cues.length));

  function logitOf(sample: Sample): number {
    const share = shareOf(sample);
    hidden.fill(0);
    for (const features of [sample.text, sample.cues])
      for (const feature of features)
        for (let at = 0; at < HIDDEN; at++)
          hidden[at] = (hidden[at] as number) + share * (inner[feature * HIDDEN + at] as number);
    let logit = bias;
    for (let at = 0; at < HIDDEN; at++) logit += (outer[at] as number) * Math.max(0, hidden[at] as number);
    return logit;
  }

  function step(sample: Sample, target: 0 | 1, weight: number): void {
    const error = weight * (1 / (1 + Math.exp(-logitOf(sample))) - target);
    if (Math.abs(error) < 0.002) return;
    bias -= 0.02 * error;
    const share = shareOf(sample);
    let square = 0;
    for (let at = 0; at < HIDDEN; at++) {
      const value = hidden[at] as number;
      back[at] = value > 0 ? error * (outer[at] as number) * share : 0;
      square += (back[at] as number) ** 2 / HIDDEN;
      const gradient = error * Math.max(0, value);
      outerSquares[at] = (outerSquares[at] as number) + gradient * gradient;
      outer[at] = (outer[at] as number) - (LEARNING_RATE * gradient) / Math.sqrt(outerSquares[at] as number);
    }
    for (const features of [sample.text, sample.cues]) for (const feature of features) move(feature, square);
  }

  function move(feature: number, square: number): void {
    if (known[feature] === 0) return;
    squares[feature] = (squares[feature] as number) + square;
    const rate = LEARNING_RATE / Math.sqrt(squares[feature] as number);
    for (let at = 0; at < HIDDEN; at++) {
      const place = feature * HIDDEN + at;
      const old = inner[place] as number;
      inner[place] = old - rate * ((back[at] as number) + DECAY * old);
    }
  }

  const order = bags.map((_bag, at) => at);
  for (let round = 0; round < ROUNDS; round++) {
    shuffle(order, random);
    for (const at of order) {
      const bag = bags[at] as Bag;
      for (const sample of chosen(bag, logitOf, random)) step(sample, bag.is_attack ? 1 : 0, bag.weight);
    }
  }
  return logitOf;
}
