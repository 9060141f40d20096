/** One piece of CSS, in source order. Comments are empty. `open`: the text before a block, such as a selector. */
export interface CssPiece {
  readonly type: "declaration" | "open" | "close";
  readonly text: string;
}

const SPECIAL = /["'\\(){}[\];]|\/\*/g;
const IN_STRING = /["'\\\n\r\f]/g;
const IN_URL = /[\\)]/g;
/** `url(` whose address has no quotes: its characters have no meaning. */
const BARE_URL = /url\($/i;
const CLOSERS: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/**
 * Splits CSS as the standard does: strings, brackets, comments, addresses and escapes hide semicolons and braces. One
 * forward pass without recursion.
 * @param options.in_block whether the text is the inside of a block, as in a `style` attribute
 */
export function* cssPieces(css: string, { in_block }: { in_block: boolean }): Generator<CssPiece> {
  const special = new RegExp(SPECIAL);
  const closers: string[] = [];
  const least = in_block ? 1 : 0;
  const text = pieceText(css);
  let depth = least;
  for (let found = special.exec(css); found !== null; found = special.exec(css)) {
    const [char] = found;
    const at = found.index;
    if (char === "/*") {
      const end = css.indexOf("*/", at + 2);
      special.lastIndex = end < 0 ? css.length : end + 2;
      text.skip(at, special.lastIndex);
      continue;
    }
    const type = typeOf(char, css, at);
    if (type === "skipped") special.lastIndex = afterSkipped(css, at, char);
    else if (type === "bracket") {
      if (char !== "{" || closers.length > 0 || text.start(at).startsWith("--")) closers.push(CLOSERS[char] ?? "");
      else {
        yield { type: "open", text: text.take(at) };
        depth++;
      }
    } else if (closers.length > 0) {
      if (char === closers.at(-1)) closers.pop();
    } else if (char === "}" && depth > least) {
      yield { type: "declaration", text: text.take(at) };
      yield { type: "close", text: "" };
      depth--;
    } else if (char === ";" && (depth > 0 || text.start(at).startsWith("@"))) {
      // Outside blocks, a semicolon ends only at-rules: it is part of a (then invalid) selector otherwise.
      yield { type: "declaration", text: text.take(at) };
    }
  }
  yield { type: "declaration", text: text.take(css.length) };
}

/** The text of the piece that is being read. */
function pieceText(css: string) {
  let before = "";
  let from = 0;
  let start: string | null = null;
  return {
    /** Leaves a comment's text out. */
    skip(at: number, end: number): void {
      before += `${css.slice(from, at)}/**/`;
      from = end;
    },
    /** Its first characters; read once, because a hostile piece has many comments and brackets. */
    start(at: number): string {
      start ??= (before + css.slice(from, at)).replace(/^(?:\s|<!--|-->|\/\*\*\/)+/, "").slice(0, 2);
      return start;
    },
    take(at: number): string {
      const text = before + css.slice(from, at);
      before = "";
      from = at + 1;
      start = null;
      return text;
    },
  };
}

function typeOf(char: string, css: string, at: number): "skipped" | "bracket" | "end" {
  if (char === "\\" || char === '"' || char === "'") return "skipped";
  if (
    char === "(" &&
    BARE_URL.test(css.slice(Math.max(0, at - 3), at + 1)) &&
    !/^\s*["']/.test(css.slice(at + 1, at + 100))
  )
    return "skipped";
  return CLOSERS[char] === undefined ? "end" : "bracket";
}

/** The place after a string, an address or an escape. A line end ends a string, as in browsers. */
function afterSkipped(css: string, at: number, char: string): number {
  if (char === "\\") return at + 2;
  const inside = new RegExp(char === "(" ? IN_URL : IN_STRING);
  inside.lastIndex = at + 1;
  for (let found = inside.exec(css); found !== null; found = inside.exec(css)) {
    if (found[0] === "\\") inside.lastIndex = found.index + 2;
    else if (char === "(" || found[0] === char || /\s/.test(found[0])) return found.index + 1;
  }
  return css.length;
}
