import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(import.meta.resolve("../../"));

/**
 * Prepared statements of the baseline that select `*`. PostgreSQL rejects them once a column was added, in each connection
 * that had prepared them, and no later version can mend that. Without a name they are not prepared.
 */
const PREPARED = { "src/accounts/accounts.store.ts": "api_key_by_hash", "src/agents/agents.store.ts": "agent_find" };

/** The source of an earlier version, with the packages of this one. */
export interface PreviousVersion {
  commit: string;
  main: string;
  remove(): void;
}

/**
 * Unpacks the first version with the baseline's migrations (migrations/1000_*.sql) as they are, so with none of the
 * later ones, and without the names of `PREPARED`. Needs the history of the repository.
 */
export function unpackBaseline(): PreviousVersion {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 30 });
  const commit = git("log", "-1", "--format=%H", "--", "migrations/1000_*.sql").trim();
  if (commit === "") throw new Error("the repository has no history: clone it without --depth");
  const folder = mkdtempSync(join(tmpdir(), "purser-previous-"));
  const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  for (const [file, name] of Object.entries(PREPARED)) {
    const path = join(folder, file);
    writeFileSync(path, readFileSync(path, "utf8").replace(`name: "${name}",`, ""));
  }
  const main = join(folder, "src/main.ts");
  if (!existsSync(main)) throw new Error(`the commit ${commit} has no src/main.ts`);
  return { commit: commit.slice(0, 7), main, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
