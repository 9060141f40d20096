import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { RELEASE } from "../lib/release.ts";
import type { SqlConnection } from "./sql-connection.ts";

const SOURCE = join(import.meta.dirname, "../..");

/** One file of `src/…/sql` that defines a type, or a function with its triggers. Its name is the file's name. */
export interface SqlDefinition {
  name: string;
  kind: "type" | "function";
  text: string;
  sha256: string;
}

/** A definition as a database has it, with the release that applied it. */
export interface AppliedDefinition {
  name: string;
  sha256: string;
  release: string;
}

/** All functions and types of this release. Files without a `create` are statements of a store. */
export function readDefinitions(): SqlDefinition[] {
  const files = globSync("**/sql/*.sql", { cwd: SOURCE }).sort();
  return files.flatMap((file): SqlDefinition[] => {
    const text = readFileSync(join(SOURCE, file), "utf8");
    const kind = /^create (?:or replace )?(type|function)\b/m.exec(text)?.[1] as SqlDefinition["kind"] | undefined;
    if (kind === undefined) return [];
    return [{ name: basename(file, ".sql"), kind, text, sha256: createHash("sha256").update(text).digest("hex") }];
  });
}

/** A statement that is kept in `sql/` beside its store: `readStatement(import.meta.dirname, "settle")`. Read it once, at module load. */
export function readStatement(folder: string, name: string): string {
  return readFileSync(join(folder, "sql", `${name}.sql`), "utf8");
}

/**
 * The definitions to apply, types first. Throws when a type was changed, because tables and running calls may use it.
 *
 * Returns none when a newer release has applied its functions. These also serve the nodes of this release, because a
 * function whose signature or meaning changes gets a new name.
 */
export function changedDefinitions(
  known: readonly SqlDefinition[],
  applied: readonly AppliedDefinition[],
  release: string,
): SqlDefinition[] {
  if (applied.some((row) => compareReleases(row.release, release) > 0)) return [];
  const hashes = new Map(applied.map(({ name, sha256 }) => [name, sha256]));
  const changed = known.filter(({ name, sha256 }) => hashes.get(name) !== sha256);
  for (const { name, kind } of changed) {
    if (kind === "type" && hashes.has(name)) {
      throw new Error(`the SQL type ${name} was changed after it had been applied: give the changed type a new name`);
    }
  }
  const types = changed.filter(({ kind }) => kind === "type");
  return [...inOrderOfUse(types), ...changed.filter(({ kind }) => kind === "function")];
}

/** Orders types so that each comes after the types in its text. */
function inOrderOfUse(types: readonly SqlDefinition[]): SqlDefinition[] {
  const ordered = new Set<SqlDefinition>();
  const add = (type: SqlDefinition) => {
    for (const other of types) {
      if (other !== type && !ordered.has(other) && new RegExp(`^  \\w+ ${other.name}\\b`, "m").test(type.text))
        add(other);
    }
    ordered.add(type);
  };
  for (const type of types) add(type);
  return [...ordered];
}

/** Orders releases `1.2.3` by their numbers. A pre-release counts as its release. */
export function compareReleases(one: string, other: string): number {
  const numbers = (release: string) => (release.split("-")[0] ?? "").split(".").map(Number);
  const [left, right] = [numbers(one), numbers(other)];
  for (let nth = 0; nth < Math.max(left.length, right.length); nth += 1) {
    const difference = (left[nth] ?? 0) - (right[nth] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Brings the functions of a migrated database up to date. The caller holds the migration lock and has begun a transaction.
 * When nothing has changed, this costs one query.
 *
 * Bodies are not checked while they are created, so the order of the files does not matter. test/journeys/schema.test.ts
 * creates them again with the check.
 */
export async function applyDefinitions(
  connection: SqlConnection,
  { definitions = readDefinitions(), release = RELEASE } = {},
): Promise<void> {
  await connection.script(
    "create table if not exists sql_definition (name text primary key, sha256 text not null, release text not null, applied_at timestamptz not null default now())",
  );
  const { rows } = await connection.query<AppliedDefinition>({
    text: "select name, sha256, release from sql_definition",
  });
  const changed = changedDefinitions(definitions, rows, release);
  const is_newer = rows.every((row) => compareReleases(row.release, release) < 0);
  if (changed.length === 0 && !is_newer) return;
  try {
    await connection.script("set local check_function_bodies = off");
    for (const { text } of changed) await connection.script(text);
    await recordDefinitions(connection, definitions, release);
  } catch (error) {
    throw new Error(`the SQL functions could not be applied: ${(error as Error).message}`, { cause: error });
  }
}

async function recordDefinitions(connection: SqlConnection, definitions: readonly SqlDefinition[], release: string) {
  const rows = definitions.map(({ name, sha256 }) => ({ name, sha256 }));
  await connection.query({
    text: `with given as (select name, sha256 from jsonb_to_recordset($1::jsonb) as given(name text, sha256 text)),
      gone as (delete from sql_definition where name not in (select name from given))
      insert into sql_definition (name, sha256, release) select name, sha256, $2 from given
      on conflict (name) do update set sha256 = excluded.sha256, release = excluded.release, applied_at = now()`,
    values: [JSON.stringify(rows), release],
  });
}
