import type { Outcome, Ratio, Table } from "./outcome.ts";
import { rounded } from "./statistics.ts";

/** Prints tables, ratios and the JSON line of one benchmark. */
export function printOutcome(outcome: Outcome): void {
  console.log(`\n${outcome.title}\n`);
  for (const table of outcome.tables) console.log(`${textTable(table)}\n`);
  for (const ratio of outcome.ratios) console.log(ratioText(ratio));
  console.log(JSON.stringify(outcome, (_, value) => (typeof value === "number" ? rounded(value) : value)));
}

/** "A / B: 2.1 (goal ≥ 2)" */
export function ratioText({ of, to, value, goal }: Ratio): string {
  return `${of} / ${to}: ${rounded(value)}${goal === "" ? "" : ` (goal ${goal})`}`;
}

/** A figure for people: three significant digits, thousands parted; "–" where there is none. */
export function figureText(value: number): string {
  return Number.isNaN(value) ? "–" : rounded(value).toLocaleString("en-US", { maximumFractionDigits: 10 });
}

function textTable({ caption, columns, rows }: Table): string {
  const cells = [["", ...columns], ...rows.map(({ name, values }) => [name, ...values.map(figureText)])];
  const widths = ["", ...columns].map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  const lines = cells.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  "),
  );
  return [caption, ...lines].join("\n");
}
