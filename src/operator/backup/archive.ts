import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Db, Tx } from "../../platform/db/db.ts";
import { type AppliedMigration, readMigrationHistory } from "../../platform/db/migrate.ts";
import { newId } from "../../platform/lib/ids.ts";
import { readFileLines } from "../../platform/lib/json-lines.ts";
import { RELEASE } from "../../platform/lib/release.ts";
import { computeDigest, type Digest, freeze, listTables, readRows, type Table } from "./tables.store.ts";

/**
 * A backup: JSON lines, compressed with gzip. The first line is the header. A line {"table"} begins a table, and an array
 * is one row. The last line has the number of rows and a digest of each table, so that a cut file is recognised.
 */
export interface Header {
  readonly purser_backup: 1;
  readonly id: string;
  readonly release: string;
  readonly created_at: string;
  readonly migrations: readonly AppliedMigration[];
  readonly tables: readonly Table[];
}

/** By the name of the table. */
export type Digests = Readonly<Record<string, Digest>>;

const GZIP_LEVEL = 6;
/** Rows that are handed on together. */
const BATCH_ROWS = 500;
const BATCH_CHARACTERS = 4_000_000;

/** Writes one consistent state of the database to `out`. */
export async function writeArchive(db: Db, created_at: string, out: Writable): Promise<void> {
  await db.transaction(async (tx) => {
    await freeze(tx);
    await pipeline(Readable.from(archiveTexts(tx, created_at)), createGzip({ level: GZIP_LEVEL }), out);
  });
}

async function* archiveTexts(tx: Tx, created_at: string): AsyncGenerator<string, undefined> {
  const tables = await listTables(tx);
  const migrations = await readMigrationHistory(tx.query);
  const header: Header = { purser_backup: 1, id: newId(), release: RELEASE, created_at, migrations, tables };
  yield `${JSON.stringify(header)}\n`;
  const digests: Record<string, Digest> = {};
  for (const table of tables) {
    yield `${JSON.stringify({ table: table.name })}\n`;
    for await (const lines of readRows(tx, table)) yield `${lines.join("\n")}\n`;
    digests[table.name] = await computeDigest(tx, table);
  }
  yield `${JSON.stringify({ end: digests })}\n`;
}

async function* linesOf(path: string): AsyncGenerator<string, undefined> {
  try {
    yield* readFileLines(path, { is_gzip: true });
  } catch (error) {
    throw unreadable(path, error as NodeJS.ErrnoException);
  }
}

function unreadable(path: string, { code, message }: NodeJS.ErrnoException): Error {
  if (code === "ENOENT") return new Error(`there is no file ${path}: name a file that purser backup wrote`);
  if (code === "EACCES" || code === "EISDIR")
    return new Error(`${path} cannot be read (${code}): name a readable file`);
  return new Error(`${path} is no complete backup: ${message}. Use another one`);
}

/** A backup that was read once to its end. */
export interface Archive {
  readonly header: Header;
  readonly digests: Digests;
  /** The rows of all tables in batches, without the first `done` rows of each. */
  rows(done: Readonly<Record<string, number>>): AsyncGenerator<{ table: Table; lines: string[] }, undefined>;
}

/** Reads the whole file and compares the number of rows. Throws if it is cut or was changed. */
export async function openArchive(path: string): Promise<Archive> {
  let header: Header | undefined;
  let digests: Digests | undefined;
  const counted: Record<string, number> = {};
  let table = "";
  for await (const line of linesOf(path)) {
    if (header === undefined) header = readHeader(line, path);
    else if (line.startsWith("[")) counted[table] = (counted[table] ?? 0) + 1;
    else {
      const mark = JSON.parse(line) as { table?: string; end?: Digests };
      table = mark.table ?? "";
      digests = mark.end;
    }
  }
  if (header === undefined || digests === undefined)
    throw new Error(`${path} is no complete backup: its end is missing`);
  for (const [name, { rows }] of Object.entries(digests)) {
    if (rows !== (counted[name] ?? 0)) throw new Error(`${path} is no complete backup: rows of ${name} are missing`);
  }
  return { header, digests, rows: (done) => archivedRows(path, header.tables, done) };
}

function readHeader(line: string, path: string): Header {
  const wrong = () => new Error(`${path} is no backup of Purser: name a file that purser backup wrote`);
  if (!line.startsWith('{"purser_backup":')) throw wrong();
  const header = JSON.parse(line) as Header;
  if (header.purser_backup !== 1) throw new Error(`${path} has a newer format: restore it with a newer version`);
  return header;
}

async function* archivedRows(path: string, tables: readonly Table[], done: Readonly<Record<string, number>>) {
  const named = new Map(tables.map((table) => [table.name, table]));
  let table: Table | undefined;
  let lines: string[] = [];
  let characters = 0;
  let skip = 0;
  for await (const line of linesOf(path)) {
    if (!line.startsWith("[")) {
      if (table !== undefined && lines.length > 0) yield { table, lines };
      table = named.get((JSON.parse(line) as { table?: string }).table ?? "");
      [lines, characters, skip] = [[], 0, done[table?.name ?? ""] ?? 0];
      continue;
    }
    if (table === undefined) continue;
    if (skip > 0) {
      skip -= 1;
      continue;
    }
    lines.push(line);
    characters += line.length;
    if (lines.length < BATCH_ROWS && characters < BATCH_CHARACTERS) continue;
    yield { table, lines };
    [lines, characters] = [[], 0];
  }
  return undefined;
}
