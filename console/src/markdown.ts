/** Models answer in Markdown: as much of it as is common, as blocks and spans to show. Pure; what it does not know stays text. */

export type Block =
  | { kind: "paragraph" | "quote" | "heading" | "code"; text: string }
  | { kind: "rule" }
  | { kind: "list"; items: Item[] }
  | { kind: "table"; head: string[]; rows: string[][] };
interface Item {
  /** As it was written, so that numbers stay what they are: `•` or `3.` */
  mark: string;
  depth: number;
  text: string;
}
export type Span = { kind: "text" | "code" | "strong" | "emphasis" | "address"; text: string };

const FENCE = /^\s*(```+|~~~+)/;
const HEADING = /^#{1,6}\s+(.*)$/s;
/** The signs that may close a heading. */
const HEADING_END = /(^|\s)#+$/;
const RULE = /^\s*([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/s;
const QUOTE = /^\s*>\s?(.*)$/;
const ROW = /^\s*\|.*\|\s*$/;
const ROW_BELOW_HEAD = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/;
const DEEPEST = 4;

export function blocksOf(markdown: string): Block[] {
  const lines = markdown.split(/\r?\n/);
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    const [block, next] = blockAt(lines, at);
    if (block !== null) blocks.push(block);
    at = next;
  }
  return blocks;
}

/** The block that begins at a line, and the line after it. */
function blockAt(lines: string[], at: number): [Block | null, number] {
  const line = lines[at] ?? "";
  if (line.trim() === "") return [null, at + 1];
  const fence = FENCE.exec(line)?.[1];
  if (fence !== undefined) {
    const end = endOf(lines, at + 1, (other) => !other.trimStart().startsWith(fence));
    return [{ kind: "code", text: lines.slice(at + 1, end).join("\n") }, end + 1];
  }
  const heading = HEADING.exec(line)?.[1];
  if (heading !== undefined)
    return [{ kind: "heading", text: heading.trimEnd().replace(HEADING_END, "").trimEnd() }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (QUOTE.test(line)) {
    const end = endOf(lines, at, (other) => QUOTE.test(other));
    const quoted = lines.slice(at, end).map((other) => QUOTE.exec(other)?.[1] ?? "");
    return [{ kind: "quote", text: quoted.join("\n") }, end];
  }
  if (ROW.test(line) && ROW_BELOW_HEAD.test(lines[at + 1] ?? "")) {
    const end = endOf(lines, at + 2, (other) => ROW.test(other));
    return [{ kind: "table", head: cells(line), rows: lines.slice(at + 2, end).map(cells) }, end];
  }
  if (ITEM.test(line)) {
    const end = endOf(lines, at, (other) => ITEM.test(other) || (/^\s+\S/.test(other) && !FENCE.test(other)));
    return [{ kind: "list", items: itemsOf(lines.slice(at, end)) }, end];
  }
  const end = endOf(lines, at + 1, (other) => !begins(other));
  return [{ kind: "paragraph", text: lines.slice(at, end).join("\n") }, end];
}

function endOf(lines: string[], from: number, goesOn: (line: string) => boolean): number {
  let end = from;
  while (end < lines.length && goesOn(lines[end] ?? "")) end++;
  return end;
}

/** Whether a line ends the paragraph above it. */
const begins = (line: string) =>
  line.trim() === "" || [FENCE, HEADING, RULE, QUOTE, ITEM, ROW].some((kind) => kind.test(line));

const cells = (row: string) =>
  row
    .trim()
    .slice(1, -1)
    .split("|")
    .map((cell) => cell.trim());

function itemsOf(lines: string[]): Item[] {
  const items: Item[] = [];
  for (const line of lines) {
    const [, indent = "", number, text = ""] = ITEM.exec(line) ?? [];
    const last = items.at(-1);
    if (ITEM.test(line)) {
      const depth = Math.min(DEEPEST, Math.floor(indent.replaceAll("\t", "  ").length / 2));
      items.push({ mark: number === undefined ? "•" : `${number}.`, depth, text });
    } else if (last !== undefined) last.text += `\n${line.trim()}`;
  }
  return items;
}

// What is looked for has a bounded length, so that no text takes long, however it is made. No address holds characters that
// turn the direction of writing or are not shown: it would look like another.
const SPANS = [
  /(?<tick>`{1,3})(?<code>[^\n]{1,400}?)\k<tick>/,
  /\*\*(?<strong>[^\n]{1,400}?)\*\*/,
  /\*(?<emphasis>[^\s*](?:[^\n*]{0,398}[^\s*])?)\*/,
  /!?\[(?<label>[^\]\n]{0,300})\]\((?<target>[^\s()\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f]{1,2000})(?: "[^"\n]{0,300}")?\)/,
  /(?<address>https?:\/\/[^\s<>()[\]"`|\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f]{1,2000})/,
];
const SPAN = new RegExp(SPANS.map(({ source }) => source).join("|"), "g");

/**
 * The spans of a text. A link's address is always shown, beside what it is called: what a page has talked a model into
 * writing is to be seen before it is followed. Pictures are addresses too: nothing is loaded.
 */
export function spansOf(text: string): Span[] {
  const spans: Span[] = [];
  let from = 0;
  const upTo = (end: number) => end > from && spans.push({ kind: "text", text: text.slice(from, end) });
  for (const match of text.matchAll(SPAN)) {
    const { code, strong, emphasis, label, target, address } = match.groups ?? {};
    upTo(match.index);
    from = match.index + match[0].length;
    if (code !== undefined) spans.push({ kind: "code", text: code });
    else if (strong !== undefined) spans.push({ kind: "strong", text: strong });
    else if (emphasis !== undefined) spans.push({ kind: "emphasis", text: emphasis });
    else if (address !== undefined) {
      const bare = address.replace(/[.,;:!?'*_]+$/, "");
      spans.push({ kind: "address", text: bare });
      from -= address.length - bare.length;
    } else {
      if (label !== undefined && label !== "" && label !== target) spans.push({ kind: "text", text: `${label} ` });
      spans.push({ kind: /^https?:\/\//i.test(target ?? "") ? "address" : "text", text: target ?? "" });
    }
  }
  upTo(text.length);
  return spans;
}
