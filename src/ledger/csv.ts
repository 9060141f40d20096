/** RFC 4180, both ways. */

const LINE_END = "\r\n";
const NEEDS_QUOTES = /[",\r\n]/;
/** What spreadsheets take for a formula, also in full width; and the mark that we put before it. */
const FORMULA_START = /^[=+\-@\t\r\n'＝＋－＠]/;

/** One line; null is an empty field. */
export function csvLine(fields: readonly (string | number | null)[]): string {
  return fields.map(fieldOf).join(",") + LINE_END;
}

function fieldOf(value: string | number | null): string {
  const text = String(value ?? "");
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Text of others, so that a spreadsheet shows it and does not run it; `undefused` gives it back exactly. */
export function defused(text: string): string {
  return FORMULA_START.test(text) ? `'${text}` : text;
}

/** The text that was defused. */
export function undefused(text: string): string {
  return text.startsWith("'") ? text.slice(1) : text;
}

/** The lines of a CSV file that comes in pieces. Line ends may be CRLF or LF; a mark of the byte order is passed over. */
export async function* parseCsv(pieces: AsyncIterable<string>): AsyncGenerator<string[]> {
  let line: string[] = [];
  let field = "";
  /** `closing`: a quote was read within quotes; another makes it a quote, anything else has closed them. */
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
