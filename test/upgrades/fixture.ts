import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Db } from "../../src/platform/db.ts";

const MIGRATIONS = join(import.meta.dirname, "../../migrations");
/** The master key under which the fixtures' secrets are sealed. */
export const KEK = `fixture:${Buffer.alloc(32, "purser").toString("base64")}`;

/** The releases with a filled database, oldest first. */
export function fixtures(): string[] {
  const folders = readdirSync(import.meta.dirname, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.map(({ name }) => name).sort();
}

/** The migrations of a fixture: its own, or those in migrations/ up to the one that its rows name. */
export function migrationsOf(release: string): { name: string; text: string }[] {
  const folder = join(import.meta.dirname, release);
  const last = /last migration is (\S+)/.exec(readFileSync(join(folder, "rows.sql"), "utf8"))?.[1] ?? "";
  const home = existsSync(join(folder, last)) ? folder : MIGRATIONS;
  const names = readdirSync(home).filter((name) => /^\d{4}_\w+\.sql$/.test(name) && name <= last);
  return names.sort().map((name) => ({ name, text: readFileSync(join(home, name), "utf8") }));
}

/** Replaces everything in `db` by the database of a release: its tables, its history of migrations, its rows. */
export async function loadFixture(db: Db, release: string): Promise<void> {
  await clear(db);
  await applyMigrations(db, migrationsOf(release));
  const rows = readFileSync(join(import.meta.dirname, release, "rows.sql"), "utf8");
  // rows.sql has the rows that migrations insert too. It fills the tables in the order of their names; without `replica`,
  // foreign keys and triggers would need another order.
  const filled = [...rows.matchAll(/^insert into (\w+)/gm)].map(([, table]) => table);
  await script(db, `set local session_replication_role = replica; truncate ${filled.join(", ")} cascade; ${rows}`);
}

/** Replaces everything in `db` by an empty history of migrations. */
export async function clear(db: Db): Promise<void> {
  await script(
    db,
    `drop schema public cascade; create schema public;
    create table schema_migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())`,
  );
}

/** Applies migrations as a release did, and records them. */
export async function applyMigrations(db: Db, migrations: readonly { name: string; text: string }[]): Promise<void> {
  for (const { name, text } of migrations) {
    await script(db, text);
    const sha256 = createHash("sha256").update(text).digest("hex");
    await db.query({ text: "insert into schema_migration (name, sha256) values ($1, $2)", values: [name, sha256] });
  }
}

/** Several statements in one: a `Db` runs one at a time. */
function script(db: Db, text: string): Promise<unknown> {
  return db.query({ text: `do $do$ begin execute $script$${text}$script$; end $do$` });
}
