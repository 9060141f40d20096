import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { buildIndexes } from "./concurrent-indexes.ts";
import type { Log } from "./log.ts";
import { loggingProgress } from "./progress-log.ts";
import { RELEASE } from "./release.ts";
import type { SqlConnection, SqlSource } from "./sql-connection.ts";
import { applyDefinitions, readDefinitions } from "./sql-functions.ts";
import { type RunSql, rejectTransfer } from "./transfer.ts";

const FOLDER = join(import.meta.dirname, "../../migrations");
/** Files of the baseline of 1.0 begin so. Migrations before it have lower numbers, later ones higher numbers. */
const BASELINE = "1000_";
/** Needed to adopt a database of release 0.1.0: its migrations by name and hash, and the steps from there to the baseline. */
const BEFORE_BASELINE = "from-0.1.0";
/** Any fixed number. Nodes that start together migrate one after the other. */
const ADVISORY_LOCK = 7_470_625;
const LOCK_PAUSE_MS = 250;
/** Each batch of the ledger shares it (src/ledger/sql/ledger_lock.sql), so a migration waits for them, and they for it. */
const LEDGER_LOCK = 7_470_627;
/** The longest wait for statements that nodes of before have begun. */
const OLDER_MS = 30_000;
const OLDER_POLL_MS = 25;
/** How often a node that waits for another one's migrations says so. */
const WAIT_LINES_MS = 30_000;

const HISTORY_TABLE =
  "create table if not exists schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())";

/**
 * Former texts of migrations, which development versions before 1.0 have applied. They made the same tables; that of
 * 1017 also made `erased_account`, which nothing reads, and that of 1022 an index of migrations/indexes.
 */
const FORMER: Readonly<Record<string, string>> = {
  "1001_price_classes.sql": "86ff9a7739908ceaf43fee9ae93ca8fa943ffcc83387d52145728b48f508c02b",
  "1004_cancelled_runs.sql": "b1e6077a50dd0b2fdedcc147b683b8c6a413faa24ebd2b1f448a4f44d7392fd3",
  "1017_growth.sql": "8cf9372d44e006ee5f68257394f8a99d979d127c802e51ff32db1ce384494f1f",
  "1022_unpaid_orders.sql": "9937e8479f6f77f72abc7348da730d73408a0ab3e0a2fbbacddb6cf4aa1c131d",
};

/** Former names of migrations, under which development versions have applied them. */
const RENAMED: Readonly<Record<string, string>> = { "1022_notice_mails.sql": "1023_notice_mails.sql" };

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
 * Applies the missing migrations, then the SQL functions of this release, in one transaction. Adopts a database of
 * release 0.1.0 first. Rejects a database of a newer version.
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
    for (let waited_ms = 0; ; ) {
      const outcome = await migrateAlone(connection, folder, log);
      if (outcome === "migrated") break;
      if (outcome === "prepared") {
        await waitForOlder(connection);
        continue;
      }
      if (waited_ms % WAIT_LINES_MS === 0) log?.info({ waited_ms }, "waiting: another node migrates the database");
      await delay(LOCK_PAUSE_MS);
      waited_ms += LOCK_PAUSE_MS;
    }
    await validateConstraints(connection, log);
    await buildIndexes(connection, folder, log);
  } finally {
    connection.release();
  }
}

/** `locked`: another node holds the lock, and nothing was done. `prepared`: call it again to migrate. */
async function migrateAlone(
  connection: SqlConnection,
  folder: string,
  log: Log | undefined,
): Promise<"migrated" | "locked" | "prepared"> {
  return inTransaction(connection, async () => {
    const lock = { text: "select pg_try_advisory_xact_lock($1) as mine", values: [ADVISORY_LOCK] };
    const { rows } = await connection.query<{ mine: boolean }>(lock);
    if (rows[0]?.mine !== true) return "locked";
    await connection.script(HISTORY_TABLE);
    const migrations = readMigrations(folder);
    if ((await readHistory(connection)).some(({ name }) => name < BASELINE)) {
      const baseline = migrations.filter(({ name }) => name.startsWith(BASELINE));
      await adopt(connection, join(folder, BEFORE_BASELINE), baseline);
    }
    const missing = missingOf(await readHistory(connection), migrations);
    if (missing.length > 0 && (await stopLedger(connection)) === "prepared") return "prepared";
    // One transaction with the functions: functions of the release before may fail on the new tables.
    await explained("the migrations failed and changed nothing", async () => {
      await applyAll(connection, missing, log);
      await applyDefinitions(connection);
    });
    return "migrated";
  });
}

async function applyAll(connection: SqlConnection, missing: readonly Migration[], log: Log | undefined): Promise<void> {
  for (const [index, migration] of missing.entries()) {
    const about = { migration: migration.name, nth: index + 1, of: missing.length };
    await loggingProgress(log, { step: "migrating the database", about }, () => applyOne(connection, migration));
  }
}

/**
 * Waits for the batches of the ledger that nodes of before have begun, and lets new ones wait for this transaction. A batch
 * that goes on after new columns were committed fails: its rows have the columns of before.
 *
 * The first answer for a database of a version without this lock is `prepared`: once its transaction is committed, batches
 * take the lock.
 */
async function stopLedger(connection: SqlConnection): Promise<"stopped" | "prepared"> {
  const { rows } = await connection.query<{ shares_lock: boolean }>({
    text: "select prosrc like $1 as shares_lock from pg_proc where oid = to_regprocedure('ledger_lock(uuid[], timestamptz)')",
    values: [`%${LEDGER_LOCK}%`],
  });
  const [ledger] = rows;
  if (ledger === undefined) return "stopped";
  if (!ledger.shares_lock) {
    for (const { name, text } of readDefinitions()) if (name === "ledger_lock") await connection.script(text);
    return "prepared";
  }
  await connection.query({ text: "select pg_advisory_xact_lock($1)", values: [LEDGER_LOCK] });
  return "stopped";
}

/**
 * Waits for the statements of nodes that have begun before, but not longer than OLDER_MS for a long one. Nodes are found by
 * their user, because DATABASE_URL may name another application.
 */
async function waitForOlder(connection: SqlConnection): Promise<void> {
  const { rows } = await connection.query<{ now: string }>({ text: "select clock_timestamp()::text as now" });
  for (let waited_ms = 0; waited_ms < OLDER_MS; waited_ms += OLDER_POLL_MS) {
    const older = await connection.query({
      text: `select pid from pg_stat_activity where datname = current_database() and usename = current_user
        and pid <> pg_backend_pid() and xact_start < $1::timestamptz limit 1`,
      values: [rows[0]?.now],
    });
    if (older.rows.length === 0) return;
    await delay(OLDER_POLL_MS);
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
  checkHistory(wanted, known);
  await connection.script(HISTORY_TABLE);
  for (const migration of known.slice(0, wanted.length)) await applyOne(connection, migration);
}

/** The schema of a database, compared with the one of this version. */
export interface SchemaState {
  /** Migrations that the database has. 0: it is empty. */
  readonly applied: number;
  /** Migrations that a start would apply. */
  readonly missing: readonly string[];
  /** A start would upgrade it from release 0.1.0. */
  readonly is_before_baseline: boolean;
}

/** Compares the schema without a change. Throws if the database is of a newer version or was changed. */
export async function readSchemaState(connection: SqlConnection, folder = FOLDER): Promise<SchemaState> {
  const known = readMigrations(folder);
  const { rows } = await connection.query<{ is_there: boolean }>({
    text: "select to_regclass('schema_migration') is not null as is_there",
  });
  const applied = rows[0]?.is_there === true ? await readHistory(connection) : [];
  const is_before_baseline = applied.some(({ name }) => name < BASELINE);
  const missing = is_before_baseline ? known : missingOf(applied, known);
  return { applied: applied.length, missing: missing.map(({ name }) => name), is_before_baseline };
}

/** The names of this version's migrations, the newest last. */
export function knownMigrations(): string[] {
  return readMigrations(FOLDER).map(({ name }) => name);
}

async function applyOne(connection: SqlConnection, migration: Migration): Promise<void> {
  await connection.script(migration.text).catch((error: Error) => {
    throw new Error(`the migration ${migration.name} failed: ${error.message}`, { cause: error });
  });
  await record(connection, [migration]);
}

/**
 * Makes a database of release 0.1.0 equal to a new one: applies the steps that it lacks and replaces its history by the
 * baseline's, in one transaction. test/journeys/upgrades.test.ts compares the two.
 */
async function adopt(connection: SqlConnection, folder: string, baseline: readonly AppliedMigration[]): Promise<void> {
  const text = readFileSync(join(folder, "known.json"), "utf8");
  const released = Object.entries<string>(JSON.parse(text)).map(([name, sha256]) => ({ name, sha256 }));
  const steps = readMigrations(folder);
  const applied = await readHistory(connection);
  checkHistory(applied, [...released, ...steps]);
  if (applied.length < released.length) {
    throw new Error(
      `the database has ${applied.length} of the ${released.length} migrations of release 0.1.0, and only a complete one can be upgraded: start the last version of 0.1.0 once, stop it, then start this version again`,
    );
  }
  await explained("the upgrade from release 0.1.0 failed and changed nothing", async () => {
    for (const step of steps.slice(applied.length - released.length)) await connection.script(step.text);
    await connection.query({ text: "delete from schema_migration" });
    await record(connection, baseline);
  });
}

/** In the order in which they were applied: by name, compared byte by byte as in `readMigrations`. */
async function readHistory(connection: SqlConnection): Promise<AppliedMigration[]> {
  return readMigrationHistory((statement) => connection.query<never>(statement).then(({ rows }) => rows));
}

/** The migrations that a database has, by their present names, for a copy of it. */
export async function readMigrationHistory(run: RunSql): Promise<AppliedMigration[]> {
  const rows = await run<AppliedMigration>({ text: "select name, sha256 from schema_migration" });
  return rows
    .map(({ name, sha256 }) => ({ name: RENAMED[name] ?? name, sha256 }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * The migrations to apply, in order. One may come before applied ones: two branches of a development version can add
 * migrations in any order.
 */
function missingOf(applied: readonly AppliedMigration[], known: readonly Migration[]): Migration[] {
  const names = new Set(applied.map(({ name }) => name));
  const by_name = new Map(known.map((migration) => [migration.name, migration]));
  checkHistory(
    applied,
    applied.flatMap(({ name }) => by_name.get(name) ?? []),
  );
  return known.filter(({ name }) => !names.has(name));
}

/** Throws unless `applied` is the beginning of `known`. */
function checkHistory(applied: readonly AppliedMigration[], known: readonly AppliedMigration[]): void {
  for (const [index, row] of applied.entries()) {
    const migration = known[index];
    if (migration?.name !== row.name) {
      throw new Error(
        `the database has the migration ${row.name}, which this version (${RELEASE}) does not know: a newer version made it. Start that version or a later one, or restore the backup from before the upgrade. Nothing was changed`,
      );
    }
    if (![migration.sha256, FORMER[row.name]].includes(row.sha256)) {
      throw new Error(`the migration ${row.name} was changed after it had been applied to this database`);
    }
  }
}

async function record(connection: SqlConnection, migrations: readonly AppliedMigration[]): Promise<void> {
  await connection.query({
    text: "insert into schema_migration (name, sha256) select name, sha256 from unnest($1::text[], $2::text[]) as applied(name, sha256)",
    values: [migrations.map(({ name }) => name), migrations.map(({ sha256 }) => sha256)],
  });
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

async function explained(failure: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw new Error(`${failure}: ${(error as Error).message}`, { cause: error });
  }
}
