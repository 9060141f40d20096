import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Clusters, readClusters } from "./clusters.ts";
import { TABLE_SIZE } from "./features.ts";

/**
 * The detector's model: a logistic regression over hashed features (features.ts). A positive logit means an instruction
 * to a model. Word weights are divided by the root of their number, so a long window counts by its share.
 */
export interface Weights {
  readonly bias: number;
  /** One weight per feature, in units of `scale`. */
  readonly weights: Float32Array | Int8Array;
  readonly scale: number;
}

/** The contents of model.txt. */
export interface Model extends Weights {
  /** A window with at least this logit counts as an instruction. */
  readonly threshold: number;
  readonly clusters: Clusters;
}

/** The smallest number of features that a window counts as. A few words prove little. */
const MIN_FEATURES = 35;
/** The weight of a cue. A word in a short window has 1 / √MIN_FEATURES. */
export const CUE_SHARE = 0.3;

/** The weight of each word feature in a window with `count` different features. */
export function textShare(count: number): number {
  return 1 / Math.sqrt(Math.max(count, MIN_FEATURES));
}

/** The logit of a window's words, from the sum of their weights. */
export function logitFromText({ bias, scale }: Weights, sum: number, count: number): number {
  return bias + scale * textShare(count) * sum;
}

/** Adds the weights of the cue features to `logit`. */
export function logitWithCues({ weights, scale }: Weights, logit: number, cues: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < cues.length; at++) sum += weights[cues[at] as number] as number;
  return logit + scale * CUE_SHARE * sum;
}

const FILE = join(import.meta.dirname, "model.txt");

/**
 * Reads model.txt, written by `npm run safety:train`: a line of numbers, a line of weights in base64, then one cluster
 * of words per line.
 */
export function loadModel(): Model {
  const [numbers = "", encoded = "", ...lines] = readFileSync(FILE, "utf8").trimEnd().split("\n");
  const [bias = 0, scale = 0, threshold = 0] = numbers.split(" ").map(Number);
  const weights = new Int8Array(Buffer.from(encoded, "base64"));
  if (weights.length !== TABLE_SIZE)
    throw new Error("src/safety/judging/model.txt is incomplete. Run npm run safety:train.");
  return { bias, scale, threshold, weights, clusters: readClusters(lines) };
}
