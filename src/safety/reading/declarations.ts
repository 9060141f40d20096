import { cssPieces } from "./css-pieces.ts";
import * as values from "./css-values.ts";

const DISPLAY = values.oneOf(
  "none contents block inline flow-root flex grid table ruby math list-item inline-block inline-flex inline-grid " +
    "inline-table table-row table-cell table-caption table-column table-row-group table-header-group " +
    "table-footer-group table-column-group ruby-text -webkit-box -webkit-inline-box -webkit-flex -webkit-inline-flex",
  "(?:block|inline) (?:flow|flow-root|flex|grid|table|ruby|math)",
  "(?:flow|flow-root|flex|grid|table|ruby|math) (?:block|inline)",
  "(?:(?:block|inline|flow|flow-root) ){1,2}list-item",
  "list-item(?: (?:block|inline|flow|flow-root)){1,2}",
);

/**
 * The properties that can hide text, and what they take. Browsers ignore other values, so these must not override an
 * earlier one.
 */
const TABLE: readonly (readonly [names: string, isValid: values.Test])[] = [
  ["display", DISPLAY],
  ["visibility", values.oneOf("visible hidden collapse")],
  ["position", values.oneOf("static relative absolute fixed sticky -webkit-sticky")],
  ["overflow-x overflow-y", values.oneOf("visible hidden clip scroll auto overlay")],
  ["content-visibility", values.oneOf("visible auto hidden")],
  ["background-clip", values.oneOf("border-box padding-box content-box text border-area")],
  ["direction", values.oneOf("ltr rtl")],
  ["unicode-bidi", values.oneOf("normal embed isolate bidi-override isolate-override plaintext -webkit-isolate")],
  ["opacity fill-opacity", values.numbers("")],
  ["zoom", values.numbers("normal reset")],
  ["font-size", values.fontSizes],
  ["left top right bottom text-indent margin-left margin-top", values.offset],
  ["width height", values.size],
  ["max-width max-height", values.largestSize],
  ["color -webkit-text-fill-color", values.colours],
  // The whole of `background`.
  ["background-color", values.backgrounds],
  ["fill", values.fills],
  ["transform", values.transforms],
  ["translate", values.moves],
  ["scale", values.scales],
  ["clip", values.clips],
  ["clip-path", values.clipPaths],
  ["filter", values.filters],
  ["background-image mask-image", values.images],
];
/** Their tests are as strict as browsers. */
const STRICT = 10;
/** Where text runs as most text does, these are the same. In other directions they are far off as well. */
const LOGICAL: ReadonlyMap<string, string> = new Map([
  ["inset-inline-start", "left"],
  ["inset-inline-end", "right"],
  ["inset-block-start", "top"],
  ["inset-block-end", "bottom"],
  ["inline-size", "width"],
  ["block-size", "height"],
  ["max-inline-size", "max-width"],
  ["max-block-size", "max-height"],
  ["margin-inline-start", "margin-left"],
  ["margin-block-start", "margin-top"],
  ["overflow-inline", "overflow-x"],
  ["overflow-block", "overflow-y"],
  ["-webkit-background-clip", "background-clip"],
  ["-webkit-mask-image", "mask-image"],
  ["-webkit-transform", "transform"],
  ["-webkit-filter", "filter"],
  ["-webkit-opacity", "opacity"],
  ["-webkit-clip-path", "clip-path"],
]);
const PROPERTIES = TABLE.flatMap(([names, isValid], row) =>
  names.split(" ").map((name) => ({ name, isValid, is_strict: row < STRICT })),
);
/** A property's index here is its index in `Declarations`. */
const PLACE_OF: ReadonlyMap<string, number> = new Map(PROPERTIES.map(({ name }, place) => [name, place]));
const COUNT = PROPERTIES.length;

/**
 * The declarations of an element, lower case: ordinary ones by index, then important ones in the same order. An array,
 * because a hostile page may have a million copies.
 */
export type Declarations = readonly (string | undefined)[];

/** No declarations at all. */
export const NOTHING_DECLARED: Declarations = [];

/** The length of `Declarations` that declare something. */
export const PLACES = 2 * COUNT;

/** The value of a property, if declared. */
export function declared(css: Declarations, name: string): string | undefined {
  const place = PLACE_OF.get(name) ?? -1;
  return css[place + COUNT] ?? css[place];
}

/** Whether browsers take this declaration (`@supports`); null: not known. */
export function isSupported(declaration: string): boolean | null {
  const [, name = "", written = ""] = /^\s*([^\s:]+)\s*:([\s\S]*)$/.exec(declaration) ?? [];
  const property = unescaped(name).toLowerCase();
  const value = lowerCase(written.trim())
    .replace(/!\s{0,200}important$/, "")
    .trim();
  if (property === "" || (value === "" && !property.startsWith("--"))) return false;
  if (property.startsWith("--") || /(?:^|[^\w-])var\(/.test(value)) return property.startsWith("--") ? true : null;
  if (/^-(?:moz|ms|o|khtml)-/.test(property)) return false;
  const known = PROPERTIES[PLACE_OF.get(LOGICAL.get(property) ?? property) ?? -1];
  return known?.is_strict === true ? known.isValid(value) : null;
}

/** Merges blocks; later blocks win, and important declarations win over all ordinary ones. */
export function cascade(blocks: readonly Declarations[]): Declarations {
  const [first = NOTHING_DECLARED, ...later] = blocks;
  if (later.length === 0) return first;
  const found: (string | undefined)[] = new Array(PLACES).fill(undefined);
  for (const block of blocks) {
    for (let place = 0; place < block.length; place++) found[place] = block[place] ?? found[place];
  }
  return found;
}

/** Parses `a: b; c: d`, as in a `style` attribute. Rules inside are skipped. */
export function parseDeclarations(css: string): Declarations {
  return declarationsOf(declarationTexts(css));
}

/** The texts `a: b` of a `style` attribute. */
export function declarationTexts(css: string): readonly string[] {
  const texts: string[] = [];
  let depth = 0;
  for (const { type, text } of cssPieces(css, { in_block: true })) {
    if (type === "declaration" && depth === 0) texts.push(text);
    depth += type === "open" ? 1 : type === "close" ? -1 : 0;
  }
  return texts;
}

/** The declarations in these texts (`a: b`). Later valid ones win; an important one wins over ordinary ones. */
export function declarationsOf(texts: readonly string[]): Declarations {
  let found: (string | undefined)[] | null = null;
  for (const text of texts) {
    const plain = text.includes("/**/") ? text.replaceAll("/**/", " ") : text;
    const colon = plain.indexOf(":");
    if (colon < 0 || colon > MAX_NAME) continue;
    const name = unescaped(plain.slice(0, colon)).trim().toLowerCase();
    if (!PLACE_OF.has(name) && !SHORTHANDS.has(name) && !LOGICAL.has(name)) continue;
    const written = lowerCase(
      plain
        .slice(colon + 1)
        .trim()
        .slice(0, MAX_VALUE),
    );
    const value = written.replace(/!\s{0,200}important$/, "").trim();
    if (value === "") continue;
    const set = longhands(name, value).map(([longhand, each]) => ({ place: PLACE_OF.get(longhand) ?? -1, each }));
    // One wrong value spoils a shorthand.
    if (!set.every(({ place, each }) => isValid(place, each))) continue;
    found ??= new Array(PLACES).fill(undefined);
    for (const { place, each } of set) found[value === written ? place : place + COUNT] = each;
  }
  return found ?? NOTHING_DECLARED;
}

/** Lower case, without escapes. The case of `--names` counts, so their capitals get a sign. */
function lowerCase(css: string): string {
  const text = unescaped(css);
  if (!text.includes("--")) return text.toLowerCase();
  return text.replace(/--[^\s,():]+/g, (name) => name.replace(/[A-Z]/g, (capital) => `\ufffd${capital}`)).toLowerCase();
}

/** A `--name` with its value. */
const CUSTOM = /^\s*(--[^\s:]{1,200})\s*:([\s\S]*)$/;

/** The custom properties in these texts. Later ones win, and important ones over ordinary ones. */
export function customProperties(texts: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const important = new Set<string>();
  for (const text of texts) {
    const [, name = "", written = ""] = text.includes("--") ? (CUSTOM.exec(text) ?? []) : [];
    if (name === "") continue;
    const key = lowerCase(name);
    const value = lowerCase(written.replaceAll("/**/", " ").trim().slice(0, MAX_CUSTOM));
    const is_important = /!\s{0,200}important$/.test(value);
    if (important.has(key) && !is_important) continue;
    if (is_important) important.add(key);
    found.set(key, value.replace(/!\s{0,200}important$/, "").trim());
  }
  return found;
}

/** The most characters of a custom property: values that hide are short. */
const MAX_CUSTOM = 200;
const VARIABLE = /var\(\s*(--[^\s,()]+)\s*(?:,((?:[^()]|\([^()]*\))*))?\)/g;
/** Variables within variables beyond this count as invalid, as circles do. */
const MAX_ROUNDS = 8;

/** A value with its `var()` replaced; null: one of them has no value, so browsers ignore the declaration. */
export function withVariables(value: string, lookUp: (name: string) => string | undefined): string | null {
  let text = value;
  let is_valid = true;
  for (let round = 0; round < MAX_ROUNDS && is_valid && text.includes("var("); round++) {
    text = text
      .replace(VARIABLE, (_all, name: string, otherwise: string | undefined) => {
        const found = lookUp(name) ?? otherwise;
        if (found === undefined) is_valid = false;
        return found?.trim() ?? "";
      })
      .slice(0, MAX_CUSTOM);
  }
  return is_valid && !text.includes("var(") ? text.trim() : null;
}

/** The declarations with their `var()` replaced. Those whose value is then not valid are left out. */
export function resolved(css: Declarations, lookUp: (name: string) => string | undefined): Declarations {
  if (!css.some((value) => value?.includes("var(") === true)) return css;
  return css.map((value, place) => {
    if (value?.includes("var(") !== true) return value;
    const known = withVariables(value, lookUp);
    return known !== null && isValid(place % COUNT, known) ? known : undefined;
  });
}

/** No name of a property is longer, also when it is written in escapes. */
const MAX_NAME = 300;
/** The most characters of a value that are read. */
const MAX_VALUE = 1_000;
/** `\64 isplay` is display: CSS allows any character to be written by its code point. */
const ESCAPE = /\\(?:([0-9a-f]{1,6})\s?|([^\n]))/gi;

/** Resolves the escapes in a name or value. */
export function unescaped(css: string): string {
  if (!css.includes("\\")) return css;
  return css.replace(ESCAPE, (_escape, code: string | undefined, char: string) =>
    code === undefined ? char : codePoint(Number.parseInt(code, 16)),
  );
}

function codePoint(code: number): string {
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
}

const SHORTHANDS = new Set(
  "background font overflow inset inset-inline inset-block margin margin-inline margin-block mask -webkit-mask".split(
    " ",
  ),
);
/** The size in a `font`: `bold 12px/1.5 serif`. */
const FONT_SIZE = new RegExp(
  `(?:^|\\s)((?:[\\d.]+(?:[a-z]+|%)?)|calc\\([^()]*\\)|${values.FONT_SIZE_WORD})(?:\\s*/\\s*[^\\s/]+)?\\s+[^\\s/\\d]`,
);
const SYSTEM_FONT = values.oneOf("caption icon menu message-box small-caption status-bar");

/** The single properties that a declaration sets. */
function longhands(name: string, value: string): readonly (readonly [name: string, value: string])[] {
  if (!SHORTHANDS.has(name)) return [[LOGICAL.get(name) ?? name, value]];
  const sides = value.split(/\s+(?![^(]*\))/);
  const [top = "", right = top, bottom = top, left = right] = sides;
  switch (name) {
    case "background":
      return [
        ["background-color", value],
        ["background-image", "none"],
        ["background-clip", /(^|\s)text(\s|$)/.test(value) ? "text" : "border-box"],
      ];
    case "font":
      if (SYSTEM_FONT(value)) return [["font-size", "medium"]];
      return value.includes("var(") ? [["font-size", "medium"]] : [["font-size", FONT_SIZE.exec(value)?.[1] ?? ""]];
    case "overflow":
      return [
        ["overflow-x", top],
        ["overflow-y", right],
      ];
    case "inset":
      return Object.entries({ top, right, bottom, left });
    case "inset-inline":
      return Object.entries({ left: top, right });
    case "inset-block":
      return Object.entries({ top, bottom: right });
    case "margin":
      return Object.entries({ "margin-top": top, "margin-left": left });
    case "margin-inline":
      return [["margin-left", top]];
    case "margin-block":
      return [["margin-top", top]];
    default:
      return [["mask-image", value]];
  }
}

function isValid(place: number, value: string): boolean {
  return value.includes("var(") || PROPERTIES[place]?.isValid(value) === true;
}
