import type { Clusters } from "../src/safety/judging/clusters.ts";
import { createCueReader } from "../src/safety/judging/cue-reader.ts";
import { cueFeatures, TABLE_SIZE, textFeatures } from "../src/safety/judging/features.ts";
import { fold } from "../src/safety/judging/fold.ts";
import { CUE_SHARE, logitFromText, logitWithCues, textShare, type Weights } from "../src/safety/judging/model.ts";
import type { Piece } from "../src/safety/judging/pieces.ts";
import { piecesOf, windowsOf } from "../src/safety/judging/windows.ts";
import { createRandom } from "./grammar.ts";

/** A text with its label, or a page as its visible text and its hidden ones. */
export interface Example {
  readonly texts: readonly string[];
  readonly is_attack: boolean;
  /** Its weight, so that no source outweighs the others. */
  readonly weight: number;
  /** Where a text of a folder of data is from. */
  readonly source?: string;
  /** The page of a folder of data that it is, or that the attack is in. */
  readonly carrier?: string;
  /** The words of an attack in a page. Only windows that have some of them are learnt. */
  readonly injected?: string;
}

/** The features of a window: of its words and of its cues, each once. */
export interface Sample {
  readonly text: Int32Array;
  readonly cues: Int32Array;
}

/** An example as its windows. One window of an attack instructs, but it is unknown which; none of an honest text does. */
export interface Bag {
  readonly samples: readonly Sample[];
  readonly is_attack: boolean;
  readonly weight: number;
  readonly source: string | undefined;
  readonly carrier: string | undefined;
}

const ROUNDS = 16;
const LEARNING_RATE = 0.25;
const DECAY = 3e-3;
/** The share of word features dropped at each step, so that the verdict does not depend on a few of them. */
const DROPOUT = 0.25;
/** The windows of an honest text learnt per round: its worst, and as many random ones. */
const WORST = 12;
const BY_CHANCE = 2;
/** A feature seen in fewer windows than this is ignored, because it does not generalise. */
const MIN_WINDOWS = 3;

export function bagOf({ texts, is_attack, weight, source, carrier, injected }: Example, clusters: Clusters): Bag {
  const isWanted = injected === undefined ? () => true : createOverlap(injected);
  return { samples: texts.flatMap((text) => samplesOf(text, clusters, isWanted)), is_attack, weight, source, carrier };
}

function samplesOf(text: string, clusters: Clusters, isWanted: (piece: Piece) => boolean): Sample[] {
  const pieces = piecesOf(text);
  const wanted = pieces.map(isWanted);
  if (!wanted.includes(true)) return [];
  const features = pieces.map(({ folded }) => Array.from(textFeatures(folded, clusters)));
  const cuesIn = createCueReader(pieces);
  return windowsOf(pieces)
    .filter(({ first, last }) => wanted.slice(first, last + 1).includes(true))
    .map((window) => ({
      text: Int32Array.from(new Set(features.slice(window.first, window.last + 1).flat())),
      cues: Int32Array.from(new Set(cueFeatures(cuesIn(window)))),
    }));
}

/** A piece with this many letters in a row of an attack has words of it. */
const RUN = 16;
const SHORTEST_PIECE = 6;

/** Whether a piece has words of the attack. */
function createOverlap(attack: string): (piece: Piece) => boolean {
  const letters = lettersOf(attack);
  const runs = new Set<string>();
  for (let at = 0; at + RUN <= letters.length; at++) runs.add(letters.slice(at, at + RUN));
  return ({ folded }) => {
    const own = lettersOf(folded);
    if (own.length >= SHORTEST_PIECE && letters.includes(own)) return true;
    if (letters.length < RUN) return letters !== "" && own.includes(letters);
    for (let at = 0; at + RUN <= own.length; at++) if (runs.has(own.slice(at, at + RUN))) return true;
    return false;
  };
}

function lettersOf(text: string): string {
  return fold(text).replace(/[^\p{L}\p{N}]+/gu, "");
}

/** The highest logit of a text's windows. */
export function logitOfBag(model: Weights, bag: Bag): number {
  return bag.samples.reduce((most, sample) => Math.max(most, logitOf(model, sample)), -20);
}

function logitOf(model: Weights, { text, cues }: Sample): number {
  let sum = 0;
  for (const feature of text) sum += model.weights[feature] as number;
  return logitWithCues(model, logitFromText(model, sum, text.length), cues);
}

/** Logistic regression by AdaGrad. Deterministic for the same input. */
export function learn(bags: readonly Bag[]): Weights {
  const random = createRandom(42);
  const state = { bias: -1, weights: new Float32Array(TABLE_SIZE), scale: 1 };
  const gradients = new Float32Array(TABLE_SIZE).fill(0.1);
  const known = knownFeatures(bags);
  const step = (sample: Sample, target: 0 | 1, weight: number, rate: number): void => {
    const error = weight * (1 / (1 + Math.exp(-logitOf(state, sample))) - target);
    if (Math.abs(error) < 0.002) return;
    state.bias -= rate * 0.05 * error;
    const move = (feature: number, share: number) => {
      if (known[feature] === 0) return;
      const gradient = error * share + DECAY * (state.weights[feature] as number);
      gradients[feature] = (gradients[feature] as number) + gradient * gradient;
      state.weights[feature] =
        (state.weights[feature] as number) - (rate * gradient) / Math.sqrt(gradients[feature] as number);
    };
    const share = textShare(sample.text.length);
    for (const feature of sample.text) if (random() >= DROPOUT) move(feature, share);
    for (const feature of sample.cues) move(feature, CUE_SHARE);
  };
  const order = bags.map((_bag, at) => at);
  for (let round = 0; round < ROUNDS; round++) {
    const rate = LEARNING_RATE * (1 - (0.8 * round) / ROUNDS);
    shuffle(order, random);
    for (const at of order) {
      const bag = bags[at] as Bag;
      for (const sample of chosen(bag, (each) => logitOf(state, each), random))
        step(sample, bag.is_attack ? 1 : 0, bag.weight, rate);
    }
  }
  return state;
}

/** The windows of a text that are learnt in this round. */
function chosen({ samples, is_attack }: Bag, logitOf: (sample: Sample) => number, random: () => number): Sample[] {
  if (samples.length <= 1) return [...samples];
  const ranked = samples.map((sample) => ({ sample, logit: logitOf(sample) })).sort((a, b) => b.logit - a.logit);
  if (is_attack) return ranked.slice(0, 1).map(({ sample }) => sample);
  const picked = ranked.slice(0, WORST).map(({ sample }) => sample);
  for (let count = 0; count < BY_CHANCE; count++) {
    picked.push((samples[Math.floor(random() * samples.length)] ?? samples[0]) as Sample);
  }
  return picked;
}

/** 1 for each feature that enough windows have. */
function knownFeatures(bags: readonly Bag[]): Uint8Array {
  const seen = new Uint8Array(TABLE_SIZE);
  for (const { samples } of bags) {
    for (const { text, cues } of samples) {
      for (const feature of text) seen[feature] = Math.min(255, (seen[feature] as number) + 1);
      for (const feature of cues) seen[feature] = 255;
    }
  }
  return seen.map((count) => (count >= MIN_WINDOWS ? 1 : 0));
}

function shuffle(order: number[], random: () => number): void {
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other] as number, order[at] as number];
  }
}
