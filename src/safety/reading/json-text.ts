/**
 * JSON written out anew, a member and a text a line, so that escapes such as \\u0069 hide nothing; what is not JSON keeps
 * its shape. By its tokens, since a value that nests deeply would be indented by the square of its depth.
 */
export function plainJson(text: string): string {
  return isJson(text) ? rewritten(text) : unescaped(text);
}

/** Deeper levels are indented no further. */
const MAX_INDENT = 8;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s"[\]{},:]+/g;

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Numbers of a list stand in a row; members, texts and what contains others each begin a line. */
function rewritten(text: string): string {
  const parts: string[] = [];
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "]" || token === "}") depth--;
    if (beginsLine(token, before)) parts.push("\n", " ".repeat(Math.min(Math.max(depth, 0), MAX_INDENT)));
    else if (before === "," || before === ":") parts.push(" ");
    parts.push(token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token);
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
