import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Weights } from "../src/safety/judging/model.ts";
import { readMaterial } from "./data.ts";
import { learn } from "./learn.ts";
import { chooseOffset, leftOutJudges, THRESHOLD } from "./left-out.ts";

/**
 * `npm run safety:train -- --data DIR`: trains the detector on this folder and on DIR, and writes
 * src/safety/judging/model.txt. The same two folders give the same file, byte for byte.
 */

const MODEL_FILE = join(import.meta.dirname, "../src/safety/judging/model.txt");

const { pages, bags, clusters, cluster_lines } = readMaterial();
const { offset } = chooseOffset(leftOutJudges(bags, clusters), pages);
console.error("learning everything");
const { bias, weights } = learn(bags);
write(bias + offset, weights);

/** Writes the weights in 256 steps. */
function write(bias: number, weights: Weights["weights"]): void {
  let most = 0;
  for (const weight of weights) most = Math.max(most, Math.abs(weight));
  const scale = most / 127;
  const rounded = Int8Array.from(weights, (weight) => Math.round(weight / scale));
  const numbers = [bias, scale, THRESHOLD].map((value) => value.toPrecision(7)).join(" ");
  writeFileSync(MODEL_FILE, `${[numbers, Buffer.from(rounded).toString("base64"), ...cluster_lines].join("\n")}\n`);
}
