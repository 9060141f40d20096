/** Writes and reads CSV (RFC 4180). */

const LINE_END = "\r\n";
const NEEDS_QUOTES = /[",\r\n]/;
/** Characters that start a formula in a spreadsheet, also in full width, and `'`, which `defused` puts before them. */
const FORMULA_START = /^[=+\-@\t\r\n'＝＋－＠]/;

/** One line of CSV. null is an empty field. */
export function csvLine(fields: readonly (string | number | null)[]): string {
  return fields.map(toField).join(",") + LINE_END;
}

function toField(value: string | number | null): string {
  const text = String(value ?? "");
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Marks untrusted text so that a spreadsheet shows it and does not run it. `undefused` restores it exactly. */
export function defused(text: string): string {
  return FORMULA_START.test(text) ? `'${text}` : text;
}

/** Rows as lines of CSV; their texts are defused. */
export function csvLines<Column extends string>(
  columns: readonly Column[],
  rows: readonly Record<Column, string | number | null>[],
): string {
  const cell = (value: string | number | null) => (typeof value === "string" ? defused(value) : value);
  return rows.map((row) => csvLine(columns.map((column) => cell(row[column])))).join("");
}

/** The original text of defused text. */
export function undefused(text: string): string {
  return text.startsWith("'") ? text.slice(1) : text;
}

/** The lines of a CSV file that arrives in pieces. Line ends may be CRLF or LF; a byte order mark is skipped. */
export async function* parseCsv(pieces: AsyncIterable<string>): AsyncGenerator<string[]> {
  let line: string[] = [];
  let field = "";
  /**
   * `closing`: a quote was read in a quoted field. A second quote is a literal quote; any other character ends the
   * field's quotes.
   */
  let state: "plain" | "quoted" | "closing" = "plain";
  let is_start = true;
  for await (const piece of pieces) {
    const text = is_start && piece.startsWith("\uFEFF") ? piece.slice(1) : piece;
    is_start = false;
    for (const character of text) {
      if (state === "quoted") {
        if (character === '"') state = "closing";
        else field += character;
      } else if (character === '"') {
        if (state === "closing") field += '"';
        state = "quoted";
      } else {
        state = "plain";
        if (character === ",") {
          line.push(field);
          field = "";
        } else if (character === "\n") {
          yield [...line, field];
          line = [];
          field = "";
        } else if (character !== "\r") field += character;
      }
    }
  }
  if (field !== "" || line.length > 0) yield [...line, field];
}
