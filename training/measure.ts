import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Level } from "../src/safety/judging/detect.ts";
import { isDiscussing, type Page, readMaterial } from "./data.ts";
import { chooseOffset, FOLDS, foldOf, leftOutJudges, marginToKeep } from "./left-out.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import { areaUnderCurve, bootstrap, type Interval, recallAt, rocPicture, type Scored } from "./statistics.ts";

/**
 * `npm run safety:measure -- --data DIR`: measures detectors that are trained like the shipped one, each on pages of DIR
 * that it has not learnt and whose source it has not learnt. The threshold for a page is chosen on pages of other folds.
 * Writes docs/benchmarks/safety.md and the ROC.
 */

const DOCS = join(import.meta.dirname, "../docs");
/** The share of attacks that a simulated judge finds among those that it is asked about. */
const JUDGE_FINDS = 0.8;

const { pages, bags, clusters } = readMaterial();
const judges = leftOutJudges(bags, clusters);
const { offset, ordinary } = chooseOffset(judges, pages);
const offsets = Array.from({ length: FOLDS }, (_, fold) => {
  return offset - marginToKeep(ordinary.filter(({ page }) => foldOf(page.carrier) !== fold));
});
const measured = (level: Level): Outcome[] => {
  console.error(`judging ${pages.length} pages by ${level}`);
  return pages.map((page) => outcomeOf(judges(page, offsets[foldOf(page.carrier)] ?? offset), page, level));
};
console.error(`offsets by fold: ${offsets.map((each) => each.toFixed(2)).join(", ")}`);
const balanced = measured("balanced");
const strict = measured("strict");
const report = [...mainReport(), ...strictReport(), ...judgeReport(), ...sourceReport(), ...techniqueReport()].join(
  "\n",
);
writeFileSync(join(DOCS, "benchmarks/safety.md"), report);
writeFileSync(join(DOCS, "pictures/safety-roc.svg"), rocPicture(scored(balanced)));
process.stdout.write(report);

function scored(list: readonly Outcome[]): Scored[] {
  return list.map(({ page, score }) => ({ is_attack: page.is_attack, score }));
}

function attacks(list: readonly Outcome[]): Outcome[] {
  return list.filter(({ page }) => page.is_attack);
}

function honest(list: readonly Outcome[], isWanted: (page: Page) => boolean): Outcome[] {
  return list.filter(({ page }) => !page.is_attack && isWanted(page));
}

function shareOf(list: readonly Outcome[], isCounted: (outcome: Outcome) => boolean): number {
  return list.filter(isCounted).length / Math.max(1, list.length);
}

function flagged(list: readonly Outcome[]): number {
  return shareOf(list, ({ is_flagged }) => is_flagged);
}

function residual(list: readonly Outcome[]): number {
  return shareOf(attacks(list), ({ is_flagged, is_survived }) => is_survived && !is_flagged);
}

function macroResidual(list: readonly Outcome[]): number {
  const shares = [...Map.groupBy(attacks(list), ({ page }) => page.technique).values()].map(residual);
  return shares.reduce((sum, share) => sum + share, 0) / Math.max(1, shares.length);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)}%`;
}

function row(name: string, { value, low, high }: Interval, form = percent): string {
  return `| ${name} | ${form(value)} | ${form(low)}–${form(high)} |`;
}

/** The rows that both levels have. */
function levelRows(list: readonly Outcome[]): string[] {
  const usual = honest(list, (page) => !isDiscussing(page));
  return [
    "| | measured | 95% |",
    "| --- | --: | --: |",
    row("residual: the attack survives and the page is not flagged", bootstrap(attacks(list), residual)),
    row("residual, averaged over techniques", bootstrap(attacks(list), macroResidual)),
    row("ordinary pages flagged", bootstrap(usual, flagged)),
    row("pages that discuss attacks flagged", bootstrap(honest(list, isDiscussing), flagged)),
  ];
}

function mainReport(): string[] {
  const usual = balanced.filter(({ page }) => !isDiscussing(page));
  return [
    "# Safety: the detector's figures",
    "",
    "Written by `npm run safety:measure -- --data DIR`; do not edit it by hand. Each page is judged by a detector that has",
    "learnt neither the page nor its source, at a threshold chosen on other pages. The shipped detector is trained in the same",
    "way, on all of them. The intervals are 95%, by bootstrap over pages.",
    "",
    `${attacks(balanced).length} attacks, ${honest(usual, () => true).length} ordinary pages, ${honest(balanced, isDiscussing).length} pages that discuss attacks.`,
    "",
    "## The level `balanced`",
    "",
    ...levelRows(balanced),
    row("AUC", bootstrap(scored(balanced), areaUnderCurve), (value) => value.toFixed(3)),
    row(
      "recall at 1% of ordinary pages",
      bootstrap(scored(usual), (some) => recallAt(some, 0.01)),
    ),
    row(
      "attacks with a marked passage",
      bootstrap(attacks(balanced), (some) => shareOf(some, ({ is_marked }) => is_marked)),
    ),
    "",
    "![ROC](../pictures/safety-roc.svg)",
    "",
  ];
}

function strictReport(): string[] {
  return ["## The level `strict`", "", ...levelRows(strict), ""];
}

function residualWithJudge(list: readonly Outcome[]): number {
  const through = attacks(list).filter(({ is_flagged, is_survived }) => is_survived && !is_flagged);
  const expected = through.map(({ is_asked_about_attack }) => (is_asked_about_attack ? 1 - JUDGE_FINDS : 1));
  return expected.reduce((sum, each) => sum + each, 0) / Math.max(1, attacks(list).length);
}

function judgeReport(): string[] {
  const asked = (list: readonly Outcome[]) => shareOf(list, ({ is_asked }) => is_asked);
  const usual = honest(balanced, (page) => !isDiscussing(page));
  return [
    "## A second opinion",
    "",
    "A judge of doubtful text (`when: doubtful`), at `balanced`. The residual is what is expected of a simulated judge that",
    `finds ${100 * JUDGE_FINDS}% of the attacks that it is asked about.`,
    "",
    "| | measured | 95% |",
    "| --- | --: | --: |",
    row("ordinary pages with text to ask about", bootstrap(usual, asked)),
    row("pages that discuss attacks with text to ask about", bootstrap(honest(balanced, isDiscussing), asked)),
    row("attacks with text to ask about", bootstrap(attacks(balanced), asked)),
    row("residual without a judge", bootstrap(attacks(balanced), residual)),
    row("residual with the simulated judge", bootstrap(attacks(balanced), residualWithJudge)),
    "",
  ];
}

function sourceReport(): string[] {
  return [
    "## By source",
    "",
    "| source of the attacks | attacks | flagged | residual | 95% |",
    "| --- | --: | --: | --: | --: |",
    ...[...Map.groupBy(attacks(balanced), ({ page }) => page.source)].sort().map(([source, some]) => {
      return row(`${source} | ${some.length} | ${percent(flagged(some))}`, bootstrap(some, residual));
    }),
    "",
    "| source of the honest pages | pages | flagged | sentences kept |",
    "| --- | --: | --: | --: |",
    ...[
      ...Map.groupBy(
        honest(balanced, () => true),
        ({ page }) => page.source,
      ),
    ]
      .sort()
      .map(([source, some]) => {
        return `| ${source} | ${some.length} | ${percent(flagged(some))} | ${keptShare(some)} |`;
      }),
    "",
  ];
}

function keptShare(list: readonly Outcome[]): string {
  const shares = list.map(({ kept }) => kept).filter((kept) => kept !== null);
  return shares.length === 0 ? "" : percent(shares.reduce((sum, kept) => sum + kept, 0) / shares.length);
}

function techniqueReport(): string[] {
  return [
    "## By technique",
    "",
    "| technique | attacks | flagged | residual |",
    "| --- | --: | --: | --: |",
    ...[...Map.groupBy(attacks(balanced), ({ page }) => page.technique)].sort().map(([technique, some]) => {
      return `| ${technique} | ${some.length} | ${percent(flagged(some))} | ${percent(residual(some))} |`;
    }),
    "",
  ];
}
