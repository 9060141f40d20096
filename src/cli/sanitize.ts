import { jsonOrUndefined } from "../platform/lib/json.ts";
import { readLines } from "../platform/lib/json-lines.ts";
import { newMark } from "../safety/fence.ts";
import { type ContentKind, sanitize } from "../safety/sanitize.ts";

/** `npm run -s sanitize`: the safety layer on JSON lines, one answer per line, in order. */

const KINDS: readonly string[] = ["html", "markdown", "text"] satisfies ContentKind[];

function answer(line: string): object {
  const request = jsonOrUndefined(line);
  if (request === undefined) return { error: "this line is not JSON" };
  const { id, kind, content } = (request ?? {}) as { id?: unknown; kind?: unknown; content?: unknown };
  if (typeof content !== "string" || typeof kind !== "string" || !KINDS.includes(kind)) {
    return { id, error: "each line is {id, kind: html|markdown|text, content}" };
  }
  const {
    links: _,
    marked,
    ...result
  } = sanitize({ content, kind: kind as ContentKind, level: "balanced", mark: newMark() });
  return { id, ...result, ...(marked.length === 0 ? {} : { marked }) };
}

// Who reads the answers may have enough of them.
process.stdout.on("error", () => process.exit(0));
for await (const line of readLines(process.stdin)) {
  // Without the mark of byte order that some editors put first.
  const trimmed = line.trim();
  if (trimmed !== "") process.stdout.write(`${JSON.stringify(answer(trimmed))}\n`);
}
