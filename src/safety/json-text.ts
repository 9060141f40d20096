/** Indenting costs the square of the depth; nothing that people publish nests deeper. */
const MAX_DEPTH = 64;

/** JSON written out anew, a value a line, so that escapes such as \u0069 hide nothing; what is not JSON keeps its shape. */
export function plainJson(text: string): string {
  if (isDeeperThan(text, MAX_DEPTH)) return unescaped(text);
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return unescaped(text);
  }
}

function unescaped(text: string): string {
  return text.replace(/\\u([0-9a-f]{4})/gi, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

function isDeeperThan(text: string, depth: number): boolean {
  let open = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') at = endOfString(text, at);
    else if (char === "[" || char === "{") {
      if (++open > depth) return true;
    } else if (char === "]" || char === "}") open--;
  }
  return false;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '"') return at;
    if (text[at] === "\\") at++;
  }
  return text.length;
}
