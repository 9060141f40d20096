import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { detectWith } from "../src/safety/judging/detect.ts";
import { loadModel } from "../src/safety/judging/model.ts";
import type { ContentKind } from "../src/safety/reading/readable.ts";
import { sanitize } from "../src/safety/sanitize.ts";
import { specimens } from "./corpus.ts";
import { bootstrap } from "./statistics.ts";

/**
 * `npm run safety:threshold`: the logits that 0.4% and 2% of ordinary documents exceed, to choose the threshold in train.ts
 * and the levels in detect.ts. The documents are the Markdown files of the installed npm packages: no detector learnt them,
 * and no test contains them. Every second one is read, to save time.
 */

const PACKAGES = join(import.meta.dirname, "../node_modules");
const MOST_CHARS = 60_000;
const SHARES = [0.002, 0.004, 0.01, 0.02];
const model = loadModel();

function logitOf(content: string, kind: ContentKind): number {
  let most = Number.NEGATIVE_INFINITY;
  sanitize({ content, kind, level: "balanced", mark: "mark-of-measuring" }, (text, level, evidence) => {
    const detection = detectWith(model, text, level, evidence);
    const score = Math.min(Math.max(detection.score, 1e-12), 1 - 1e-12);
    most = Math.max(most, model.threshold + Math.log(score / (1 - score)));
    return { passages: [], score: detection.score };
  });
  return most;
}

const shareAbove = (logits: readonly number[], bound: number): number =>
  logits.filter((logit) => logit >= bound).length / Math.max(1, logits.length);
const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;

const texts = new Set(
  globSync("**/*.md", { cwd: PACKAGES })
    .sort()
    .map((name) => readFileSync(join(PACKAGES, name), "utf8").slice(0, MOST_CHARS)),
);
const documents = [...texts]
  .filter((_text, at) => at % 2 === 0)
  .map((text) => logitOf(text, "markdown"))
  .sort((a, b) => b - a);
console.log(`${documents.length} documents; the threshold is ${model.threshold}`);
for (const share of SHARES) {
  const { value, low, high } = bootstrap(documents, (some) => {
    return some.toSorted((a, b) => b - a)[Math.floor(share * some.length)] ?? Number.NaN;
  });
  console.log(`${percent(share)} exceed ${value.toFixed(2)} (95%: ${low.toFixed(2)} to ${high.toFixed(2)})`);
}
console.log("\nHonest texts of corpora/ that are kept out of training; they resemble orders on purpose");
const held = specimens().filter(({ is_attack, is_held_out }) => !is_attack && is_held_out);
for (const [group, some] of Map.groupBy(held, (specimen) => specimen.group)) {
  const logits = some.map(({ text }) => logitOf(text, text.startsWith("<") ? "html" : "markdown"));
  console.log(`${group}: ${logits.length}, touched by balanced ${percent(shareAbove(logits, model.threshold))}`);
}
