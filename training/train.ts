import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readClusters } from "../src/safety/judging/clusters.ts";
import type { Weights } from "../src/safety/judging/model.ts";
import { ownExamples } from "./corpus.ts";
import { bagOf, learn } from "./learn.ts";

/**
 * `npm run safety:train`: trains the detector on this folder, and only on it, and writes src/safety/judging/model.txt.
 * The same folder gives the same file, byte for byte.
 */

/**
 * The threshold, in logits: about 0.4% of ordinary pages are above it. It was chosen on pages that are neither trained on
 * nor part of the test (docs/history/2026-11-23-detector.md).
 */
const THRESHOLD = 1;

const MODEL_FILE = join(import.meta.dirname, "../src/safety/judging/model.txt");
const clusterLines = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
  .trimEnd()
  .split("\n");
const clusters = readClusters(clusterLines);

write(learn(ownExamples().map(({ text, is_attack, weight }) => bagOf(text, clusters, is_attack, weight))));

/** Writes the weights in 256 steps. */
function write({ bias, weights }: Weights): void {
  let most = 0;
  for (const weight of weights) most = Math.max(most, Math.abs(weight));
  const scale = most / 127;
  const rounded = Int8Array.from(weights, (weight) => Math.round(weight / scale));
  const numbers = [bias, scale, THRESHOLD].map((value) => value.toPrecision(7)).join(" ");
  writeFileSync(MODEL_FILE, `${[numbers, Buffer.from(rounded).toString("base64"), ...clusterLines].join("\n")}\n`);
}
