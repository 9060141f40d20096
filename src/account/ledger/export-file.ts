import { csvLine, csvLines, parseCsv, undefused } from "./csv.ts";
import type { Entry, ReasonedEntry } from "./ledger.types.ts";
import type { UsageLine } from "./usage.types.ts";

/** An entry of an export. It includes the owner, because the hash covers it. */
export interface ExportedEntry extends Entry {
  user_id: string;
}

const ENTRY_COLUMNS = [
  "user_id",
  "seq",
  "id",
  "type",
  "amount",
  "balance_after",
  "bucket_id",
  "source",
  "hold_id",
  "model",
  "agent_id",
  "run_id",
  "request_id",
  "api_key_id",
  "description",
  "created_at",
  "hash",
] as const;

const USAGE_COLUMNS = [
  "date",
  "model",
  "agent_id",
  "api_key_id",
  "requests",
  "input_tokens",
  "cached_input_tokens",
  "cache_write_tokens",
  "output_tokens",
  "cost_tokens",
] as const;

/** The header line of an export of entries. */
export const entriesHead = csvLine([...ENTRY_COLUMNS, "reason"]);
/** The header line of an export of usage. */
export const usageHead = csvLine(USAGE_COLUMNS);

/** Entries as lines of CSV. */
export function entryLines(user_id: string, entries: readonly ReasonedEntry[]): string {
  return csvLines(
    [...ENTRY_COLUMNS, "reason"],
    entries.map((entry) => ({ user_id, ...entry })),
  );
}

/** The daily usage as lines of CSV. */
export function usageLines(lines: readonly UsageLine[]): string {
  return csvLines(USAGE_COLUMNS, lines);
}

/** Reads the entries of an exported file. Throws a RangeError if the file is not an export. */
export async function* readExport(pieces: AsyncIterable<string>): AsyncGenerator<ExportedEntry> {
  let columns: string[] | undefined;
  for await (const line of parseCsv(pieces)) {
    if (columns === undefined) {
      const missing = ENTRY_COLUMNS.filter((column) => !line.includes(column));
      if (missing.length > 0) throw new RangeError(`it is no export of transactions: it has no ${missing.join(", ")}`);
      if (new Set(line).size < line.length) throw new RangeError("it names a column twice");
      columns = line;
      continue;
    }
    if (line.length !== columns.length) throw new RangeError(`a line has ${line.length} fields: ${line.join(",")}`);
    yield toEntry(Object.fromEntries(columns.map((column, index) => [column, undefused(line[index] ?? "")])));
  }
  if (columns === undefined) throw new RangeError("it is empty");
}

/** An empty field is null, but a description may be empty text. */
function toEntry(fields: Record<string, string>): ExportedEntry {
  const text = (column: string) => fields[column] ?? "";
  const optional = (column: string) => (text(column) === "" ? null : text(column));
  return {
    user_id: text("user_id"),
    seq: Number(text("seq")),
    id: text("id"),
    type: text("type") as Entry["type"],
    amount: Number(text("amount")),
    balance_after: Number(text("balance_after")),
    bucket_id: optional("bucket_id"),
    source: optional("source") as Entry["source"],
    hold_id: optional("hold_id"),
    model: optional("model"),
    agent_id: optional("agent_id"),
    run_id: optional("run_id"),
    request_id: optional("request_id"),
    api_key_id: optional("api_key_id"),
    description: text("description"),
    created_at: text("created_at"),
    hash: text("hash"),
  };
}
