import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";

/** A part of a Markdown text, ready to render: it holds no HTML, and only addresses that are safe to open. */
export interface MarkdownNode {
  kind: Kind;
  /** Of `text`, `code` and `codeBlock`. */
  text?: string;
  /** Of `link`: http, https or mailto. */
  url?: string;
  /** First number of an ordered list. */
  start?: number;
  /** State of a task list item. */
  checked?: boolean;
  /** Of `table`: the alignment of each column. */
  align?: readonly ("left" | "center" | "right" | null)[];
  children?: MarkdownNode[];
}
type Kind =
  | "root"
  | "paragraph"
  | "heading"
  | "quote"
  | "list"
  | "orderedList"
  | "item"
  | "table"
  | "row"
  | "cell"
  | "codeBlock"
  | "rule"
  | "text"
  | "code"
  | "strong"
  | "emphasis"
  | "deleted"
  | "break"
  | "link";

type Root = ReturnType<typeof fromMarkdown>;
type Content = Root["children"][number];
type Definitions = ReadonlyMap<string, string>;

/** A longer text stays plain. */
const MAX_CHARS = 100_000;
/** Deeper parts become plain text. */
const MAX_DEPTH = 24;

/** Parses GitHub-flavoured Markdown; null: show the text as it is. Run it in the worker: some texts take seconds. */
export function parseMarkdown(text: string): MarkdownNode | null {
  if (text.length > MAX_CHARS) return null;
  try {
    const root = fromMarkdown(text, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
    return { kind: "root", children: convertAll(root.children, definitionsIn(root), 0) };
  } catch (error) {
    // Thousands of nested quotes exceed the parser's stack.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Targets of `[text][label]` links by label. */
function definitionsIn(root: Root): Definitions {
  const definitions = root.children.filter((node) => node.type === "definition");
  return new Map(definitions.map(({ identifier, url }) => [identifier, url]));
}

function convertAll(nodes: readonly Content[], definitions: Definitions, depth: number): MarkdownNode[] {
  return nodes.flatMap((node) => convert(node, definitions, depth));
}

const CONTAINERS: Partial<Record<Content["type"], Kind>> = {
  paragraph: "paragraph",
  heading: "heading",
  blockquote: "quote",
  tableRow: "row",
  tableCell: "cell",
  strong: "strong",
  emphasis: "emphasis",
  delete: "deleted",
  footnoteDefinition: "paragraph",
};

function convert(node: Content, definitions: Definitions, depth: number): MarkdownNode[] {
  if (depth > MAX_DEPTH) return [textNode("…")];
  const inside = () => ("children" in node ? convertAll(node.children, definitions, depth + 1) : []);
  const container = CONTAINERS[node.type];
  if (container !== undefined) return [{ kind: container, children: inside() }];
  switch (node.type) {
    case "text":
    case "html":
      return [textNode(node.value)];
    case "inlineCode":
      return [{ kind: "code", text: node.value }];
    case "code":
      return [{ kind: "codeBlock", text: node.value }];
    case "thematicBreak":
      return [{ kind: "rule" }];
    case "break":
      return [{ kind: "break" }];
    case "table":
      return [{ kind: "table", align: node.align ?? [], children: inside() }];
    case "list":
      return [
        node.ordered === true
          ? { kind: "orderedList", start: node.start ?? 1, children: inside() }
          : { kind: "list", children: inside() },
      ];
    case "listItem":
      return [
        { kind: "item", ...(typeof node.checked === "boolean" && { checked: node.checked }), children: inside() },
      ];
    case "link":
      return linkNodes(inside(), node.url);
    case "linkReference":
      return linkNodes(inside(), definitions.get(node.identifier) ?? null);
    case "image":
      return linkNodes([textNode(node.alt ?? "")], node.url);
    case "imageReference":
      return linkNodes([textNode(node.alt ?? "")], definitions.get(node.identifier) ?? null);
    case "footnoteReference":
      return [textNode(`[${node.identifier}]`)];
    default:
      return [];
  }
}

const textNode = (text: string): MarkdownNode => ({ kind: "text", text });

/**
 * The label, then the address as a link: a page may have misled the model, so the person sees the target before they
 * open it. Images are not loaded.
 */
function linkNodes(label: MarkdownNode[], url: string | null): MarkdownNode[] {
  if (url === null) return label;
  const link: MarkdownNode = isSafe(url) ? { kind: "link", url, text: url } : textNode(url);
  const shown = label.map(({ text = "" }) => text).join("");
  const is_address = [url, url.replace(/^https?:\/\//, ""), url.replace(/^mailto:/, "")].includes(shown);
  return shown === "" || is_address ? [link] : [...label, textNode(" "), link];
}

/** Invisible characters, and characters that change the writing direction, make an address look like another. */
const DECEPTIVE = /[\s\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f]/;

const isSafe = (url: string): boolean =>
  /^(https?:\/\/|mailto:)/i.test(url) && !DECEPTIVE.test(url) && URL.canParse(url);
