import {
  defaultTreeAdapter,
  html as dom,
  Parser,
  Token,
  TokenizerMode,
  type DefaultTreeAdapterTypes as Tree,
} from "parse5";

/** The tree that browsers make of a page. */

export type PageNode = Tree.ChildNode;
export type Element = Tree.Element;
/** What an element or a shadow root is in. */
export type Parent = Tree.ParentNode;

export const isElement = (node: unknown): node is Element =>
  typeof node === "object" && node !== null && "tagName" in node;
export const isText = (node: PageNode): node is Tree.TextNode => node.nodeName === "#text";
export const isComment = (node: PageNode): node is Tree.CommentNode => node.nodeName === "#comment";
export const isTemplate = (node: PageNode): node is Tree.Template => "content" in node;

export const isHtml = ({ namespaceURI }: Element) => namespaceURI === dom.NS.HTML;

/** The element's name. SVG's own capitals are lost. */
export function nameOf(element: Element): string {
  return isHtml(element) ? element.tagName : element.tagName.toLowerCase();
}

/** The value of an attribute, by its name in lower case. */
export function attributeOf(element: Element, name: string): string | undefined {
  for (const attribute of element.attrs) if (attribute.name === name) return attribute.value;
  return undefined;
}

export interface PageTree {
  readonly root: Parent;
  /** Whether classes and ids have no case, as on pages without a doctype. */
  readonly is_quirky: boolean;
}

/** Reads a page of HTML. */
export function readPage(html: string): PageTree {
  const root = Parser.parse(html) as Tree.Document;
  return { root, is_quirky: root.mode === dom.DOCUMENT_MODE.QUIRKS };
}

/**
 * Reads HTML in Markdown: `<Card />` ends there, as in JSX. End tags that `isText` accepts and that end nothing are
 * text. Elements have the places of their tags in the source.
 */
export function readMarkdownTree(html: string, isText: (name: string) => boolean): PageTree {
  const body = defaultTreeAdapter.createElement("body", dom.NS.HTML, []);
  const count_open = new Map<string, number>();
  const count = (element: Element, change: number) =>
    count_open.set(element.tagName, (count_open.get(element.tagName) ?? 0) + change);
  const treeAdapter = {
    ...defaultTreeAdapter,
    onItemPush: (element: Element) => void count(element, 1),
    onItemPop: (element: Element) => void count(element, -1),
  };
  const parser = Parser.getFragmentParser(body, { sourceCodeLocationInfo: true, treeAdapter });
  const [open, close] = [parser.onStartTag.bind(parser), parser.onEndTag.bind(parser)];
  parser.onStartTag = (token) => {
    const depth = parser.openElements.depth;
    open(token);
    const { tagName, tagID, location, selfClosing } = token;
    if (!selfClosing || parser.openElements.depth <= depth || parser.tokenizer.inForeignNode) return;
    parser.tokenizer.state = TokenizerMode.DATA;
    const end = location && { ...location, startOffset: location.endOffset };
    close({
      type: Token.TokenType.END_TAG,
      tagName,
      tagID,
      selfClosing,
      ackSelfClosing: false,
      attrs: [],
      location: end,
    });
  };
  parser.onEndTag = (token) => {
    const { tagName, location } = token;
    if (!isText(tagName) || (count_open.get(tagName) ?? 0) > 0 || location === null) return close(token);
    const chars = html.slice(location.startOffset, location.endOffset);
    parser.onCharacter({ type: Token.TokenType.CHARACTER, chars, location });
  };
  parser.tokenizer.write(html, true);
  return { root: parser.getFragment(), is_quirky: false };
}

/** Calls `visit` with each node below, in their order. Contents of templates are not below them. */
export function eachNode(root: Parent, visit: (node: PageNode) => void): void {
  const open: { nodes: readonly PageNode[]; next: number }[] = [{ nodes: root.childNodes, next: 0 }];
  for (let at = open.at(-1); at !== undefined; at = open.at(-1)) {
    const node = at.nodes[at.next++];
    if (node === undefined) {
      open.pop();
      continue;
    }
    visit(node);
    if (isElement(node) && node.childNodes.length > 0) open.push({ nodes: node.childNodes, next: 0 });
  }
}

/** The elements on which browsers attach a declarative shadow root (`<template shadowrootmode>`), besides a page's own. */
const HOSTS = new Set(
  "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span".split(" "),
);
const OWN_NAME = /^[a-z][^\s/>]*-/;
const NOT_OWN = new Set(
  "annotation-xml color-profile font-face font-face-src font-face-uri font-face-format font-face-name missing-glyph".split(
    " ",
  ),
);

/** The template whose content browsers display in place of the element's own; null: none. */
export function shadowRootOf(element: Element) {
  const { tagName, childNodes } = element;
  const can_host = isHtml(element) && (HOSTS.has(tagName) || (OWN_NAME.test(tagName) && !NOT_OWN.has(tagName)));
  if (!can_host) return null;
  for (const node of childNodes) {
    if (isTemplate(node) && /^(?:open|closed)$/i.test(attributeOf(node, "shadowrootmode") ?? "")) return node;
  }
  return null;
}
