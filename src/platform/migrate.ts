import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SqlConnection, SqlSource } from "./sql-connection.ts";
import { applyDefinitions } from "./sql-functions.ts";

const FOLDER = join(import.meta.dirname, "../../migrations");
/** Any fixed number. Nodes that start together migrate one after the other. */
const ADVISORY_LOCK = 7_470_625;

interface Migration {
  name: string;
  text: string;
  sha256: string;
}

function readMigrations(): Migration[] {
  const names = readdirSync(FOLDER).filter((name) => /^\d{4}_\w+\.sql$/.test(name));
  return names.sort().map((name) => {
    const text = readFileSync(join(FOLDER, name), "utf8");
    return { name, text, sha256: createHash("sha256").update(text).digest("hex") };
  });
}

/**
 * Applies the missing migrations, each in its own transaction, then the SQL functions of this release. Rejects a database
 * of a newer version.
 */
export async function migrate(source: SqlSource): Promise<void> {
  const connection = await source.connect();
  try {
    await connection.query({ text: "select pg_advisory_lock($1)", values: [ADVISORY_LOCK] });
    await connection.script(
      "create table if not exists schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())",
    );
    const { rows } = await connection.query<{ name: string; sha256: string }>({
      text: "select name, sha256 from schema_migration order by name",
    });
    const migrations = readMigrations();
    checkHistory(rows, migrations);
    for (const migration of migrations.slice(rows.length)) await apply(connection, migration);
    await applyDefinitions(connection);
  } finally {
    await connection.query({ text: "select pg_advisory_unlock($1)", values: [ADVISORY_LOCK] }).catch(() => {});
    connection.release();
  }
}

function checkHistory(applied: { name: string; sha256: string }[], migrations: Migration[]): void {
  for (const [index, row] of applied.entries()) {
    const migration = migrations[index];
    if (migration?.name !== row.name) {
      throw new Error(
        `the database has the migration ${row.name}, which this version does not know: run the version that made it`,
      );
    }
    if (migration.sha256 !== row.sha256) {
      throw new Error(`the migration ${row.name} was changed after it had been applied to this database`);
    }
  }
}

async function apply(connection: SqlConnection, migration: Migration): Promise<void> {
  await connection.query({ text: "begin" });
  try {
    await connection.script(migration.text);
    await connection.query({
      text: "insert into schema_migration (name, sha256) values ($1, $2)",
      values: [migration.name, migration.sha256],
    });
    await connection.query({ text: "commit" });
  } catch (error) {
    await connection.query({ text: "rollback" });
    throw new Error(`the migration ${migration.name} failed: ${(error as Error).message}`, { cause: error });
  }
}
