import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { RELEASE } from "../lib/release.ts";
import type { Log } from "../telemetry/log.ts";
import { loggingProgress } from "../telemetry/progress-log.ts";
import { buildIndexes } from "./concurrent-indexes.ts";
import type { SqlConnection, SqlSource } from "./sql-connection.ts";
import { applyDefinitions } from "./sql-functions.ts";
import { type RunSql, rejectTransfer } from "./transfer.ts";

const FOLDER = join(import.meta.dirname, "../../../migrations");
/** Any fixed number. Nodes that start together migrate one after the other. */
const ADVISORY_LOCK = 7_470_625;
const LOCK_PAUSE_MS = 250;
/**
 * Each batch of the ledger shares it (src/account/ledger/sql/ledger_lock.sql), so a migration waits for them, and they for it. A batch
 * that goes on after new columns were committed fails: its rows have the columns from before.
 */
const LEDGER_LOCK = 7_470_627;
/** How often a node that waits for another one's migrations says so. */
const WAIT_LINES_MS = 30_000;

const HISTORY_TABLE =
  "create table if not exists schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())";

/** A migration as the table schema_migration has it. */
export interface AppliedMigration {
  name: string;
  sha256: string;
}

interface Migration extends AppliedMigration {
  text: string;
}

function readMigrations(folder: string): Migration[] {
  const names = readdirSync(folder).filter((name) => /^\d{4}_\w+\.sql$/.test(name));
  return names.sort().map((name) => {
    const text = readFileSync(join(folder, name), "utf8");
    return { name, text, sha256: createHash("sha256").update(text).digest("hex") };
  });
}

/**
 * Applies the missing migrations, then the SQL functions of this release, in one transaction. Rejects a database of a newer
 * version.
 *
 * The lock belongs to the transaction, so it also holds behind a pooler that gives each transaction another connection.
 * A node without the lock waits until the other's transaction ends: the database ends that of a dead node.
 */
export async function migrate(source: SqlSource, folder = FOLDER, log?: Log): Promise<void> {
  const connection = await source.connect();
  try {
    await rejectTransfer((statement) => connection.query<never>(statement).then(({ rows }) => rows));
  } finally {
    connection.release();
  }
  await bringUpToDate(source, folder, log);
}

/** The same for a database that is part of a transfer. */
export async function bringUpToDate(source: SqlSource, folder = FOLDER, log?: Log): Promise<void> {
  const connection = await source.connect();
  try {
    for (let waited_ms = 0; !(await migrateAlone(connection, folder, log)); waited_ms += LOCK_PAUSE_MS) {
      if (waited_ms % WAIT_LINES_MS === 0) log?.info({ waited_ms }, "waiting: another node migrates the database");
      await delay(LOCK_PAUSE_MS);
    }
    await validateConstraints(connection, log);
    await buildIndexes(connection, folder, log);
  } finally {
    connection.release();
  }
}

/** Returns false if another node holds the lock: then nothing was done. */
async function migrateAlone(connection: SqlConnection, folder: string, log: Log | undefined): Promise<boolean> {
  return inTransaction(connection, async () => {
    const lock = { text: "select pg_try_advisory_xact_lock($1) as mine", values: [ADVISORY_LOCK] };
    const { rows } = await connection.query<{ mine: boolean }>(lock);
    if (rows[0]?.mine !== true) return false;
    await connection.script(HISTORY_TABLE);
    const missing = findMissing(await readHistory(connection), readMigrations(folder));
    if (missing.length > 0) await connection.query({ text: "select pg_advisory_xact_lock($1)", values: [LEDGER_LOCK] });
    // One transaction with the functions: functions of the release before may fail on the new tables.
    try {
      await applyAll(connection, missing, log);
      await applyDefinitions(connection);
    } catch (error) {
      throw new Error(`the migrations failed and changed nothing: ${(error as Error).message}`, { cause: error });
    }
    return true;
  });
}

async function applyAll(connection: SqlConnection, missing: readonly Migration[], log: Log | undefined): Promise<void> {
  for (const [index, migration] of missing.entries()) {
    const about = { migration: migration.name, nth: index + 1, of: missing.length };
    await loggingProgress(log, { step: "migrating the database", about }, () => applyOne(connection, migration));
  }
}

/**
 * Checks the rows that are older than a constraint. Migrations add checks of existing tables as not valid, because a
 * check under their exclusive lock would stop all nodes while it reads the table. This lock lets them read and write.
 */
async function validateConstraints(connection: SqlConnection, log: Log | undefined): Promise<void> {
  const { rows } = await connection.query<{ table: string; name: string }>({
    text: `select conrelid::regclass::text as table, quote_ident(conname) as name from pg_constraint
      where not convalidated and contype in ('c', 'f') and connamespace = 'public'::regnamespace order by 1, 2`,
  });
  for (const { table, name } of rows) {
    const validate = () => connection.script(`alter table ${table} validate constraint ${name}`);
    const step = { step: "checking the rows of a table", about: { table, constraint: name } };
    await loggingProgress(log, step, validate).catch((error: Error) => {
      throw new Error(`the rows of ${table} were not checked against the constraint ${name}: ${error.message}`, {
        cause: error,
      });
    });
  }
}

/**
 * Creates the tables of `wanted`, which another database has, in an empty database and in the caller's transaction.
 * Without functions and triggers, so that rows can be copied as they are.
 */
export async function createTables(connection: SqlConnection, wanted: readonly AppliedMigration[], folder = FOLDER) {
  const known = readMigrations(folder);
  const later = findMissing(wanted, known);
  await connection.script(HISTORY_TABLE);
  for (const migration of known) if (!later.includes(migration)) await applyOne(connection, migration);
}

/** The schema of a database, compared with the one of this version. */
export interface SchemaState {
  /** Migrations that the database has. 0: it is empty. */
  readonly applied: number;
  /** Migrations that a start would apply. */
  readonly missing: readonly string[];
}

/** Compares the schema without a change. Throws if the database is of a newer version or was changed. */
export async function readSchemaState(connection: SqlConnection, folder = FOLDER): Promise<SchemaState> {
  const known = readMigrations(folder);
  const { rows } = await connection.query<{ is_there: boolean }>({
    text: "select to_regclass('schema_migration') is not null as is_there",
  });
  const applied = rows[0]?.is_there === true ? await readHistory(connection) : [];
  return { applied: applied.length, missing: findMissing(applied, known).map(({ name }) => name) };
}

/** The names of this version's migrations, the newest last. */
export function knownMigrations(): string[] {
  return readMigrations(FOLDER).map(({ name }) => name);
}

async function applyOne(connection: SqlConnection, migration: Migration): Promise<void> {
  await connection.script(migration.text).catch((error: Error) => {
    throw new Error(`the migration ${migration.name} failed: ${error.message}`, { cause: error });
  });
  await connection.query({
    text: "insert into schema_migration (name, sha256) values ($1, $2)",
    values: [migration.name, migration.sha256],
  });
}

async function readHistory(connection: SqlConnection): Promise<AppliedMigration[]> {
  return readMigrationHistory((statement) => connection.query<never>(statement).then(({ rows }) => rows));
}

/** The migrations that a database has, for a copy of it. */
export function readMigrationHistory(run: RunSql): Promise<AppliedMigration[]> {
  return run<AppliedMigration>({ text: 'select name, sha256 from schema_migration order by name collate "C"' });
}

/**
 * The migrations to apply, in order. One may come before applied ones: two branches of a development version can add
 * migrations in any order. Throws if an applied one is unknown or was changed.
 */
function findMissing(applied: readonly AppliedMigration[], known: readonly Migration[]): Migration[] {
  for (const { name, sha256 } of applied) {
    const migration = known.find((each) => each.name === name);
    if (migration === undefined) {
      throw new Error(
        `the database has the migration ${name}, which this version (${RELEASE}) does not know: a newer version made it. Start that version or a later one, or restore the backup from before the upgrade. Nothing was changed`,
      );
    }
    if (migration.sha256 !== sha256) {
      throw new Error(
        `the migration ${name} was changed after it had been applied to this database: start the version that made the database, or name a new database`,
      );
    }
  }
  return known.filter(({ name }) => applied.every((row) => row.name !== name));
}

async function inTransaction<T>(connection: SqlConnection, work: () => Promise<T>): Promise<T> {
  await connection.query({ text: "begin" });
  try {
    const value = await work();
    await connection.query({ text: "commit" });
    return value;
  } catch (error) {
    // Fails on a broken connection, which the server rolls back. The first error says more.
    await connection.query({ text: "rollback" }).catch(() => {});
    throw error;
  }
}
