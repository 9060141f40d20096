import { attributeOf, type Element, isElement, nameOf } from "./page-tree.ts";

/**
 * Writes the visible text as Markdown-like text: each block on its own lines, white space collapsed as in a browser.
 */

const BLOCKS = new Set(
  (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure " +
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu mtable mtr nav ol option p pre search " +
    "section summary table tbody tfoot thead title tr ul"
  ).split(" "),
);
const SPACED = new Set("p h1 h2 h3 h4 h5 h6 ul ol dl table pre blockquote section article hr title figure".split(" "));
const KNOWN_INLINE = new Set(
  (
    "a abbr acronym area audio b base bdi bdo big br button canvas cite code col colgroup data datalist del dfn em embed " +
    "font head i iframe img input ins kbd label link map mark math meta meter nobr noscript object optgroup output " +
    "param picture progress q rp rt ruby s samp script select slot small source span strike strong style sub sup svg " +
    "td template textarea tfoot th time track tt u var video wbr path g circle rect text use " +
    "mi mn mo ms mtext mrow mstyle mfrac msup msub msubsup msqrt mroot munder mover munderover mtd semantics annotation"
  ).split(" "),
);
/** Cells of a row. */
const CELLS = new Set(["td", "th", "mtd"]);
/** Whether the text before and after the element's tag is in different lines or cells. */
export function breaksLine(name: string): boolean {
  return BLOCKS.has(name) || name === "br" || CELLS.has(name);
}

/** Whether tags of this name in Markdown are text, because no such element exists. */
export function isWritten(name: string): boolean {
  return !BLOCKS.has(name) && !KNOWN_INLINE.has(name);
}

/** White space that separates words: also wide, thin and unbreakable spaces. A byte order mark is none. */
const isSpace = (char: string): boolean => /[^\S\ufeff]/.test(char);

/** What separates the parts of a formula: before the second one, before the third one. */
const BETWEEN: Readonly<Record<string, readonly string[]>> = {
  msup: ["^"],
  msub: ["_"],
  msubsup: ["_", "^"],
  mfrac: ["/"],
  mroot: [" root "],
  mover: ["^"],
  munder: ["_"],
  munderover: ["_", "^"],
};
const FORMULA_WORDS = new Set(["mi", "mn", "mo", "ms", "mtext"]);
/** These stand beside a number as its ending. */
const ORDINAL = /^(?:st|nd|rd|th)$/i;

/** The most links that are counted per page. */
export const MAX_COUNTED_LINKS = 20_000;
const MAX_URL_LENGTH = 2_000;

/**
 * Keeps `<your name>` and `List<T>`, which are text, and `<Card title="…">` of MDX with its title. Drops attribute
 * values of other tags, and comments.
 */
function placeholder({ attrs }: Element, source: string): string {
  const isComponent = /^<[A-Z]/.test(source);
  const unseen = source.includes("<!--") || (!isComponent && attrs.some(({ value }) => value !== ""));
  return unseen ? `${/^<[^\s<>/]*/.exec(source)?.[0] ?? "<"}>` : source;
}

/** @param options.keep_lines for Markdown sources: text and unknown tags stay as written */
export function createTextWriter({ keep_lines }: { keep_lines: boolean }) {
  const parts: string[] = [];
  const links = new Map<string, string>();
  const other_links = new Map<string, string>();
  let pendingBreak = 0;
  let pendingSpace = false;
  let atLineStart = true;
  let preformatted = 0;
  let anchor: { url: string; text: string } | null = null;
  /** What is to stand before the next text if no white space does: `^` before an exponent. */
  let mark = "";
  /** The formulas around the next text, with the number of their parts until now. */
  const formulas: { name: string; parts: number; is_group: boolean }[] = [];

  function breakLine(lines: number): void {
    pendingBreak = Math.max(pendingBreak, lines);
  }

  function put(text: string): void {
    if (pendingBreak > 0 && parts.length > 0) parts.push("\n".repeat(pendingBreak));
    else if (pendingSpace && !atLineStart) parts.push(" ");
    else if (pendingBreak === 0) putMark(text);
    if (pendingBreak > 0) atLineStart = true;
    pendingBreak = 0;
    pendingSpace = false;
    mark = "";
    parts.push(text);
    atLineStart = false;
  }

  /** Keeps a raised or lowered text apart from its base, and from the digits after it. */
  function putMark(text: string): void {
    const before = parts.at(-1)?.at(-1) ?? "";
    const is_apart = mark === " " ? !/\d/.test(before) || !/^\d/.test(text) : !/[\p{L}\p{N})\]%]/u.test(before);
    if (mark === "" || is_apart || !/^[\p{L}\p{N}(+−-]/u.test(text)) return;
    if (!(mark === "^" && ORDINAL.test(text.trim()))) parts.push(mark);
  }

  function collapsed(text: string): void {
    const core = text.trim();
    if (formulas.length > 0) {
      if (core !== "") put(core);
      return;
    }
    if (isSpace(text.charAt(0))) pendingSpace = true;
    if (core === "") return;
    put(/[\t\r\n\f]| {2}/.test(core) ? core.replace(/[ \t\r\n\f]+/g, " ") : core);
    pendingSpace = isSpace(text.charAt(text.length - 1));
  }

  /** Writes what separates this part of a formula from the one before. */
  function openFormula(element: Element, name: string): void {
    const outer = formulas.at(-1);
    const between = BETWEEN[outer?.name ?? ""] ?? [];
    const sign = between[(outer?.parts ?? 0) - 1] ?? "";
    const is_group = name === "msqrt" || (between.length > 0 && element.childNodes.filter(isElement).length > 1);
    if (outer !== undefined) outer.parts++;
    if (sign !== "") glue(sign);
    else if ((is_group || FORMULA_WORDS.has(name)) && !/[(^_/√]$/.test(parts.at(-1) ?? "")) pendingSpace = true;
    if (name === "msqrt") put("√");
    if (is_group) put("(");
    formulas.push({ name, parts: 0, is_group });
  }

  /** Writes a sign without a space before it. */
  function glue(sign: string): void {
    pendingSpace = false;
    put(sign);
  }

  function prefix(name: string): void {
    if (name.length === 2 && /^h[1-6]$/.test(name)) put(`${"#".repeat(Number(name[1]))} `);
    else if (name === "li") put("- ");
    else if (name === "hr") put("---");
    else return;
    atLineStart = name !== "hr";
  }

  function endAnchor(): void {
    // The text of a link counts, not the picture with the same address.
    if (anchor !== null && (links.has(anchor.url) ? links.get(anchor.url) === "" : links.size < MAX_COUNTED_LINKS))
      links.set(anchor.url, anchor.text.trim());
    anchor = null;
  }

  return {
    open(element: Element, source: string): void {
      const name = nameOf(element);
      if (name === "a") {
        endAnchor();
        const url = linkTarget(attributeOf(element, "href"));
        anchor = url === null ? null : { url, text: "" };
      }
      if (name === "sup" || name === "sub") mark = name === "sup" ? "^" : "_";
      if (keep_lines) {
        if (isWritten(name)) parts.push(placeholder(element, source));
        else if (name === "br") parts.push("\n");
        return;
      }
      if (name === "br") breakLine(1);
      else if (CELLS.has(name)) cellGap();
      else if (BLOCKS.has(name)) breakLine(SPACED.has(name) ? 2 : 1);
      if (name === "pre" || name === "textarea") preformatted++;
      if (name === "rt") glue("(");
      prefix(name);
      if (name === "math" || formulas.length > 0) openFormula(element, name);
    },
    close(element: Element, source: string): void {
      const name = nameOf(element);
      if (name === "a") endAnchor();
      if (name === "sup" || name === "sub") mark = mark === "" ? " " : "";
      if (keep_lines) {
        if (isWritten(name)) parts.push(source);
        return;
      }
      if ((name === "pre" || name === "textarea") && preformatted > 0) preformatted--;
      if (BLOCKS.has(name)) breakLine(SPACED.has(name) ? 2 : 1);
      if (name === "rt") glue(")");
      if (formulas.length > 0 && formulas.pop()?.is_group === true) glue(")");
    },
    text(text: string): void {
      if (anchor !== null && anchor.text.length < 200)
        anchor.text += /[^\S ]|\s\s/.test(text) ? text.replace(/\s+/g, " ") : text;
      if (keep_lines) {
        putMark(text);
        mark = "";
        parts.push(text);
      } else if (preformatted > 0) put(text);
      else collapsed(text);
    },
    /** Notes an address that the page leads to without a link's text, such as a frame's. */
    link(href: string | undefined, label: string): void {
      const url = linkTarget(href);
      if (url !== null && other_links.size < MAX_COUNTED_LINKS) other_links.set(url, label);
    },
    result(): { text: string; links: { text: string; url: string }[] } {
      endAnchor();
      for (const [url, label] of other_links) if (!links.has(url)) links.set(url, label);
      const text = parts.join("");
      return { text: keep_lines ? text : text.trim(), links: [...links].map(([url, label]) => ({ url, text: label })) };
    },
  };

  /** Separates the cells of a row on one line. */
  function cellGap(): void {
    if (pendingBreak === 0 && !atLineStart) put(" | ");
    atLineStart = pendingBreak > 0 || parts.length === 0;
    pendingSpace = false;
  }
}

/** Returns http(s) and relative addresses; drops fragments, scripts and data. */
function linkTarget(href: string | undefined): string | null {
  const target = href?.trim() ?? "";
  if (target === "" || target.startsWith("#") || target.length > MAX_URL_LENGTH) return null;
  return /^[a-z][a-z0-9+.-]*:/i.test(target) && !/^https?:/i.test(target) ? null : target;
}
