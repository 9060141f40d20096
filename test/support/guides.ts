import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const ROOT = join(import.meta.dirname, "../..");

/** Code blocks of a language, in the order of the page, because later ones may use variables of earlier ones. */
export function codeBlocks(file: string, language: string): string[] {
  const found = readFileSync(join(ROOT, file), "utf8").matchAll(
    new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"),
  );
  return [...found].map((match) => match[1] ?? "");
}

/** Runs shell commands, up to the first that fails, with `variables` beside this process's own. Resolves to their output. */
export async function runShell(commands: readonly string[], variables: NodeJS.ProcessEnv): Promise<string> {
  const script = ["set -euo pipefail", ...commands].join("\n");
  const { stdout } = await promisify(execFile)("bash", ["-c", script], { env: { ...process.env, ...variables } });
  return stdout;
}
