import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Figures } from "./measure.ts";

const FILE = join(import.meta.dirname, "../docs/benchmarks/safety.md");

/** Writes docs/benchmarks/safety.md: the sets as trained on, and with each source left out, side by side. */
export function writeReport({ seen, left_out }: { seen: Figures; left_out: Figures }): void {
  const percent = (value: number) => `${(100 * value).toFixed(1)}%`;
  const row = (name: string, figure: (figures: Figures) => string) =>
    `| ${name} | ${figure(seen)} | ${figure(left_out)} |`;
  const table = [
    "|  | sources seen in training | each source left out |",
    "| --- | --: | --: |",
    row("AUC", ({ auc }) => auc.toFixed(3)),
    row("recall", ({ recall }) => percent(recall)),
    row("recall where 1% of all honest pages are flagged", ({ recall_at_1pct }) => percent(recall_at_1pct)),
    row("ordinary pages flagged", ({ false_alarms_ordinary }) => percent(false_alarms_ordinary)),
    row("pages that discuss attacks flagged", ({ false_alarms_discussing }) => percent(false_alarms_discussing)),
    ...Object.keys(seen.recall_by_source).map((source) =>
      row(`recall, ${source}`, ({ recall_by_source }) => percent(recall_by_source[source] ?? 0)),
    ),
  ];
  const text = [
    "# Safety: the detector's figures",
    "",
    "Written by `npm run safety:train -- --data DIR`; nothing here is edited by hand. The right-hand column is the one to",
    "believe: each page is judged by a model that was trained without its source.",
    "",
    ...table,
    "",
  ];
  writeFileSync(FILE, text.join("\n"));
  process.stdout.write(`${table.join("\n")}\n`);
}
