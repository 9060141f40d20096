import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Clusters, readClusters } from "./clusters.ts";
import { TABLE_SIZE } from "./features.ts";

/**
 * The detector's model: a logistic regression over hashed features (features.ts). A positive logit speaks for an
 * instruction to a model. Words count less the more of them there are, so that a long window is judged by its share.
 */
export interface Weights {
  readonly bias: number;
  /** Of each feature, in units of `scale`. */
  readonly weights: Float32Array | Int8Array;
  readonly scale: number;
}

/** The model as it is kept in model.txt. */
export interface Model extends Weights {
  /** Logit from which a window is taken for an instruction. */
  readonly threshold: number;
  readonly clusters: Clusters;
}

/** A window of fewer features than this counts as if it had so many: three words prove little. */
const MIN_FEATURES = 35;
/** What a cue counts; a word of a short window counts 1 / √MIN_FEATURES. */
export const CUE_SHARE = 0.3;

/** What each word feature counts in a window that has `count` different ones. */
export function textShare(count: number): number {
  return 1 / Math.sqrt(Math.max(count, MIN_FEATURES));
}

/** Logit of a window's words, of which the weights make up `sum`. */
export function logitFromText({ bias, scale }: Weights, sum: number, count: number): number {
  return bias + scale * textShare(count) * sum;
}

/** `logit`, and what the cues' features add to it. */
export function logitWithCues({ weights, scale }: Weights, logit: number, cues: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < cues.length; at++) sum += weights[cues[at] as number] as number;
  return logit + scale * CUE_SHARE * sum;
}

const FILE = join(import.meta.dirname, "model.txt");

/** Reads model.txt, which `npm run safety:train` writes: numbers, weights in base64, then a cluster of words a line. */
export function loadModel(): Model {
  const [numbers = "", encoded = "", ...lines] = readFileSync(FILE, "utf8").trimEnd().split("\n");
  const [bias = 0, scale = 0, threshold = 0] = numbers.split(" ").map(Number);
  const weights = new Int8Array(Buffer.from(encoded, "base64"));
  if (weights.length !== TABLE_SIZE) throw new Error("src/safety/judging/model.txt is not whole");
  return { bias, scale, threshold, weights, clusters: readClusters(lines) };
}
