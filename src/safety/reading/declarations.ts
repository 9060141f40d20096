import { cssPieces } from "./css-pieces.ts";

/** What a property takes. Browsers ignore other values, so they must not override an earlier one. */
type Values = "display" | "visibility" | "keyword" | "number" | "length" | "colour" | "function" | "any";

/** The properties that can hide text, and the kind of their values. */
const TABLE: readonly (readonly [values: Values, names: string])[] = [
  ["display", "display"],
  ["visibility", "visibility"],
  ["number", "opacity zoom"],
  ["length", "font-size left top right bottom text-indent margin-left margin-top width height max-width max-height"],
  ["colour", "color -webkit-text-fill-color fill"],
  ["keyword", "position overflow-x overflow-y content-visibility background-clip"],
  ["function", "transform translate scale clip clip-path filter"],
  ["any", "background-color background-image unicode-bidi direction mask-image fill-opacity"],
];
const PROPERTIES = TABLE.flatMap(([values, names]) => names.split(" ").map((name) => ({ name, values })));
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
    const colon = text.indexOf(":");
    if (colon < 0 || colon > MAX_NAME) continue;
    const name = unescaped(text.slice(0, colon)).trim().toLowerCase();
    if (!PLACE_OF.has(name) && !SHORTHANDS.has(name)) continue;
    const written = lowerCase(
      text
        .slice(colon + 1)
        .trim()
        .slice(0, MAX_VALUE),
    );
    const value = written.replace(/!\s{0,200}important$/, "").trim();
    if (value === "") continue;
    for (const [longhand, each] of longhands(name, value)) {
      const place = PLACE_OF.get(longhand) ?? -1;
      if (place < 0 || !isValid(PROPERTIES[place]?.values ?? "any", each)) continue;
      found ??= new Array(PLACES).fill(undefined);
      found[value === written ? place : place + COUNT] = each;
    }
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
    const value = lowerCase(written.trim().slice(0, MAX_CUSTOM));
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
    return known !== null && isValid(PROPERTIES[place % COUNT]?.values ?? "any", known) ? known : undefined;
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

const SHORTHANDS = new Set([
  ..."background font overflow inset margin mask -webkit-mask -webkit-mask-image -webkit-background-clip".split(" "),
]);
/** The size in a `font`: `bold 12px/1.5 serif`. */
const FONT_SIZE = /(?:^|\s)((?:[\d.]+(?:[a-z]+|%)?)|calc\([^()]*\))\s*(?:\/|\s|$)/;

/** The single properties that a shorthand sets. */
function longhands(name: string, value: string): readonly (readonly [name: string, value: string])[] {
  if (!SHORTHANDS.has(name)) return [[name, value]];
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
      return [["font-size", FONT_SIZE.exec(value)?.[1] ?? "medium"]];
    case "overflow":
      return [
        ["overflow-x", top],
        ["overflow-y", right],
      ];
    case "inset":
      return Object.entries({ top, right, bottom, left });
    case "margin":
      return Object.entries({ "margin-top": top, "margin-left": left });
    case "-webkit-background-clip":
      return [["background-clip", value]];
    default:
      return [["mask-image", value]];
  }
}

const GLOBAL = "inherit|initial|unset|revert|revert-layer";
const DISPLAY = new RegExp(
  `^(?:${GLOBAL}|none|contents|block|inline|flow-root|flex|grid|table|ruby|math|list-item|run-in|inline-(?:block|flex|grid|table)|` +
    "table-(?:row|cell|caption|column|row-group|header-group|footer-group|column-group)|ruby-(?:base|text)|" +
    "-webkit-(?:inline-)?(?:box|flex)|(?:block|inline|flow|flow-root|flex|grid|table|ruby|math|list-item) " +
    "(?:block|inline|flow|flow-root|flex|grid|table|ruby|math|list-item))$",
);
const VISIBILITY = new RegExp(`^(?:visible|hidden|collapse|${GLOBAL})$`);
const NUMBER = new RegExp(`^(?:[-+]?[\\d.]+(?:e[-+]?\\d+)?%?|normal|reset|${GLOBAL})$`);
const LENGTH =
  /^(?:[-+]?[\d.]+(?:e[-+]?\d+)?(?:%|px|pt|pc|in|cm|mm|q|r?em|r?ex|r?ch|r?lh|r?cap|r?ic|[sld]?v(?:w|h|i|b|min|max)|cq(?:w|h|i|b|min|max))|auto|none|normal|medium|x{0,2}-?(?:small|large)|x{0,3}-large|smaller|larger|(?:-webkit-)?(?:min-content|max-content|fit-content|fill-available)|stretch|inherit|initial|unset|revert|revert-layer)$/;
/** Functions whose value is computed later. */
const COMPUTED = /^(?:-webkit-)?(?:var|calc|min|max|clamp|env|attr|round|abs|fit-content|anchor|anchor-size)\(/;
/** Lengths without a unit are valid in pages without a doctype: they count only where they hide. */
const MAX_BARE_LENGTH = 2;

const KEYWORD = new RegExp(
  `^(?:static|relative|absolute|fixed|sticky|visible|hidden|clip|scroll|auto|overlay|text|border-box|padding-box|content-box|${GLOBAL})$`,
);
const FUNCTION = new RegExp(
  `^(?:none|auto|${GLOBAL}|(?:border|padding|content|margin|fill|stroke|view)-box|[-+]?[\\d.]+.*|(?:matrix|translate|scale|rotate)(?:[xyz]|3d)?\\(.*|` +
    "(?:matrix3d|skew|skew[xy]|perspective|inset|circle|ellipse|polygon|path|rect|xywh|shape|url|opacity|blur|brightness|" +
    "contrast|drop-shadow|grayscale|hue-rotate|invert|saturate|sepia|calc|min|max|clamp)\\(.*)$",
);
const COLOUR_FUNCTION =
  /^(?:#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$|(?:rgba?|hsla?|hwb|lab|lch|oklab|oklch|color|color-mix|light-dark|url)\()/;
/** The words that browsers take for a colour. */
const COLOUR_WORDS = new Set(
  (
    `${GLOBAL.replaceAll("|", " ")} none transparent currentcolor aliceblue antiquewhite aqua aquamarine azure beige bisque black blanchedalmond blue ` +
    "blueviolet brown burlywood cadetblue chartreuse chocolate coral cornflowerblue cornsilk crimson cyan darkblue " +
    "darkcyan darkgoldenrod darkgray darkgreen darkgrey darkkhaki darkmagenta darkolivegreen darkorange darkorchid " +
    "darkred darksalmon darkseagreen darkslateblue darkslategray darkslategrey darkturquoise darkviolet deeppink " +
    "deepskyblue dimgray dimgrey dodgerblue firebrick floralwhite forestgreen fuchsia gainsboro ghostwhite gold " +
    "goldenrod gray green greenyellow grey honeydew hotpink indianred indigo ivory khaki lavender lavenderblush " +
    "lawngreen lemonchiffon lightblue lightcoral lightcyan lightgoldenrodyellow lightgray lightgreen lightgrey " +
    "lightpink lightsalmon lightseagreen lightskyblue lightslategray lightslategrey lightsteelblue lightyellow lime " +
    "limegreen linen magenta maroon mediumaquamarine mediumblue mediumorchid mediumpurple mediumseagreen " +
    "mediumslateblue mediumspringgreen mediumturquoise mediumvioletred midnightblue mintcream mistyrose moccasin " +
    "navajowhite navy oldlace olive olivedrab orange orangered orchid palegoldenrod palegreen paleturquoise " +
    "palevioletred papayawhip peachpuff peru pink plum powderblue purple rebeccapurple red rosybrown royalblue " +
    "saddlebrown salmon sandybrown seagreen seashell sienna silver skyblue slateblue slategray slategrey snow " +
    "springgreen steelblue tan teal thistle tomato turquoise violet wheat white whitesmoke yellow yellowgreen " +
    "canvas canvastext linktext visitedtext activetext buttonface buttontext buttonborder field fieldtext highlight " +
    "highlighttext selecteditem selecteditemtext mark marktext graytext accentcolor accentcolortext windowtext window"
  ).split(" "),
);

function isValid(values: Values, value: string): boolean {
  if (value.includes("var(")) return true;
  switch (values) {
    case "any":
      return true;
    case "display":
      return DISPLAY.test(value.replace(/\s+/g, " "));
    case "visibility":
      return VISIBILITY.test(value);
    case "keyword":
      return KEYWORD.test(value);
    case "colour":
      return COLOUR_WORDS.has(value) || COLOUR_FUNCTION.test(value);
    case "function":
      return FUNCTION.test(value);
    case "number":
      return NUMBER.test(value) || COMPUTED.test(value);
    case "length":
      return (
        LENGTH.test(value) || COMPUTED.test(value) || (/^[-+]?[\d.]+$/.test(value) && Number(value) <= MAX_BARE_LENGTH)
      );
  }
}
