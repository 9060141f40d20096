import { createOverrideReader } from "./bidi.ts";
import { createLooks, hiddenLook, initialLook, type Look } from "./looks.ts";
import {
  attributeOf,
  type Element,
  eachNode,
  isComment,
  isElement,
  isTemplate,
  isText,
  nameOf,
  type PageNode,
  type Parent,
  readMarkdownTree,
  readPage,
  shadowRootOf,
} from "./page-tree.ts";
import { createStyles, type SheetSource, type StyleSheet } from "./style-sheet.ts";
import { breaksLine, createTextWriter, isWritten } from "./text-writer.ts";

/** Hidden content and the technique that hides it. */
export interface Hidden {
  readonly technique: string;
  readonly text: string;
}

export interface VisibleText {
  /** Markdown-like text: headings, list items, table rows, link texts without addresses. */
  readonly text: string;
  /** The removed content including attribute texts, for judging the page. */
  readonly hidden: readonly Hidden[];
  /** The http(s) addresses of the visible links, in order, each once. */
  readonly links: readonly { readonly text: string; readonly url: string }[];
  /** The page's own address for its relative links: the first `<base href>`, as written. */
  readonly base?: string | undefined;
}

/** Elements that show another page, and the attribute with its address. */
const FRAMES = new Map([
  ["iframe", "src"],
  ["frame", "src"],
  ["embed", "src"],
  ["object", "data"],
]);
/** The address in a `meta refresh` (HTML standard, "shared declarative refresh steps"). */
const REFRESH = /^\s{0,99}[\d.]{1,99}[\s;,]{1,99}(?:url\s{0,9}=\s{0,9})?["']?([^"']{1,2000})/i;
/** Attributes with prose that is not part of the page's text. */
const PROSE_ATTRIBUTE = /^(alt|title|content|placeholder|summary|label|value|aria-|data-)/;
/** Shorter attribute texts cannot instruct a model. */
const MIN_PROSE = 16;

/**
 * Returns the text that a reader of the page sees.
 * @param options.keep_lines for HTML inside Markdown: white space and unknown tags stay as written
 */
export function visibleText(
  html: string,
  { keep_lines }: { keep_lines: boolean } = { keep_lines: false },
): VisibleText {
  const { root, is_quirky } = keep_lines ? readMarkdownTree(html, isWritten) : readPage(html);
  const facts = factsOf(root);
  const styles = createStyles({ is_quirky });
  const writer = createTextWriter({ keep_lines });
  const overrides = createOverrideReader(writer.text);
  const lookOf = createLooks();
  const hidden: Hidden[] = [];

  /** The nodes of one parent that are still to be read. */
  interface Frame {
    readonly nodes: readonly PageNode[];
    next: number;
    readonly look: Look;
    readonly tree: ShownTree;
    /** Called after the last one. */
    readonly end: (() => void) | null;
  }
  const frames: Frame[] = [];
  const open = (nodes: readonly PageNode[], given: { look: Look; tree: ShownTree; end?: () => void }) =>
    frames.push({ nodes, next: 0, look: given.look, tree: given.tree, end: given.end ?? null });

  function readElement(element: Element, around: Look, tree: ShownTree): void {
    const name = nameOf(element);
    noteAttributes(element, hidden);
    const look = lookOf(element, around, tree.sheet);
    const is_seen = look.technique === null;
    if (around.technique === null) noteLinks(element, look);
    if (is_seen && breaksLine(name)) overrides.end();
    if (is_seen) writer.open(element, sourceOf(element, "startTag"));
    const end = () => {
      // Hidden elements do not end an override: people read the text around them as one.
      if ((is_seen && breaksLine(name)) || (around.technique === null && around.override === null)) overrides.end();
      if (is_seen) writer.close(element, sourceOf(element, "endTag"));
    };
    openContent(element, { look, tree, end });
  }

  /** Opens what the element displays. What it has but does not display is read as hidden. */
  function openContent(element: Element, { look, tree, end }: { look: Look; tree: ShownTree; end: () => void }): void {
    const shadow = keep_lines ? null : shadowRootOf(element);
    if (shadow !== null) {
      const slotted = Map.groupBy(
        element.childNodes.filter((node) => node !== shadow && (isElement(node) || isText(node))),
        (node) => (isElement(node) ? (attributeOf(node, "slot") ?? "") : ""),
      );
      const sheet = styles.readSheets(factsOf(shadow.content).sheets);
      const unslotted = () => {
        end();
        open(Array.from(slotted.values()).flat(), { look: hiddenLook(look, "not-slotted"), tree });
      };
      open(shadow.content.childNodes, { look, tree: { sheet, host: { slotted, tree } }, end: unslotted });
      return;
    }
    if (isTemplate(element)) {
      open(element.content.childNodes, { look: hiddenLook(look, "template"), tree, end });
      return;
    }
    const name = element.tagName === "slot" ? (attributeOf(element, "name") ?? "") : null;
    const nodes = name === null ? undefined : tree.host?.slotted.get(name);
    if (name === null || nodes === undefined || tree.host === null) {
      open(element.childNodes, { look, tree, end });
      return;
    }
    // The first slot of a name displays the host's content. Its own is displayed only if there is none.
    tree.host.slotted.delete(name);
    const fallback = () => {
      end();
      open(element.childNodes, { look: hiddenLook(look, "fallback-content"), tree });
    };
    open(nodes, { look, tree: tree.host.tree, end: fallback });
  }

  /** Notes the addresses of frames, of areas in pictures, and of the page that this one leads on to. */
  function noteLinks(element: Element, look: Look): void {
    const name = nameOf(element);
    const source = FRAMES.get(name);
    const is_shown = look.technique === null || (look.hidden_by === "fallback-content" && !look.invisible);
    const is_tiny = ["width", "height"].some((size) => /^\s*[01](?:px)?\s*$/i.test(attributeOf(element, size) ?? ""));
    if (source !== undefined && is_shown && !is_tiny) writer.link(attributeOf(element, source), "(frame)");
    if (name === "area" && is_shown) writer.link(attributeOf(element, "href"), "(area of a picture)");
    if (name === "meta" && attributeOf(element, "http-equiv")?.toLowerCase() === "refresh") {
      writer.link(REFRESH.exec(attributeOf(element, "content") ?? "")?.[1], "(next page)");
    }
  }

  function readText(text: string, look: Look): void {
    if (look.technique === null) overrides.text(text, look.override);
    // Where scripts run, the content of noscript is text, with its tags.
    else if (look.technique === "noscript") note(hidden, "noscript", text.replace(/<[^<>]*>/g, " "));
    else if (look.technique !== "style") note(hidden, look.technique, text);
  }

  function sourceOf(element: Element, tag: "startTag" | "endTag"): string {
    const place = element.sourceCodeLocation?.[tag];
    return place ? html.slice(place.startOffset, place.endOffset) : "";
  }

  open(root.childNodes, {
    look: initialLook(facts),
    tree: { sheet: styles.readSheets(facts.sheets), host: null },
  });
  for (let frame = frames.at(-1); frame !== undefined; frame = frames.at(-1)) {
    const node = frame.nodes[frame.next++];
    if (node === undefined) {
      frames.pop();
      frame.end?.();
    } else if (isElement(node)) readElement(node, frame.look, frame.tree);
    else if (isText(node)) readText(node.value, frame.look);
    else if (isComment(node)) note(hidden, "comment", node.data);
  }
  overrides.end();
  return { ...writer.result(), hidden, base: facts.base };
}

/** The page, or a shadow root: its rules select only its own elements. */
interface ShownTree {
  readonly sheet: StyleSheet;
  /** The element with the shadow root, and its content that no slot has displayed yet, by the slot's name. */
  readonly host: { readonly slotted: Map<string, readonly PageNode[]>; readonly tree: ShownTree } | null;
}

/** What the elements of a page or a shadow root tell about all of it. */
function factsOf(root: Parent): { sheets: SheetSource[]; base: string | undefined; has_foreign_sheet: boolean } {
  const sheets: SheetSource[] = [];
  let base: string | undefined;
  let has_foreign_sheet = false;
  eachNode(root, (node) => {
    if (!isElement(node)) return;
    if (node.tagName === "base") base ??= attributeOf(node, "href");
    else if (node.tagName === "link") has_foreign_sheet ||= /stylesheet/i.test(attributeOf(node, "rel") ?? "");
    else if (node.tagName === "style" && /^(?:|text\/css)$/i.test((attributeOf(node, "type") ?? "").trim())) {
      const css = node.childNodes.map((each) => (isText(each) ? each.value : "")).join("");
      sheets.push({ css, media: attributeOf(node, "media") ?? "" });
    }
  });
  return { sheets, base, has_foreign_sheet };
}

function noteAttributes({ attrs }: Element, hidden: Hidden[]): void {
  for (const { name, value } of attrs) {
    if (value.length >= MIN_PROSE && PROSE_ATTRIBUTE.test(name) && value.includes(" ")) {
      note(hidden, `attribute-${name.replace(/^(aria|data)-.*/, "$1")}`, value);
    }
  }
}

function note(hidden: Hidden[], technique: string, text: string): void {
  if (/\S/.test(text)) hidden.push({ technique, text });
}
