import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Figures } from "./measure.ts";
import type { Harm } from "./outcome.ts";

const FILE = join(import.meta.dirname, "../docs/benchmarks/safety.md");

/** The flagged texts of a group that training never saw, and the texts that lost a passage. */
export interface Group {
  readonly group: string;
  readonly is_attack: boolean;
  readonly texts: number;
  readonly flagged: number;
  readonly touched: number;
}

type Column = Figures & Harm;

/**
 * Writes docs/benchmarks/safety.md: the figures with all sources, and with each source left out, side by side; then our
 * own texts.
 */
export function writeReport(report: { seen: Column; left_out: Column; held_out: readonly Group[] }): void {
  const table = comparison(report);
  const own = [groupTable(report.held_out, true), groupTable(report.held_out, false)];
  const text = [
    "# Safety: the detector's figures",
    "",
    "Written by `npm run safety:train -- --data DIR`; do not edit it by hand. Rely on the right-hand column: there, each",
    "page is judged by a model that was trained without its source.",
    "",
    ...table,
    "",
    "*Residual*: attacks with at least half of their words still in the text of a page that was not flagged.",
    "",
    "## Texts written against the detector",
    "",
    "Training never uses half of training/corpora. The attacks were written while reading the detector's code, and changed",
    "until they passed; the honest texts are of kinds that such filters mistake for attacks. The texts named `blind` and",
    "`pages` were written before the detector's results were known.",
    "",
    "*Flagged*: the whole text counts as an attack. *Touched*: a passage was removed from it.",
    "",
    ...(own[0] ?? []),
    "",
    ...(own[1] ?? []),
    "",
  ];
  writeFileSync(FILE, text.join("\n"));
  process.stdout.write(`${[...table, ...own.flat()].join("\n")}\n`);
}

const percent = (value: number) => `${(100 * value).toFixed(1)}%`;

function comparison({ seen, left_out }: { seen: Column; left_out: Column }): string[] {
  const row = (name: string, figure: (figures: Column) => string) =>
    `| ${name} | ${figure(seen)} | ${figure(left_out)} |`;
  return [
    "|  | sources seen in training | each source left out |",
    "| --- | --: | --: |",
    row("residual", ({ residual }) => percent(residual)),
    row("residual, averaged over techniques", ({ residual_by_technique }) => percent(residual_by_technique)),
    row("AUC", ({ auc }) => auc.toFixed(3)),
    row("recall", ({ recall }) => percent(recall)),
    row("recall where 1% of all honest pages are flagged", ({ recall_at_1pct }) => percent(recall_at_1pct)),
    row("ordinary pages flagged", ({ false_alarms_ordinary }) => percent(false_alarms_ordinary)),
    row("pages that discuss attacks flagged", ({ false_alarms_discussing }) => percent(false_alarms_discussing)),
    row("sentences of honest pages kept", ({ sentences_kept }) => percent(sentences_kept)),
    row("ordinary pages that lose a passage", ({ ordinary_pages_touched }) => percent(ordinary_pages_touched)),
    ...Object.keys(seen.recall_by_source).map((source) =>
      row(`recall, ${source}`, ({ recall_by_source }) => percent(recall_by_source[source] ?? 0)),
    ),
  ];
}

function groupTable(groups: readonly Group[], is_attack: boolean): string[] {
  const chosen = groups.filter((group) => group.is_attack === is_attack);
  const sum = (field: "texts" | "flagged" | "touched") => chosen.reduce((total, group) => total + group[field], 0);
  const all = { group: "all", texts: sum("texts"), flagged: sum("flagged"), touched: sum("touched") };
  return [
    `| ${is_attack ? "attacks" : "honest texts"} | texts | flagged | touched |`,
    "| --- | --: | --: | --: |",
    ...[...chosen, all].map(
      ({ group, texts, flagged, touched }) =>
        `| ${group} | ${texts} | ${percent(flagged / texts)} | ${percent(touched / texts)} |`,
    ),
  ];
}
