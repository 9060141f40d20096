import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Clusters, readClusters } from "../src/safety/judging/clusters.ts";
import { detectWith } from "../src/safety/judging/detect.ts";
import { readLexicon } from "../src/safety/judging/lexicon.ts";
import { loadModel } from "../src/safety/judging/model.ts";
import { type Example, foreignPages, MIXED, ownExamples } from "./corpus.ts";
import { bagOf, learn } from "./learn.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import { areaUnderCurve, bootstrap, type Interval, recallAt, rocPicture, type Scored } from "./statistics.ts";
import { type TaggedText, taggedTexts } from "./texts.ts";

/**
 * `npm run safety:measure -- --data DIR`: measures the detector on the pages of DIR/dev.jsonl, which it never learnt, and
 * on its own texts with sources, languages and manners left out. Writes docs/benchmarks/safety.md and the ROC.
 */

const DOCS = join(import.meta.dirname, "../docs");
/** One of this many tags is left out. */
const LEFT_OUT_EVERY = 3;
const TAGS = ["source", "language", "manner"] as const;
type Tag = (typeof TAGS)[number];

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
const interval = ({ value, low, high }: Interval, form = percent): string =>
  `${form(value)} | ${form(low)}–${form(high)}`;

const { data } = parseArgs({ options: { data: { type: "string" } } }).values;
if (data === undefined) throw new Error("npm run safety:measure -- --data DIR");
const clusterLines = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
  .trimEnd()
  .split("\n");
const model = loadModel();
const pages = foreignPages(data);
const outcomes = pages.map((page) => outcomeOf(model, page));
const strict = pages.map((page) => outcomeOf(model, page, "strict"));
writeFileSync(join(DOCS, "pictures/safety-roc.svg"), rocPicture(scoredOf(outcomes, () => true)));
const texts = taggedTexts();
write([]);
// Written before the slow part too.
write(leftOutReport(TAGS.map((tag) => ({ tag, scored: leftOut(tag) }))));

function write(left_out: readonly string[]): void {
  const report = [...pagesReport(outcomes), ...strictReport(strict), ...left_out, ...techniqueReport(outcomes)].join(
    "\n",
  );
  writeFileSync(join(DOCS, "benchmarks/safety.md"), report);
  process.stdout.write(report);
}

function isDiscussing({ page }: Outcome): boolean {
  return /discusses/.test(page.technique);
}

function scoredOf(list: readonly Outcome[], isWanted: (outcome: Outcome) => boolean): Scored[] {
  return list.filter(isWanted).map(({ page, score }) => ({ is_attack: page.is_attack, score }));
}

/** Scores of the texts with the tags left out, by a model that learnt none of these tags. */
function leftOut(tag: Tag): Scored[] {
  const values = [...new Set(texts.map((text) => text[tag]))].sort();
  const without = values.filter((value, at) => value !== "English" && at % LEFT_OUT_EVERY === 0);
  const clusters = readClusters(clusterLines, readLexicon(tag === "language" ? without : []));
  const examples = ownExamples().filter((example) => isLearnt(example, tag, without));
  const weights = learn(examples.map(({ text, is_attack, weight }) => bagOf(text, clusters, is_attack, weight)));
  return scoresOf({ ...weights, threshold: model.threshold, clusters }, (text) => without.includes(text[tag]));
}

function isLearnt(example: Example, tag: Tag, without: readonly string[]): boolean {
  if (tag === "language" && example.language === MIXED) return false;
  return !without.includes(example[tag] ?? "");
}

function scoresOf(
  trained: Parameters<typeof detectWith>[0] & { clusters: Clusters },
  isWanted: (text: TaggedText) => boolean,
): Scored[] {
  return texts.filter(isWanted).map(({ text, is_attack }) => {
    return { is_attack, score: detectWith(trained, text, "balanced", 0).score };
  });
}

function shareOf(list: readonly Outcome[], isCounted: (outcome: Outcome) => boolean): number {
  return list.filter(isCounted).length / Math.max(1, list.length);
}

function residual(list: readonly Outcome[]): number {
  return shareOf(
    list.filter(({ page }) => page.is_attack),
    ({ is_flagged, is_survived }) => is_survived && !is_flagged,
  );
}

function macroResidual(list: readonly Outcome[]): number {
  const attacks = list.filter(({ page }) => page.is_attack);
  const shares = [...Map.groupBy(attacks, ({ page }) => page.technique).values()].map(residual);
  return shares.reduce((sum, share) => sum + share, 0) / Math.max(1, shares.length);
}

function pagesReport(list: readonly Outcome[]): string[] {
  const honest = (isWanted: (outcome: Outcome) => boolean) =>
    list.filter((one) => !one.page.is_attack && isWanted(one));
  const ordinary = honest((one) => !isDiscussing(one));
  const flagged = (some: readonly Outcome[]) => shareOf(some, ({ is_flagged }) => is_flagged);
  const row = (name: string, goal: string, measured: Interval, form = percent) =>
    `| ${name} | ${goal} | ${interval(measured, form)} |`;
  const attacks = list.filter(({ page }) => page.is_attack);
  return [
    "# Safety: the detector's figures",
    "",
    "Written by `npm run safety:measure -- --data DIR`; do not edit it by hand. The detector learns only texts of this",
    "repository, so each page and each attack of DIR is of a source that it has never seen. The intervals are 95%, by",
    "bootstrap over pages.",
    "",
    `${attacks.length} attacks, ${ordinary.length} ordinary pages, ${honest(isDiscussing).length} pages that discuss attacks.`,
    "",
    "| | goal | measured | 95% |",
    "| --- | --: | --: | --: |",
    row("residual: the attack survives and the page is not flagged", "≤ 22%", bootstrap(list, residual)),
    row("residual, averaged over techniques", "≤ 20%", bootstrap(list, macroResidual)),
    row(
      "AUC",
      "≥ .93",
      bootstrap(
        scoredOf(list, () => true),
        areaUnderCurve,
      ),
      (value) => value.toFixed(3),
    ),
    row(
      "recall at 1% false positives",
      "≥ 55%",
      bootstrap(
        scoredOf(list, (one) => !isDiscussing(one)),
        (some) => recallAt(some, 0.01),
      ),
    ),
    row("ordinary pages touched", "≤ 0.5%", bootstrap(ordinary, flagged)),
    row("pages that discuss attacks touched", "≤ 10%", bootstrap(honest(isDiscussing), flagged)),
    row(
      "attacks with a marked passage",
      "",
      bootstrap(attacks, (some) => shareOf(some, ({ is_marked }) => is_marked)),
    ),
    "",
    "![ROC](../pictures/safety-roc.svg)",
    "",
  ];
}

function strictReport(list: readonly Outcome[]): string[] {
  const honest = list.filter(({ page }) => !page.is_attack);
  const flagged = (some: readonly Outcome[]) => shareOf(some, ({ is_flagged }) => is_flagged);
  return [
    "## The level `strict`",
    "",
    "| | measured | 95% |",
    "| --- | --: | --: |",
    `| residual | ${interval(bootstrap(list, residual))} |`,
    `| ordinary pages touched | ${interval(
      bootstrap(
        honest.filter((one) => !isDiscussing(one)),
        flagged,
      ),
    )} |`,
    `| pages that discuss attacks touched | ${interval(bootstrap(honest.filter(isDiscussing), flagged))} |`,
    "",
  ];
}

function leftOutReport(list: readonly { tag: Tag; scored: readonly Scored[] }[]): string[] {
  return [
    "## Own texts, left out",
    "",
    "Texts of training/texts, each judged alone by a model that learnt no text with its tag. Every third tag is left out; a",
    "language is left out of the lexicon too. *Honest* texts resemble orders on purpose.",
    "",
    "| left out | texts | AUC | 95% | recall at 1% of honest texts | 95% |",
    "| --- | --: | --: | --: | --: | --: |",
    ...list.map(({ tag, scored }) => {
      const auc = interval(bootstrap(scored, areaUnderCurve), (value) => value.toFixed(3));
      return `| ${tag} | ${scored.length} | ${auc} | ${interval(bootstrap(scored, (some) => recallAt(some, 0.01)))} |`;
    }),
    "",
  ];
}

function techniqueReport(list: readonly Outcome[]): string[] {
  const attacks = Map.groupBy(
    list.filter(({ page }) => page.is_attack),
    ({ page }) => page.technique,
  );
  return [
    "## By technique",
    "",
    "| technique | attacks | flagged | residual |",
    "| --- | --: | --: | --: |",
    ...[...attacks].sort().map(([technique, some]) => {
      const flagged = shareOf(some, ({ is_flagged }) => is_flagged);
      return `| ${technique} | ${some.length} | ${percent(flagged)} | ${percent(residual(some))} |`;
    }),
    "",
  ];
}
