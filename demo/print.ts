import { styleText } from "node:util";

/** Prints the demo's output. */

const number = new Intl.NumberFormat("en-US");

/** Formats a number with grouped thousands. */
export function grouped(value: number): string {
  return number.format(value);
}

export function heading(text: string): void {
  console.log(`\n${styleText("bold", text)}`);
}

export function line(text: string): void {
  console.log(`  ${text}`);
}

/** Indents a text of several lines and cuts it to `most` lines. */
export function block(text: string, most = 14): void {
  const lines = text.trim().split("\n");
  for (const each of lines.slice(0, most)) line(styleText("dim", each.slice(0, 150)));
  if (lines.length > most) line(styleText("dim", `… ${lines.length - most} more lines`));
}

/** A table whose number columns are right-aligned. */
export function table(header: string[], rows: (string | number)[][]): void {
  const texts = rows.map((row) => row.map((cell) => (typeof cell === "number" ? grouped(cell) : cell)));
  const widths = header.map((title, column) =>
    Math.max(title.length, ...texts.map((row) => (row[column] ?? "").length)),
  );
  const cell = (text: string, column: number, right: boolean) => {
    const width = widths[column] ?? 0;
    return right ? text.padStart(width) : text.padEnd(width);
  };
  const isNumber = (column: number) => rows.some((row) => typeof row[column] === "number");
  line(styleText("dim", header.map((title, column) => cell(title, column, isNumber(column))).join("  ")));
  for (const row of texts) line(row.map((text, column) => cell(text, column, isNumber(column))).join("  "));
}
