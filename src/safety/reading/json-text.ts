import { jsonOrUndefined } from "../../platform/lib/json.ts";

/**
 * Rewrites JSON with one member or text per line, so that escapes such as \\u0069 hide nothing. Text that is not JSON
 * keeps its shape. Works on tokens: indentation of deeply nested values would grow with the square of the depth.
 */
export function plainJson(text: string): string {
  return jsonOrUndefined(text) !== undefined ? rewritten(text) : unescaped(text);
}

/** The deepest indentation; deeper levels share it. */
const MAX_INDENT = 8;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s"[\]{},:]+/g;

/** A text with escapes, or with halves of characters, which become escapes. */
const ESCAPED = /^".*[\\\ud800-\udfff]/s;

/** Writes numbers of a list on one line. Members, texts and containers start a line each. */
function rewritten(text: string): string {
  const parts: string[] = [];
  let depth = 0;
  let before = "";
  for (const token of text.match(TOKEN) ?? []) {
    if (token === "]" || token === "}") depth--;
    if (beginsLine(token, before)) parts.push("\n", " ".repeat(Math.min(Math.max(depth, 0), MAX_INDENT)));
    else if (before === "," || before === ":") parts.push(" ");
    parts.push(ESCAPED.test(token) ? JSON.stringify(JSON.parse(token)) : token);
    if (token === "[" || token === "{") depth++;
    before = token;
  }
  return parts.join("");
}

function beginsLine(token: string, before: string): boolean {
  if (before === "" || before === ":" || token === ":" || token === ",") return false;
  if (token === "]") return before === "}";
  if (token === "}") return before !== "{";
  return token.startsWith('"') || ((token === "{" || token === "[") && before !== "[") || before === "{";
}

function unescaped(text: string): string {
  return text.replace(/\\u([0-9a-f]{4})/gi, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
