import {
  cascade,
  customProperties,
  type Declarations,
  declarationsOf,
  declarationTexts,
  declared,
  NOTHING_DECLARED,
  resolved,
} from "./declarations.ts";
import * as css from "./hiding-css.ts";
import { baseOf, type HtmlToken, TOO_MANY, tokenizeHtml } from "./html-tokens.ts";
import { createOpenElements, isVoid } from "./open-elements.ts";
import { createOverrideReader } from "./override.ts";
import { createShadowLooks, type ShadowLook, type ShadowRoots, type Slots, shadowRootsOf } from "./shadow-roots.ts";
import { BODY_OF_TABLE, createPlaces } from "./siblings.ts";
import { changedVariables, contextWithin } from "./style-context.ts";
import { type Among, type Context, type Matched, readStyleSheet, type StyleSheet } from "./style-sheet.ts";
import { breaksLine, createTextWriter } from "./text-writer.ts";

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

/** The look that an element passes to its children. */
interface Look extends ShadowLook {
  /** The technique that hides it with all its children, or null. */
  readonly hidden_by: string | null;
  /** Whether it is invisible; a child's `visibility: visible` undoes this. */
  readonly invisible: boolean;
  /** Whether it is in SVG, outside its text elements. */
  readonly unpainted: boolean;
  readonly font_px: number;
  readonly colour: css.Colour | "none";
  /** "unknown": an image, or an external style sheet. */
  readonly background: css.Colour | "unknown";
  readonly direction: css.Direction;
  /** The direction in which browsers display all its letters, or null. */
  readonly override: css.Direction | null;
  /** What it and its ancestors contribute to the style of its children. */
  readonly context: Context;
}

/** Elements whose content browsers never show: by the standard's style sheet, or because scripts run. */
const NEVER_SEEN = new Map<string, string>([
  ...["script", "style", "template", "noscript", "noembed", "noframes"].map((name) => [name, name] as const),
  ...(
    "iframe object audio video canvas datalist rp progress meter defs metadata desc symbol clippath mask marker pattern " +
    "annotation annotation-xml"
  )
    .split(" ")
    .map((name) => [name, "fallback-content"] as const),
]);
/** Elements that show another page, and the attribute with its address. */
const FRAMES = new Map([
  ["iframe", "src"],
  ["frame", "src"],
  ["embed", "src"],
  ["object", "data"],
]);
/** The address in a `meta refresh` (HTML standard, "shared declarative refresh steps"). */
const REFRESH = /^\s{0,99}[\d.]{1,99}[\s;,]{1,99}(?:url\s{0,9}=\s{0,9})?["']?([^"']{1,2000})/i;
/** Elements whose look differs from their surroundings without any attribute. */
const STYLED = new Set(["dialog", "bdi", "output", "svg", "text", "foreignobject"]);
/** SVG elements with text in them. Their attributes may hide it, as declarations do. */
const SVG = new Set(["svg", "g", "text", "tspan", "textpath", "foreignobject"]);
const SVG_ATTRIBUTES = ["display", "visibility", "opacity", "fill", "fill-opacity", "font-size"];
/** Attributes with prose that is not part of the page's text. */
const PROSE_ATTRIBUTE = /^(alt|title|content|placeholder|summary|label|value|aria-|data-)/;
const SCREEN_READER_ONLY =
  /(?:^|\s)(sr-only|visually-hidden|visuallyhidden|screen-reader-text|screen-reader-only)(?:\s|$)/;
const LOOK_ATTRIBUTES = new Set([
  TOO_MANY,
  "class",
  "style",
  "hidden",
  "aria-hidden",
  "bgcolor",
  "color",
  "open",
  "dir",
  "popover",
  "text",
  "label",
  ...SVG_ATTRIBUTES,
]);
const COLOUR_ATTRIBUTE: Readonly<Record<string, string>> = { font: "color", body: "text" };
/** The look of an element without declarations. */
const PLAIN: OwnLook = {
  hidden_by: null,
  invisible: null,
  unpainted: null,
  font_px: null,
  colour: null,
  background: null,
  direction: null,
  overrides_bidi: null,
};
/** Shorter attribute texts cannot instruct a model. */
const MIN_PROSE = 16;

/**
 * Returns the text that a reader of the page sees.
 * @param options.keep_lines for HTML inside Markdown: white space and unknown tags stay as written
 */
export function visibleText(html: string, options: { keep_lines: boolean } = { keep_lines: false }): VisibleText {
  const tokens = tokenizeHtml(html, { self_closing: options.keep_lines });
  const shadows = options.keep_lines ? null : shadowRootsOf(tokens);
  const read = (slots: Slots<Look> | null) => {
    const reader = createReader(tokens, { keep_lines: options.keep_lines, shadows, slots });
    tokens.forEach(reader.read);
    return reader;
  };
  let reader = read(null);
  // The content of a host can come before the slots that decide about it, and the slots can be in another host.
  const again = Math.min(shadows?.host_of.size ?? 0, MAX_NESTED_HOSTS);
  for (let round = 0; round < again; round++) reader = read(reader.slots);
  return reader.result();
}

/** Slots in hosts within more hosts are taken as they look without them. */
const MAX_NESTED_HOSTS = 4;

interface ReaderOptions {
  keep_lines: boolean;
  shadows: ShadowRoots | null;
  /** The slots that a first reading has found; null in that reading. */
  slots: Slots<Look> | null;
}
function createReader(tokens: readonly HtmlToken[], { keep_lines, shadows, slots }: ReaderOptions) {
  const sheet = readStyleSheet(tokens);
  const writer = createTextWriter({ keep_lines });
  const overrides = createOverrideReader(writer.text);
  const hidden: Hidden[] = [];
  const elements = createOpenElements<Look>(initialLook(tokens, sheet.root), {
    isHidden: (look) => hiddenBy(look) !== null,
    isHiddenWhole: (look) => look.hidden_by !== null,
  });
  const placeOf = createPlaces(sheet.siblings, elements.innermost);
  const lookOf = createLooks(sheet, placeOf);
  const shadow_looks = createShadowLooks({ shadows, slots, lookOf });

  function readOpen(token: HtmlToken & { type: "open" }, index: number): void {
    noteAttributes(token.attributes, hidden);
    elements.closeImplied(token.name);
    if (sheet.siblings !== null && token.name === "tr" && elements.innermost()?.name === "table")
      readOpen(BODY_OF_TABLE, -1);
    const around = elements.state();
    const look = shadow_looks.lookAt(token, index, around);
    const seen = hiddenBy(look) === null;
    if (hiddenBy(around) === null) noteLinks(token, look);
    if (seen && breaksLine(token.name)) overrides.end();
    if (seen) writer.open(token.name, token.attributes, token.source);
    const isEmpty = isVoid(token.name) || (token.is_self_closed && elements.isForeign(token.name));
    if (!isEmpty) elements.push(token.name, look);
  }

  /** Notes the addresses of frames, of areas in pictures, and of the page that this one leads on to. */
  function noteLinks({ name, attributes }: HtmlToken & { type: "open" }, look: Look): void {
    const source = FRAMES.get(name);
    const is_shown = hiddenBy(look) === null || (look.hidden_by === "fallback-content" && !look.invisible);
    const is_tiny = ["width", "height"].some((size) => /^\s*[01](?:px)?\s*$/i.test(attributes.get(size) ?? ""));
    if (source !== undefined && is_shown && !is_tiny) writer.link(attributes.get(source), "(frame)");
    if (name === "area" && is_shown) writer.link(attributes.get("href"), "(area of a picture)");
    if (name === "meta" && attributes.get("http-equiv")?.toLowerCase() === "refresh") {
      writer.link(REFRESH.exec(attributes.get("content") ?? "")?.[1], "(next page)");
    }
  }

  function readClose({ name, source }: HtmlToken & { type: "close" }): void {
    const wasSeen = hiddenBy(elements.state()) === null;
    elements.close(name);
    const isSeen = hiddenBy(elements.state()) === null;
    // Hidden elements do not end an override: people read the text around them as one.
    if ((wasSeen && breaksLine(name)) || (isSeen && elements.state().override === null)) overrides.end();
    if (wasSeen || isSeen) writer.close(name, source);
  }

  return {
    slots: shadow_looks.slots,
    read(token: HtmlToken, index: number): void {
      if (token.type === "open") readOpen(token, index);
      else if (token.type === "close") readClose(token);
      else if (token.type === "comment") note(hidden, "comment", token.text);
      else {
        const look = shadow_looks.inside(elements.state(), "");
        const technique = hiddenBy(look);
        if (/\S/.test(token.text)) placeOf("");
        if (technique === null) overrides.text(token.text, look.override);
        else if (technique !== "style") note(hidden, technique, token.text);
      }
    },
    result(): VisibleText {
      overrides.end();
      return { ...writer.result(), hidden, base: baseOf(tokens) };
    },
  };
}

/** Black on white, unless an external sheet may change the page's colours. */
function initialLook(tokens: readonly HtmlToken[], context: Context): Look {
  const hasForeignSheet = tokens.some(
    (token) => token.type === "open" && token.name === "link" && /stylesheet/i.test(token.attributes.get("rel") ?? ""),
  );
  return {
    hidden_by: null,
    invisible: false,
    unpainted: false,
    font_px: 16,
    colour: [0, 0, 0],
    background: hasForeignSheet ? "unknown" : [255, 255, 255],
    direction: "ltr",
    override: null,
    context,
    shadow_of: null,
    host: null,
  };
}

function hiddenBy(look: Look): string | null {
  if (look.hidden_by !== null) return look.hidden_by;
  if (look.invisible) return "visibility-hidden";
  if (look.unpainted) return "fallback-content";
  if (css.isIllegible(look.font_px)) return "tiny-font";
  if (look.colour === "none") return "transparent";
  return look.background !== "unknown" && css.isSameColour(look.colour, look.background) ? "same-colour" : null;
}

/** The look that an element sets itself; null fields are inherited. */
interface OwnLook {
  readonly hidden_by: string | null;
  readonly invisible: boolean | null;
  readonly unpainted: boolean | null;
  readonly font_px: number | null;
  readonly colour: css.Colour | "none" | null;
  readonly background: css.Colour | "unknown" | null;
  readonly direction: css.Direction | null;
  /** Whether it displays all letters in its direction; false ends an override around it. */
  readonly overrides_bidi: boolean | null;
}

/** What a kind of element does in a context. */
interface Styled {
  readonly own: OwnLook;
  readonly context: Context;
  readonly for_siblings: Matched["for_siblings"];
}

/** Caches the look per kind of element and context, because a hostile page may repeat an element a million times. */
function createLooks(
  sheet: StyleSheet,
  placeOf: (name: string) => Among | null,
): (token: HtmlToken & { type: "open" }, outer: Look) => Look {
  const known = new Map<Context, Map<string, Styled>>();
  const merged = new Map<Styled, { outer: Look; look: Look }>();

  function styledIn(context: Context, token: HtmlToken & { type: "open" }): Styled {
    const among = placeOf(token.name);
    const place = among === null ? "" : `\0${sheet.siblings?.add(among, token.name)}`;
    const key = lookKey(token.name, token.attributes, sheet.reads) + place;
    let kinds = known.get(context);
    if (kinds === undefined) {
      kinds = new Map();
      known.set(context, kinds);
    }
    let found = kinds.get(key);
    if (found === undefined) {
      found = styledOf(token, { sheet, outer: context, among });
      kinds.set(key, found);
    }
    if (among !== null) sheet.siblings?.note(among, found.for_siblings);
    return found;
  }

  return (token, outer) => {
    if (outer.hidden_by !== null) return outer;
    if (sheet.is_empty && token.attributes.size === 0 && !NEVER_SEEN.has(token.name) && !STYLED.has(token.name))
      return outer;
    const styled = styledIn(outer.context, token);
    const last = merged.get(styled);
    if (last?.outer === outer) return last.look;
    const { own, context } = styled;
    const look = own === PLAIN && context === outer.context ? outer : { ...within(own, outer), context };
    merged.set(styled, { outer, look });
    return look;
  };
}

/** The cache key: everything that `ownLookOf` reads. */
function lookKey(name: string, attributes: ReadonlyMap<string, string>, reads: ReadonlySet<string>): string {
  if (attributes.size === 0) return name;
  let key = name;
  for (const [attribute, value] of attributes) {
    if (LOOK_ATTRIBUTES.has(attribute) || reads.has(attribute)) key += `\0${attribute}=${value}`;
  }
  return key;
}

function styledOf({ name, attributes }: HtmlToken & { type: "open" }, around: Around): Styled {
  const { block, ...rest } = styleFor(name, attributes, around);
  return { own: ownLookOf(name, attributes, block), ...rest };
}

function ownLookOf(name: string, attributes: ReadonlyMap<string, string>, block: Declarations): OwnLook {
  const visibility = declared(block, "visibility");
  const background = css.backgroundColour(block) ?? css.attributeColour(attributes.get("bgcolor"));
  const colour = css.textColour(block) ?? css.attributeColour(attributes.get(COLOUR_ATTRIBUTE[name] ?? ""));
  const own: OwnLook = {
    hidden_by: hiddenByAttributes(name, attributes, block) ?? css.hidesSubtree(block) ?? NEVER_SEEN.get(name) ?? null,
    invisible: visibility === undefined ? null : visibility === "hidden" || visibility === "collapse",
    unpainted: name === "svg" ? true : name === "text" || name === "foreignobject" ? false : null,
    font_px: css.fontSize(block),
    colour,
    background,
    ...css.bidi(block, { name, dir: attributes.get("dir")?.toLowerCase() }),
  };
  // Ignored for html and body: such pages hide themselves until their scripts or sheets have come.
  if (name === "html" || name === "body") return { ...own, hidden_by: null, invisible: null };
  return Object.values(own).every((each) => each === null) ? PLAIN : own;
}

function within(own: OwnLook, outer: Look): Omit<Look, "context"> {
  const direction = own.direction ?? outer.direction;
  return {
    hidden_by: own.hidden_by,
    invisible: own.invisible ?? outer.invisible,
    unpainted: own.unpainted ?? outer.unpainted,
    font_px: own.font_px ?? outer.font_px,
    colour: own.colour ?? outer.colour,
    background: own.background ?? outer.background,
    direction,
    override: own.overrides_bidi === null ? outer.override : own.overrides_bidi ? direction : null,
    shadow_of: outer.shadow_of,
    host: null,
  };
}

/** What surrounds an element: the page's rules, its ancestors, and the siblings before it. */
interface Around {
  readonly sheet: StyleSheet;
  readonly outer: Context;
  readonly among: Among | null;
}

/** The declarations for an element, and the context of its children. */
function styleFor(
  name: string,
  attributes: ReadonlyMap<string, string>,
  { sheet, outer, among }: Around,
): { block: Declarations } & Pick<Styled, "context" | "for_siblings"> {
  const style = attributes.get("style");
  const isPainted = SVG.has(name);
  if (sheet.is_empty && style === undefined && !isPainted)
    return { block: NOTHING_DECLARED, context: outer, for_siblings: { next: [], later: [] } };
  const matched = sheet.match({ name, attributes }, outer, among);
  const written = style === undefined ? [] : declarationTexts(style);
  const customs = new Map([...matched.customs, ...customProperties(written)]);
  const changed = changedVariables(customs, (variable) => sheet.variableOf(outer.variables, variable));
  const context = contextWithin(outer, matched.begun, changed);
  const painted = isPainted ? cascade([svgDeclarations(attributes), matched.declarations]) : matched.declarations;
  const block = written.length === 0 ? painted : cascade([painted, declarationsOf(written)]);
  return {
    block: resolved(block, (variable) => sheet.variableOf(context.variables, variable)),
    context,
    for_siblings: matched.for_siblings,
  };
}

function svgDeclarations(attributes: ReadonlyMap<string, string>): Declarations {
  const written = SVG_ATTRIBUTES.filter((name) => attributes.has(name));
  return declarationsOf(written.map((name) => `${name}:${attributes.get(name)}`));
}

function hiddenByAttributes(name: string, attributes: ReadonlyMap<string, string>, block: Declarations): string | null {
  if (attributes.has(TOO_MANY)) return "too-many-attributes";
  const display = declared(block, "display");
  const shows = display !== undefined && !/^(?:none|revert|revert-layer)$/.test(display) && !display.includes("var(");
  // A `display` declaration overrides the `hidden` attribute, as in browsers.
  if (attributes.has("hidden") && (!shows || attributes.get("hidden")?.toLowerCase() === "until-found"))
    return "hidden-attribute";
  if (attributes.get("aria-hidden")?.toLowerCase() === "true") return "aria-hidden";
  if (SCREEN_READER_ONLY.test(attributes.get("class") ?? "")) return "clipped";
  if (attributes.has("popover") && !shows) return "display-none";
  // Browsers show the label instead.
  if (name === "option" && attributes.get("label")) return "fallback-content";
  if (/^(?:text|tspan|textpath)$/.test(name) && css.isUnfilled(block)) return "transparent";
  if (name === "dialog" && !attributes.has("open") && !shows) return "display-none";
  return null;
}

function noteAttributes(attributes: ReadonlyMap<string, string>, hidden: Hidden[]): void {
  for (const [name, value] of attributes) {
    if (value.length >= MIN_PROSE && PROSE_ATTRIBUTE.test(name) && value.includes(" ")) {
      note(hidden, `attribute-${name.replace(/^(aria|data)-.*/, "$1")}`, value);
    }
  }
}

function note(hidden: Hidden[], technique: string, text: string): void {
  if (/\S/.test(text)) hidden.push({ technique, text });
}
