import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Lists of phrases by name. */
export type Phrases = Readonly<Record<string, readonly string[]>>;

/**
 * Reads a file of phrases, one per line, under headings such as `@German ask`: a group and the name of a list. `\n` is a
 * line feed.
 */
export function readPhrases(file: string): Map<string, Phrases> {
  const groups = new Map<string, Record<string, string[]>>();
  let list: string[] = [];
  for (const line of readFileSync(join(import.meta.dirname, file), "utf8")
    .trimEnd()
    .split("\n")) {
    const [, group, name] = /^@(\w+) (\w+)$/.exec(line) ?? [];
    if (group === undefined || name === undefined) {
      list.push(line.replaceAll("\\n", "\n"));
      continue;
    }
    list = [];
    groups.set(group, { ...groups.get(group), [name]: list });
  }
  return groups;
}
