import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readClusters } from "../src/safety/judging/clusters.ts";
import { detectWith } from "../src/safety/judging/detect.ts";
import { loadModel, type Model } from "../src/safety/judging/model.ts";
import { ownExamples, taggedExample } from "./corpus.ts";
import { bagOf, learn } from "./learn.ts";
import { bootstrap } from "./statistics.ts";
import { type TaggedText, taggedTexts } from "./texts.ts";

/**
 * `npm run safety:rounds`: adversarial rounds. Each file of rounds/ is measured with a detector that has learnt half
 * of the lines of the rounds before it. Prints how many attacks of the kept half pass, before and after the detector
 * learns the other half.
 */

const shipped = loadModel();
const lines = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
  .trimEnd()
  .split("\n");
const clusters = readClusters(lines);
const isKept = ({ lot }: TaggedText): boolean => lot % 2 === 1;

function trainedOn(rounds: readonly TaggedText[]): Model {
  const examples = [...ownExamples(), ...rounds.map(taggedExample)];
  const weights = learn(examples.map(({ text, is_attack, weight }) => bagOf(text, clusters, is_attack, weight)));
  return { ...weights, threshold: shipped.threshold, clusters };
}

function passing(model: Model, texts: readonly TaggedText[]): string {
  const scores = texts.map(({ text }) => detectWith(model, text, "balanced", 0).score);
  const { value, low, high } = bootstrap(scores, (some) => some.filter((score) => score < 0.5).length / some.length);
  const percent = (share: number) => `${(100 * share).toFixed(0)}%`;
  return `${percent(value)} (${percent(low)}–${percent(high)})`;
}

let model: Model = shipped;
const learnt: TaggedText[] = [];
for (const [round, texts] of Map.groupBy(taggedTexts("rounds"), ({ source }) => source)) {
  const kept = texts.filter(isKept);
  const before = passing(model, kept);
  learnt.push(...texts.filter((text) => !isKept(text)));
  model = trainedOn(learnt);
  console.log(`${round}: ${kept.length} attacks kept; ${before} pass before, ${passing(model, kept)} after`);
}
