import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { postgresBinaries } from "../../test/support/postgres-server.ts";
import { barChart } from "./chart.ts";
import type { Effort, Outcome, Table } from "./outcome.ts";
import { figureText, ratioText } from "./print.ts";
import { canPin } from "./processes.ts";

const introduction = (effort: Effort) => `# Benchmarks

Written by \`npm run bench -- --peers --write\`; do not edit it by hand. All runs on one machine, over loopback,
with PostgreSQL's and the embedded database's sync to disk turned on. Contenders run in turn, and each figure is the
median of ${effort.rounds} round${effort.rounds === 1 ? "" : "s"}. Absolute figures change from machine to machine; **the ratios, between programs
measured in the same run, count.**
${effort.scale < 1 ? "\n**These come from a quick run (`--quick`), short and on a machine that had other work: orders of magnitude only.**\n" : ""}
- \`npm run bench\` runs everything, \`npm run bench -- completions\` one part, \`-- --quick\` a short run, \`-- --rounds 1\` one of a third of the time.
- \`npm run crash -- --minutes 10 --seed 1\` is the other half: \`kill -9\` under load, and every acknowledged charge
  is accounted for.
`;

/** Writes `benchmarks.md` and its pictures into `folder`. */
export function writeReport(folder: string, outcomes: readonly Outcome[], run: { date: string; effort: Effort }): void {
  mkdirSync(join(folder, "benchmarks"), { recursive: true });
  const sections = outcomes.map((outcome) => {
    const tables = outcome.tables.map((table, index) => tableSection(folder, `${outcome.name}-${index + 1}`, table));
    const ratios = outcome.ratios.map((ratio) => `- ${ratioText(ratio)}`).join("\n");
    return [`## ${outcome.title}`, ...tables, ...(ratios === "" ? [] : [ratios])].join("\n\n");
  });
  writeFileSync(
    join(folder, "benchmarks.md"),
    `${[introduction(run.effort) + machine(run.date), ...sections].join("\n\n")}\n`,
  );
}

function tableSection(folder: string, name: string, { caption, columns, rows, drawn = [] }: Table): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const table = [
    line(["", ...columns]),
    line(["---", ...columns.map(() => "--:")]),
    ...rows.map((row) => line([row.name, ...row.values.map(figureText)])),
  ].join("\n");
  const pictures = drawn.map((column) => {
    const title = columns.length > 1 ? `${caption}: ${columns[column]}` : `${caption}, ${columns[column]}`;
    const bars = rows.map((row) => ({ name: row.name, value: row.values[column] ?? 0 }));
    const file = `benchmarks/${name}-${column + 1}.svg`;
    writeFileSync(join(folder, file), barChart(title.replaceAll("`", ""), bars));
    return `![${title.replaceAll("`", "")}](${file})`;
  });
  return [`### ${caption}`, table, ...pictures].join("\n\n");
}

/** The machine and versions of the measurement. */
function machine(date: string): string {
  const postgres = execFileSync(join(postgresBinaries() ?? "", "postgres"), ["--version"], { encoding: "utf8" });
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return `
Machine: ${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores, ${gigabytes} GB, ${process.platform}.
Node ${process.versions.node}, ${postgres.trim()}. ${canPin ? "Load and upstream on one core, the service on the other." : "Processes not held to cores."}
Date: ${date}.`;
}
