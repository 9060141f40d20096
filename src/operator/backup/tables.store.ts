import type { Sql, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";

/** Reads and writes the rows of any table as texts, so that every value comes back exactly, on both storages. */

/** A table as the catalogue of the database has it. */
export interface Table {
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly key: readonly string[];
}

/** The number of rows and a sum of their hashes, which does not depend on their order. */
export interface Digest {
  readonly rows: number;
  readonly digest: string;
}

const LIST_TABLES = readStatement(import.meta.dirname, "list-tables");
/** A batch: one insert, one line of progress. Rows of runs may have 100 KB and more. */
const BATCH_BYTES = 4_000_000;
const MAX_ROWS = 2_000;
const FIRST_ROWS = 50;

const quote = (name: string) => `"${name.replaceAll('"', '""')}"`;
/** One row as the JSON array of its values in text form. */
const toLine = ({ columns }: Table) =>
  `to_json(array[${columns.map(({ name }) => `${quote(name)}::text`)}]::text[])::text`;

/** All tables, each after the tables that its foreign keys need. */
export async function listTables(sql: Sql): Promise<Table[]> {
  const found = await sql.query<Table & { needs: string[] }>({ text: LIST_TABLES });
  const ordered: Table[] = [];
  const names = new Set<string>();
  while (ordered.length < found.length) {
    const next = found.filter(({ name, needs }) => !names.has(name) && needs.every((needed) => names.has(needed)));
    if (next.length === 0) throw new Error("the foreign keys of the tables form a cycle");
    for (const { name, columns, key } of next) {
      ordered.push({ name, columns, key });
      names.add(name);
    }
  }
  return ordered;
}

/** Batches of rows in the order of the primary key, without the first `skip`. */
export async function* readRows(tx: Tx, table: Table, skip = 0): AsyncGenerator<string[], undefined> {
  const order = table.key.length > 0 ? table.key.map(quote).join(", ") : "line";
  const text = `declare copied_rows no scroll cursor for select ${toLine(table)} as line from ${quote(table.name)} order by ${order}`;
  await tx.query({ text });
  if (skip > 0) await tx.query({ text: `move forward ${skip} in copied_rows`, no_timeout: true });
  for (let count = FIRST_ROWS; ; ) {
    const rows = await tx.query<{ line: string }>({ text: `fetch ${count} from copied_rows`, no_timeout: true });
    if (rows.length === 0) break;
    const lines = rows.map(({ line }) => line);
    yield lines;
    const bytes = lines.reduce((sum, line) => sum + line.length, 0) / lines.length;
    count = Math.max(1, Math.min(MAX_ROWS, Math.floor(BATCH_BYTES / bytes)));
  }
  await tx.query({ text: "close copied_rows" });
}

export async function insertRows(tx: Tx, { name, columns }: Table, lines: readonly string[]): Promise<void> {
  const values = columns.map(({ type }, index) => `(line ->> ${index})::${type}`);
  await tx.query({
    text: `insert into ${quote(name)} (${columns.map((column) => quote(column.name))}) select ${values} from jsonb_array_elements($1::jsonb) as given (line)`,
    values: [`[${lines.join(",")}]`],
    no_timeout: true,
  });
}

/** Deletes the rows that a migration inserted, before the rows of the copy. */
export async function clearTable(tx: Tx, { name }: Table): Promise<void> {
  await tx.query({ text: `delete from ${quote(name)}` });
}

export async function computeDigest(sql: Sql, table: Table): Promise<Digest> {
  const hash = "('x' || substr(encode(sha256(convert_to(line, 'UTF8')), 'hex'), 1, 15))::bit(60)::bigint";
  const [row] = await sql.query<Digest>({
    text: `select count(*) as rows, coalesce(sum(${hash}), 0)::text as digest from (select ${toLine(table)} as line from ${quote(table.name)}) as lines`,
    no_timeout: true,
  });
  return row ?? { rows: 0, digest: "0" };
}

/** One consistent state of all tables for the rest of the transaction. */
export async function freeze(tx: Tx): Promise<void> {
  await tx.query({ text: "set transaction isolation level repeatable read, read only" });
}

/** Statistics for the planner: the copied tables have none. */
export async function analyze(sql: Sql): Promise<void> {
  await sql.query({ text: "analyze", no_timeout: true });
}

/** Whether the database has any table. */
export async function hasTables(run: Sql["query"]): Promise<boolean> {
  const rows = await run({ text: "select tablename from pg_tables where schemaname = 'public' limit 1" });
  return rows.length > 0;
}
