import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(import.meta.resolve("../../"));
const COPIED = ["src", "migrations", "package.json"];
const MIGRATION = `
  alter table users add column of_the_next text;
  alter table agent add column of_the_next text not null default '';
  alter table payment add column of_the_next integer, add constraint of_the_next check (of_the_next >= 0) not valid;
  alter table run add column of_the_next jsonb;
  create table of_the_next (id integer primary key);
`;
const INDEX = "create index concurrently if not exists run_of_the_next on run (agent_version)";

/** This version with one more migration, which only expands the tables, and an index of a large table. */
export function makeNextVersion(): { main: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), "purser-next-"));
  for (const path of COPIED) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "migrations/9999_next.sql"), MIGRATION);
  mkdirSync(join(folder, "migrations/indexes"), { recursive: true });
  writeFileSync(join(folder, "migrations/indexes/run_of_the_next.sql"), INDEX);
  return { main: join(folder, "src/cli/main.ts"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
