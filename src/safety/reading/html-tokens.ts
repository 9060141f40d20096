import { Tokenizer } from "htmlparser2";

/** One piece of markup, in source order. Names are lower case and entities decoded. */
export type HtmlToken =
  | {
      readonly type: "open";
      readonly name: string;
      readonly attributes: ReadonlyMap<string, string>;
      readonly source: string;
      /** Written as `<path />`. It counts only in SVG and MathML. */
      readonly is_self_closed: boolean;
    }
  | { readonly type: "close"; readonly name: string; readonly source: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "comment"; readonly text: string };

const COMMON =
  "a article aside b body br button code dd div dl dt em figure footer form h1 h2 h3 h4 head header hr i img input label " +
  "li link main meta nav ol option p path pre script section small span strong style sup svg table tbody td th tr ul " +
  "class id href src alt title rel type width height role";
/** Each page takes common names from here: V8 compares and looks up strings faster that were the key of a property. */
const COMMON_NAMES: ReadonlyMap<string, string> = new Map(
  Object.keys(Object.fromEntries(COMMON.split(" ").map((name) => [name, 0]))).map((name) => [name, name]),
);
/** The most attributes that are read per element. One with more has the attribute `TOO_MANY` and counts as hidden. */
const MAX_ATTRIBUTES = 256;
/** No name in a page has a space. */
export const TOO_MANY = "too many";
const NO_ATTRIBUTES: ReadonlyMap<string, string> = new Map();

/**
 * Splits HTML into tokens like the HTML standard's tokenizer (raw text in script and style, entities, comments that end
 * early). Linear and without a stack, so nesting cannot slow it down; the caller builds the tree.
 * @param options.self_closing for HTML in Markdown: `<iframe />` ends there, as in JSX (plain HTML leaves it open), and
 * tags carry their source text (`source`).
 * @param options.is_xml for XML: like `self_closing`, no element has raw text, and CDATA is text.
 */
export function tokenizeHtml(
  html: string,
  { self_closing: has_source = false, is_xml = false }: { self_closing?: boolean; is_xml?: boolean } = {},
): HtmlToken[] {
  const self_closing = has_source || is_xml;
  const tokens: HtmlToken[] = [];
  let text = "";
  let tag = "";
  let tagStart = 0;
  const attributes = attributeReader(html);

  const flush = () => {
    if (text !== "") tokens.push({ type: "text", text });
    text = "";
  };
  const comment = (start: number, end: number) => {
    flush();
    tokens.push({ type: "comment", text: html.slice(start, end) });
  };
  const open = (end: number, is_self_closed: boolean) => {
    const source = self_closing ? html.slice(tagStart - 1, end + 1) : "";
    tokens.push({ type: "open", name: tag, attributes: attributes.take(), source, is_self_closed });
  };

  const tokenizer = new Tokenizer(
    { decodeEntities: true, recognizeSelfClosing: self_closing, xmlMode: is_xml },
    {
      ontext: (start, end) => {
        text += html.slice(start, end);
      },
      ontextentity: (codepoint) => {
        if (!isNoncharacter(codepoint)) text += String.fromCodePoint(codepoint);
      },
      onopentagname: (start, end) => {
        flush();
        tag = nameIn(html, start, end);
        tagStart = start;
      },
      ...attributes.callbacks,
      onopentagend: (end) => open(end, false),
      onselfclosingtag: (end) => {
        open(end, true);
        if (self_closing) tokens.push({ type: "close", name: tag, source: "" });
      },
      onclosetag: (start, end) => {
        flush();
        const name = nameIn(html, start, end);
        tokens.push({ type: "close", name, source: `</${name}>` });
      },
      oncomment: (start, end, offset) => comment(start, end - offset),
      oncdata(start, end, offset) {
        if (is_xml) text += html.slice(start, end - offset);
        else comment(start, end - offset);
      },
      // a doctype has no text
      ondeclaration: flush,
      onprocessinginstruction: is_xml ? flush : comment,
      onend: flush,
    },
  );
  tokenizer.write(html);
  tokenizer.end();
  return tokens;
}

/** The address of the first `<base>`, as written. */
export function baseOf(tokens: readonly HtmlToken[]): string | undefined {
  for (const token of tokens) {
    const href = token.type === "open" && token.name === "base" ? token.attributes.get("href") : undefined;
    if (href !== undefined) return href;
  }
  return undefined;
}

function nameIn(html: string, start: number, end: number): string {
  const name = html.slice(start, end);
  return COMMON_NAMES.get(name) ?? name.toLowerCase();
}

/** The Markdown reader uses these as placeholders for code, so a page must not contain them. */
const isNoncharacter = (codepoint: number) => codepoint >= 0xfdd0 && codepoint <= 0xfdef;

/** Collects the attributes of one tag at a time. `take` returns them and starts the next tag. */
function attributeReader(html: string) {
  let attributes: Map<string, string> | null = null;
  let name = "";
  let value = "";
  return {
    callbacks: {
      onattribname(start: number, end: number) {
        name = nameIn(html, start, end);
        value = "";
      },
      onattribdata(start: number, end: number) {
        value += html.slice(start, end);
      },
      onattribentity(codepoint: number) {
        value += String.fromCodePoint(codepoint);
      },
      onattribend() {
        // The first of two attributes with one name wins, as in browsers.
        attributes ??= new Map();
        if (attributes.size >= MAX_ATTRIBUTES) attributes.set(TOO_MANY, "");
        else if (!attributes.has(name)) attributes.set(name, value);
      },
    },
    take(): ReadonlyMap<string, string> {
      const taken = attributes ?? NO_ATTRIBUTES;
      attributes = null;
      return taken;
    },
  };
}
