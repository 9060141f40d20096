/**
 * Writes the visible text as Markdown-like text: each block on its own lines, white space collapsed as in a browser.
 */

const BLOCKS = new Set(
  (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure " +
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol option p pre search section " +
    "summary table tbody tfoot thead title tr ul"
  ).split(" "),
);
const SPACED = new Set("p h1 h2 h3 h4 h5 h6 ul ol dl table pre blockquote section article hr title figure".split(" "));
const KNOWN_INLINE = new Set(
  (
    "a abbr acronym area audio b base bdi bdo big br button canvas cite code col colgroup data datalist del dfn em embed " +
    "font head i iframe img input ins kbd label link map mark math meta meter nobr noscript object optgroup output " +
    "param picture progress q rp rt ruby s samp script select slot small source span strike strong style sub sup svg " +
    "td template textarea tfoot th time track tt u var video wbr path g circle rect text use"
  ).split(" "),
);
/** Whether the text before and after the element's tag is in different lines or cells. */
export function breaksLine(name: string): boolean {
  return BLOCKS.has(name) || name === "br" || name === "td" || name === "th";
}

/** White space that browsers collapse. */
const isSpace = (code: number): boolean =>
  code === 0x20 || code === 0x0a || code === 0x09 || code === 0x0d || code === 0x0c;

/** The most links that are counted per page. */
export const MAX_COUNTED_LINKS = 20_000;
const MAX_URL_LENGTH = 2_000;

/**
 * Keeps `<your name>` and `List<T>`, which are text, and `<Card title="…">` of MDX with its title. Drops attribute
 * values of other tags, and comments.
 */
function placeholder(attributes: ReadonlyMap<string, string>, source: string): string {
  const isComponent = /^<[A-Z]/.test(source);
  const unseen = source.includes("<!--") || (!isComponent && [...attributes.values()].some((value) => value !== ""));
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

  function breakLine(lines: number): void {
    pendingBreak = Math.max(pendingBreak, lines);
  }

  function put(text: string): void {
    if (pendingBreak > 0 && parts.length > 0) parts.push("\n".repeat(pendingBreak));
    else if (pendingSpace && !atLineStart) parts.push(" ");
    if (pendingBreak > 0) atLineStart = true;
    pendingBreak = 0;
    pendingSpace = false;
    parts.push(text);
    atLineStart = false;
  }

  function collapsed(text: string): void {
    const core = text.trim();
    if (isSpace(text.charCodeAt(0))) pendingSpace = true;
    if (core === "") return;
    put(/[\t\r\n\f]| {2}/.test(core) ? core.replace(/[ \t\r\n\f]+/g, " ") : core);
    pendingSpace = isSpace(text.charCodeAt(text.length - 1));
  }

  function prefix(name: string): void {
    if (name.length === 2 && /^h[1-6]$/.test(name)) put(`${"#".repeat(Number(name[1]))} `);
    else if (name === "li") put("- ");
    else if (name === "hr") put("---");
    else return;
    atLineStart = name !== "hr";
  }

  function endAnchor(): void {
    if (anchor !== null && links.size < MAX_COUNTED_LINKS && !links.has(anchor.url))
      links.set(anchor.url, anchor.text.trim());
    anchor = null;
  }

  return {
    open(name: string, attributes: ReadonlyMap<string, string>, source: string): void {
      if (name === "a") {
        endAnchor();
        const url = linkTarget(attributes.get("href"));
        anchor = url === null ? null : { url, text: "" };
      }
      if (keep_lines) {
        if (!BLOCKS.has(name) && !KNOWN_INLINE.has(name)) parts.push(placeholder(attributes, source));
        else if (name === "br") parts.push("\n");
        return;
      }
      if (name === "br") breakLine(1);
      else if (name === "td" || name === "th") cellGap();
      else if (BLOCKS.has(name)) breakLine(SPACED.has(name) ? 2 : 1);
      if (name === "pre" || name === "textarea") preformatted++;
      prefix(name);
    },
    close(name: string, source: string): void {
      if (name === "a") endAnchor();
      if (keep_lines) {
        if (!BLOCKS.has(name) && !KNOWN_INLINE.has(name)) parts.push(source);
        return;
      }
      if ((name === "pre" || name === "textarea") && preformatted > 0) preformatted--;
      if (BLOCKS.has(name)) breakLine(SPACED.has(name) ? 2 : 1);
    },
    text(text: string): void {
      if (anchor !== null && anchor.text.length < 200)
        anchor.text += /[^\S ]|\s\s/.test(text) ? text.replace(/\s+/g, " ") : text;
      if (keep_lines) parts.push(text);
      else if (preformatted > 0) put(text);
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
