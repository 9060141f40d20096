import { Tokenizer } from "htmlparser2";
import { type Hidden, type VisibleText, visibleText } from "./visible.ts";

/** Feeds and sitemaps by their root, with the element of one entry. Names are lower case and without prefixes. */
const ENTRY_OF = new Map([
  ["rss", "item"],
  ["rdf", "item"],
  ["feed", "entry"],
  ["urlset", "url"],
  ["sitemapindex", "sitemap"],
]);
/** The fields of a feed or an entry that people read. Of several names, the first one with text counts. */
const TITLE = ["title"];
const DATE = ["pubdate", "published", "updated", "date", "lastmod"];
const AUTHOR = ["creator", "author"];
/** `encoded` is RSS's field for the whole text. */
const TEXT = ["encoded", "content", "description", "summary", "subtitle"];
/** Parts with titles and links of something else. */
const SKIPPED = ["image", "textinput", "source", "thumbnail"];
const READ = new Set([TITLE, DATE, AUTHOR, TEXT, SKIPPED, "link", "loc", "enclosure", "guid"].flat());
/** Relations of a link to other text. The others are for programs. */
const READ_RELATION = /^(?:alternate|enclosure|related|via|next|prev|previous)$/;

/** An entry of a feed, or the feed's own head. */
interface Entry {
  /** HTML by the field's name. */
  readonly fields: Map<string, string>;
  readonly links: string[];
}

/**
 * The text of XML. A feed or a sitemap becomes its entries, each with its addresses. Other XML keeps its markup, with
 * its references decoded. Comments are hidden.
 */
export function visibleXml(xml: string, base_url: string | undefined): VisibleText {
  const tokens = tokenizeXml(xml);
  const hidden: Hidden[] = [];
  const feed = entriesOf(tokens);
  for (const token of tokens) {
    if (token.type === "comment" && /\S/.test(token.text)) hidden.push({ technique: "comment", text: token.text });
  }
  if (feed === null) return { text: asWritten(tokens), hidden, links: [] };
  const links: { text: string; url: string }[] = [];
  const parts = feed.map((entry, nth) =>
    entryText(entry, { heading: nth === 0 ? "# " : "## ", base_url, hidden, links }),
  );
  return { text: parts.filter((part) => part !== "").join("\n\n"), hidden, links };
}

/** The head and the entries of a feed or a sitemap; null: it is other XML. */
function entriesOf(tokens: readonly XmlToken[]): Entry[] | null {
  const entries: Entry[] = [{ fields: new Map(), links: [] }];
  let entry = entries[0] as Entry;
  let entry_name: string | undefined;
  let is_atom = false;
  /** The field that is being read, and how many elements of its name are open. */
  let field: { name: string; text: string; open: number; is_markup: boolean } | null = null;
  for (const token of tokens) {
    if (token.type === "comment") continue;
    if (token.type === "text") {
      // Escaped HTML and CDATA are markup. Text beside markup, as in Atom's XHTML, is text.
      if (field !== null) field.text += field.is_markup ? escaped(token.text) : token.text;
      continue;
    }
    const name = localName(token.name);
    if (token.type === "open" && entry_name === undefined) {
      entry_name = ENTRY_OF.get(name);
      if (entry_name === undefined) return null;
      is_atom = entry_name === "entry";
    } else if (field !== null) {
      field.open += name !== field.name ? 0 : token.type === "open" ? 1 : -1;
      field.is_markup = true;
      field.text += token.source;
      if (field.open > 0) continue;
      note(entry, field.name, field.text.slice(0, field.text.length - token.source.length).trim());
      field = null;
    } else if (token.type === "close") {
      if (name === entry_name) entry = entries[0] as Entry;
    } else if (name === entry_name) {
      entry = { fields: new Map(), links: [] };
      entries.push(entry);
    } else if (READ.has(name) && !token.name.startsWith("media:")) {
      const { href, url, rel = "alternate", type, ispermalink } = Object.fromEntries(token.attributes);
      if (ispermalink === "false") continue;
      const target = { link: href, enclosure: url }[name];
      if (target !== undefined && READ_RELATION.test(rel)) entry.links.push(target);
      // Without a type, Atom's texts are no HTML.
      field = { name, text: "", open: 1, is_markup: is_atom && type !== "html" };
    }
  }
  return entry_name === undefined ? null : entries;
}

function note({ fields, links }: Entry, name: string, text: string): void {
  if (text === "") return;
  if (name === "link" || name === "loc") links.push(text);
  else if (!fields.has(name)) fields.set(name, text);
}

function entryText(
  { fields, links }: Entry,
  found: { heading: string; base_url: string | undefined; hidden: Hidden[]; links: { text: string; url: string }[] },
): string {
  const textIn = (names: readonly string[]) => {
    const html = names.map((name) => fields.get(name)).find((each) => each !== undefined) ?? "";
    if (!/[<&]/.test(html)) return html;
    const seen = visibleText(html);
    for (const each of seen.hidden) found.hidden.push(each);
    for (const each of seen.links) found.links.push(each);
    return seen.text;
  };
  const lineIn = (names: readonly string[]) => textIn(names).replace(/\s+/g, " ");
  const title = lineIn(TITLE);
  const permalink = fields.get("guid") ?? "";
  const own = links.length === 0 && /^https?:/.test(permalink) ? [permalink] : links;
  const addresses = own.map((each) => URL.parse(each, found.base_url)?.href ?? "");
  const lines = [
    title === "" ? "" : found.heading + title,
    ...new Set(addresses.filter((each) => /^https?:/.test(each))),
    [lineIn(DATE), lineIn(AUTHOR)].filter((each) => each !== "").join(", "),
    textIn(TEXT),
  ];
  return lines.filter((each) => each !== "").join("\n");
}

/** XML without its comments. References are decoded, because they may hide words from the detector. */
function asWritten(tokens: readonly XmlToken[]): string {
  const parts = tokens.map((token) => {
    if (token.type === "comment") return "";
    if (token.type === "text") return token.text;
    if (token.type === "close" || !token.source.includes("&")) return token.source;
    return `<${[token.name, ...Array.from(token.attributes, ([name, value]) => `${name}="${value}"`)].join(" ")}>`;
  });
  return parts.join("").trim();
}

function localName(name: string): string {
  return name.slice(name.indexOf(":") + 1);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

/** One piece of XML, in source order. Names are lower case and references decoded. An empty tag is followed by its end. */
type XmlToken =
  | {
      readonly type: "open";
      readonly name: string;
      readonly attributes: ReadonlyMap<string, string>;
      readonly source: string;
    }
  | { readonly type: "close"; readonly name: string; readonly source: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "comment"; readonly text: string };

/** Splits XML into tokens, without building a tree. CDATA is text. */
function tokenizeXml(xml: string): XmlToken[] {
  const tokens: XmlToken[] = [];
  let text = "";
  let tag = { name: "", start: 0, attributes: new Map<string, string>() };
  let attribute = { name: "", value: "" };

  const flush = () => {
    if (text !== "") tokens.push({ type: "text", text });
    text = "";
  };
  const nameIn = (start: number, end: number) => xml.slice(start, end).toLowerCase();
  const open = (end: number) => {
    const { name, start, attributes } = tag;
    tokens.push({ type: "open", name, attributes, source: xml.slice(start - 1, end + 1) });
  };
  const tokenizer = new Tokenizer(
    { decodeEntities: true, xmlMode: true },
    {
      ontext: (start, end) => {
        text += xml.slice(start, end);
      },
      ontextentity: (codepoint) => {
        text += String.fromCodePoint(codepoint);
      },
      onopentagname: (start, end) => {
        flush();
        tag = { name: nameIn(start, end), start, attributes: new Map() };
      },
      onattribname: (start, end) => {
        attribute = { name: nameIn(start, end), value: "" };
      },
      onattribdata: (start, end) => {
        attribute.value += xml.slice(start, end);
      },
      onattribentity: (codepoint) => {
        attribute.value += String.fromCodePoint(codepoint);
      },
      onattribend: () => {
        tag.attributes.set(attribute.name, attribute.value);
      },
      onopentagend: open,
      onselfclosingtag: (end) => {
        open(end);
        tokens.push({ type: "close", name: tag.name, source: "" });
      },
      onclosetag: (start, end) => {
        flush();
        tokens.push({ type: "close", name: nameIn(start, end), source: `</${xml.slice(start, end)}>` });
      },
      oncomment: (start, end, offset) => {
        flush();
        tokens.push({ type: "comment", text: xml.slice(start, end - offset) });
      },
      oncdata: (start, end, offset) => {
        text += xml.slice(start, end - offset);
      },
      ondeclaration: flush,
      onprocessinginstruction: flush,
      onend: flush,
    },
  );
  tokenizer.write(xml);
  tokenizer.end();
  return tokens;
}
