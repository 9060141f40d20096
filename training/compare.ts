import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Clusters, readClusters } from "../src/safety/judging/clusters.ts";
import { TABLE_SIZE } from "../src/safety/judging/features.ts";
import { hashed, hashOf, readLexicon } from "../src/safety/judging/lexicon.ts";
import { piecesOf, windowsOf } from "../src/safety/judging/windows.ts";
import { readable } from "../src/safety/reading/readable.ts";
import { type Example, foreignPages, MIXED, ownExamples } from "./corpus.ts";
import { type Bag, bagOf, learn, logitOf, type Sample } from "./learn.ts";
import { learnNetwork } from "./network.ts";
import { areaUnderCurve, bootstrap, recallAt, type Scored } from "./statistics.ts";
import { taggedTexts } from "./texts.ts";

/**
 * `npm run safety:compare -- --data DIR`: trains three kinds of model on the same texts and measures each on texts with
 * sources, languages and manners left out, and on the pages of DIR/dev.jsonl. A text's score is that of its worst
 * window; rules for the whole page (context.ts) do not count, so the figures compare the models only.
 */

interface Candidate {
  readonly name: string;
  readonly bagOf: (text: string, clusters: Clusters, is_attack: boolean, weight: number) => Bag;
  /** @returns the logit of a window */
  readonly learn: (bags: readonly Bag[]) => (sample: Sample) => number;
}

const regression = (bags: readonly Bag[]) => {
  const weights = learn(bags);
  return (sample: Sample) => logitOf(weights, sample);
};
const CANDIDATES: readonly Candidate[] = [
  { name: "shipped: words, clusters, lexicon, cues; regression", bagOf, learn: regression },
  { name: "hashed n-grams of words and letters alone; regression", bagOf: gramsOf, learn: regression },
  { name: "features of the shipped one; network of 12 hidden units", bagOf, learn: learnNetwork },
];

const LETTERS = 4;
/** One of this many tags is left out. */
const LEFT_OUT_EVERY = 3;
const TAGS = ["source", "language", "manner"] as const;

/** Words, pairs of words, and runs of four letters of each window. */
function gramsOf(text: string, _clusters: Clusters, is_attack: boolean, weight: number): Bag {
  const pieces = piecesOf(text);
  const samples = windowsOf(pieces).map(({ first, last }) => {
    const folded = pieces
      .slice(first, last + 1)
      .map((piece) => piece.folded)
      .join(" ");
    const grams = new Set<number>();
    const add = (hash: number) => grams.add((hash ^ (hash >>> 15)) & (TABLE_SIZE - 1));
    let before = 0;
    for (const word of folded.match(/[\p{L}\p{M}]+|[^\s\p{L}\p{M}]/gu) ?? []) {
      const own = hashOf(word);
      add(own);
      add(hashed(Math.imul(own, 0x85ebca6b), before & 0xffff));
      before = own;
    }
    for (let at = 0; at + LETTERS <= folded.length; at++) add(hashOf(`#${folded.slice(at, at + LETTERS)}`));
    return { text: Int32Array.from(grams), cues: new Int32Array(0) };
  });
  return { samples, is_attack, weight };
}

const { data } = parseArgs({ options: { data: { type: "string" } } }).values;
if (data === undefined) throw new Error("npm run safety:compare -- --data DIR");
const lines = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
  .trimEnd()
  .split("\n");
const everything = readClusters(lines);
const texts = taggedTexts();
const examples = ownExamples();
const pages = foreignPages(data);
console.log(
  "| left out | model | AUC | 95% | recall at 1% of honest texts | 95% |\n| --- | --- | --: | --: | --: | --: |",
);
for (const tag of TAGS) {
  const values = [...new Set(texts.map((text) => text[tag]))].sort();
  const without = values.filter((value, at) => value !== "English" && at % LEFT_OUT_EVERY === 0);
  const clusters = tag === "language" ? readClusters(lines, readLexicon(without)) : everything;
  const isLearnt = (example: Example) =>
    !(tag === "language" && example.language === MIXED) && !without.includes(example[tag] ?? "");
  const learnt = examples.filter(isLearnt);
  const judged = texts.filter((text) => without.includes(text[tag]));
  for (const candidate of CANDIDATES)
    print(
      tag,
      candidate,
      learnt,
      clusters,
      judged.map(({ text, is_attack }) => ({ parts: [text], is_attack })),
    );
}
const whole = pages.map(({ content, kind, is_attack }) => {
  const { text, hidden } = readable(content, kind);
  return { parts: [text, ...new Set(hidden.map((part) => part.text))], is_attack };
});
for (const candidate of CANDIDATES) print("pages of DIR", candidate, examples, everything, whole);

function print(
  name: string,
  { name: model, bagOf: read, learn: train }: Candidate,
  learnt: readonly Example[],
  clusters: Clusters,
  judged: readonly { parts: readonly string[]; is_attack: boolean }[],
): void {
  const logit = train(learnt.map(({ text, is_attack, weight }) => read(text, clusters, is_attack, weight)));
  const scored: Scored[] = judged.map(({ parts, is_attack }) => {
    const samples = parts.flatMap((part) => read(part, clusters, is_attack, 1).samples);
    return { is_attack, score: samples.reduce((most, sample) => Math.max(most, logit(sample)), -20) };
  });
  const auc = bootstrap(scored, areaUnderCurve);
  const recall = bootstrap(scored, (some) => recallAt(some, 0.01));
  const share = (value: number) => `${(100 * value).toFixed(1)}%`;
  console.log(
    `| ${name} (${judged.length}) | ${model} | ${auc.value.toFixed(3)} | ${auc.low.toFixed(3)}–${auc.high.toFixed(3)} | ${share(recall.value)} | ${share(recall.low)}–${share(recall.high)} |`,
  );
}
