import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readClusters } from "../src/safety/judging/clusters.ts";
import { detectWith } from "../src/safety/judging/detect.ts";
import type { Model, Weights } from "../src/safety/judging/model.ts";
import { type Example, foreignExamples, foreignPages, ownExamples, specimens } from "./corpus.ts";
import { type Bag, bagOf, learn } from "./learn.ts";
import { type JudgedPage, judgedPage, judgePage, measure, thresholdAt } from "./measure.ts";
import { harmOf, outcomeOf } from "./outcome.ts";
import { type Group, writeReport } from "./report.ts";

/**
 * `npm run safety:train -- --data DIR`: trains the detector, writes src/safety/judging/model.txt, and measures it, also
 * with each source left out of the training. Without DIR it trains on this folder only and keeps the threshold. The
 * same data give the same file, byte for byte.
 */

/** The share of ordinary unseen pages above the threshold without its reserve. */
const FALSE_ALARMS = 0.003;
/**
 * The reserve added to the threshold, in logits. The settings were chosen on these pages, so other pages score higher.
 */
const RESERVE = 0.75;
const FOLDS = 6;
/** The weight of pages that quote attacks to discuss them: they show little of ordinary pages. */
const DISCUSSING_WEIGHT = 0.3;
/** The threshold without pages to compute it from. */
const USUAL_THRESHOLD = 1;

const MODEL_FILE = join(import.meta.dirname, "../src/safety/judging/model.txt");
const clusterLines = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
  .trimEnd()
  .split("\n");
const clusters = readClusters(clusterLines);

/** A training example, and the fold of its source; null is in every training. */
interface Lesson {
  readonly bag: Bag;
  readonly fold: number | null;
}

const { data } = parseArgs({ options: { data: { type: "string" } } }).values;
const lessons = ownExamples().map((example): Lesson => ({ bag: bagOfExample(example), fold: null }));
if (data === undefined) {
  write(learn(lessons.map(({ bag }) => bag)), USUAL_THRESHOLD);
} else {
  const pages = foreignPages(data).map((page) => ({ page, fold: foldOf(page.source, page.id) }));
  const judged = pages.map(({ page, fold }) => ({ ...judgedPage(page, clusters), fold }));
  for (const example of foreignExamples(data)) {
    lessons.push({ bag: bagOfExample(example), fold: foldOf(example.source, "") });
  }
  for (const page of judged) lessons.push(...honestLessons(page));
  const apart = Array.from({ length: FOLDS }, (_, fold) => withoutFold(fold));
  const judgedApart = judged.map((page) => judgePage(apart[page.fold] as Weights, page));
  const threshold = thresholdAt(judgedApart, FALSE_ALARMS) + RESERVE;
  const rounded = write(learn(lessons.map(({ bag }) => bag)), threshold);
  const judgedTogether = judged.map((page) => judgePage(rounded, page));
  const modelOf = (weights: Weights): Model => ({ ...weights, threshold, clusters });
  writeReport({
    seen: {
      ...measure(judgedTogether, threshold),
      ...harmOf(pages.map(({ page }) => outcomeOf(modelOf(rounded), page))),
    },
    left_out: {
      ...measure(judgedApart, threshold),
      ...harmOf(pages.map(({ page, fold }) => outcomeOf(modelOf(apart[fold] as Weights), page))),
    },
    held_out: heldOut(modelOf(rounded)),
  });
}

/** The half of corpora/ that training never uses, by group. */
function heldOut(model: Model): Group[] {
  const kept = specimens().filter(({ is_held_out }) => is_held_out);
  return [...Map.groupBy(kept, ({ group, is_attack }) => `${is_attack} ${group}`).values()].map((texts) => {
    const [{ group, is_attack } = { group: "", is_attack: false }] = texts;
    const found = texts.map(({ text }) => detectWith(model, text, "balanced", 0));
    return {
      group,
      is_attack,
      texts: texts.length,
      flagged: found.filter(({ score }) => score >= 0.5).length,
      touched: found.filter(({ passages }) => passages.length > 0).length,
    };
  });
}

function bagOfExample({ text, is_attack, weight }: Example): Bag {
  return bagOf(text, clusters, is_attack, weight);
}

function honestLessons(page: JudgedPage & { fold: number }): Lesson[] {
  if (page.is_attack) return [];
  const weight = /discusses/.test(page.technique) ? DISCUSSING_WEIGHT : 1;
  const hidden = page.hidden.flatMap(({ bag }) => bag.samples);
  const bags = [
    { ...page.visible.bag, weight },
    { samples: hidden, is_attack: false, weight },
  ];
  return bags.filter(({ samples }) => samples.length > 0).map((bag) => ({ bag, fold: page.fold }));
}

/** Trained on all folds except one. */
function withoutFold(fold: number): Weights {
  return learn(lessons.filter((lesson) => lesson.fold !== fold).map(({ bag }) => bag));
}

/** Sources that share texts share a fold. The largest source, with unrelated pages, is split in two. */
function foldOf(source: string, id: string): number {
  if (/trafilatura/.test(source)) return Number.parseInt(id.slice(-1), 16) % 2;
  const folds = [/spikee/, /injecagent/, /agent-threat|article-extraction/, /cyberseceval|purplellama|readability/];
  const found = folds.findIndex((names) => names.test(source));
  if (found >= 0) return found;
  return /bipia|prompt-engineering/.test(source) ? 4 : 5;
}

/** Writes the weights in 256 steps and returns the rounded weights. */
function write({ bias, weights }: Weights, threshold: number): Weights {
  let most = 0;
  for (const weight of weights) most = Math.max(most, Math.abs(weight));
  const scale = most / 127;
  const rounded = Int8Array.from(weights, (weight) => Math.round(weight / scale));
  const numbers = [bias, scale, threshold].map((value) => value.toPrecision(7)).join(" ");
  writeFileSync(MODEL_FILE, `${[numbers, Buffer.from(rounded).toString("base64"), ...clusterLines].join("\n")}\n`);
  return { bias, weights: rounded, scale };
}
