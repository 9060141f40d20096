import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { dumpSchema } from "../../migrations/schema.ts";
import type { Sql } from "../../src/platform/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { withoutNode } from "./raw-source.ts";

const MIGRATIONS = join(import.meta.dirname, "../../migrations");
/** The master key under which the fixtures' secrets are sealed. */
export const KEK = `fixture:${Buffer.alloc(32, "purser").toString("base64")}`;

/** The releases with a filled database, oldest first. */
export function fixtures(): string[] {
  const folders = readdirSync(import.meta.dirname, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.map(({ name }) => name).sort();
}

interface FixtureMigration {
  name: string;
  text: string;
  /** The hash that the release recorded. */
  sha256: string;
}

/** The migrations that a release had applied. Their files are next to its rows, or still in migrations/. */
export function migrationsOf(release: string): FixtureMigration[] {
  const folder = join(import.meta.dirname, release);
  const recorded: Record<string, string> = JSON.parse(readFileSync(join(folder, "migrations.json"), "utf8"));
  return Object.entries(recorded).map(([name, sha256]) => {
    const own = join(folder, name);
    return { name, sha256, text: readFileSync(existsSync(own) ? own : join(MIGRATIONS, name), "utf8") };
  });
}

/** A database as a release left it: tables, history of migrations, rows. No node has opened it since. */
export async function createFilledDatabase(release: string): Promise<TestDatabase> {
  const database = await createTestDatabase();
  await withoutNode(database, async ({ script }) => {
    await script("drop schema public cascade; create schema public");
    await script(
      "create table schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())",
    );
    for (const migration of migrationsOf(release)) await script(`${migration.text}; ${recording(migration)}`);
    const rows = readFileSync(join(import.meta.dirname, release, "rows.sql"), "utf8");
    // rows.sql has the rows that migrations insert too. It fills the tables in the order of their names; without
    // `replica`, foreign keys and triggers would need another order.
    const filled = [...rows.matchAll(/^insert into (\w+)/gm)].map(([, table]) => table);
    await script(`set session_replication_role = replica; truncate ${filled.join(", ")} cascade; ${rows}`);
  });
  return database;
}

/** The statement that records a migration. */
export function recording({ name, sha256 }: { name: string; sha256: string }): string {
  return `insert into schema_migration (name, sha256) values ('${name}', '${sha256}')`;
}

/** The hash by which a migration is recorded. */
export function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

type Rows = Record<string, Record<string, unknown>[]>;
type Query = Pick<Sql, "query">;

/** The rows of all tables but the two that record the schema. */
export async function readRows(sql: Query): Promise<Rows> {
  const tables = await sql.query<{ name: string }>({
    text: `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
      and relname not in ('schema_migration', 'sql_definition')`,
  });
  const each = tables.map(({ name }) => `select '${name}' as name, to_jsonb(t) as row from ${name} t`);
  const rows = await sql.query<{ name: string; row: Record<string, unknown> }>({
    text: `${each.join(" union all ")} order by name, row`,
  });
  const all: Rows = Object.fromEntries(tables.map(({ name }) => [name, []]));
  for (const { name, row } of rows) all[name]?.push(row);
  return all;
}

/** Schema, history and rows of a database that no node has open. */
export function stateOf(database: TestDatabase) {
  return withoutNode(database, async (connection) => {
    const sql = { query: async <Row>(statement: { text: string }) => (await connection.query<Row>(statement)).rows };
    const history = await sql.query<{ name: string; sha256: string; applied_at: string }>({
      text: `select name, sha256, applied_at::text from schema_migration order by name collate "C"`,
    });
    return { schema: await dumpSchema(sql), history, rows: await readRows(sql) };
  });
}
