/** Values of CSS: which ones browsers take, and what lengths and colours amount to. Values are in lower case. */

export const GLOBAL = "inherit|initial|unset|revert|revert-layer";
const NUMBER = "(?:\\d*\\.\\d+|\\d+)(?:e[-+]?\\d+)?";
const UNIT = "(?:px|pt|pc|in|cm|mm|q|r?em|r?ex|r?ch|r?lh|r?cap|r?ic|[sld]?v(?:w|h|i|b|min|max)|cq(?:w|h|i|b|min|max))";
const FUNCTIONS = "(?:-webkit-)?calc|min|max|clamp|round|mod|rem|abs|sign|hypot";
/** Their value is computed later. */
const LATER = /^(?:env|attr|anchor|anchor-size|fit-content)\([\s\S]+\)$/;
const TERM = new RegExp(
  `(?:(?<![\\w.%)])[-+])?${NUMBER}(?:%|[a-z]+)?|(?<![\\w-])(?:e|pi|infinity|nan)(?![\\w(-])`,
  "g",
);
const FUNCTION_START = new RegExp(`(?<![\\w-])(?:${FUNCTIONS})\\(`, "g");

/** `calc(1px + 2%)` and the like: numbers with operators between them. */
function isCalculation(value: string): boolean {
  if (!new RegExp(`^(?:${FUNCTIONS})\\(`).test(value)) return false;
  const shape = value.replace(FUNCTION_START, "(").replace(TERM, "n");
  return (
    /^[n()+*/,\s-]*$/.test(shape) &&
    !/n\s*[n(]|\)\s*[n(]|\(\s*\)|[+*/,-]\s*\)|\(\s*[*/,]/.test(shape) &&
    !/[n)](?:[-+]|\s+[-+](?!\s)|[-+]\s)/.test(shape)
  );
}

/** A test of values: words, and what `pattern` matches. */
export type Test = (value: string) => boolean;

export const oneOf = (words: string, ...patterns: readonly string[]): Test => {
  const known = new RegExp(
    `^(?:${[GLOBAL, words.replaceAll(" ", "|"), ...patterns].filter((each) => each !== "").join("|")})$`,
  );
  return (value) => known.test(value.replace(/\s+/g, " "));
};

const SIZES =
  "auto none normal min-content max-content fit-content stretch -webkit-min-content -webkit-max-content -webkit-fit-content -webkit-fill-available";

/** Lengths. A nonzero one without a unit is valid only in pages without a doctype: `bare` says which count. */
export function lengths(words: string, { is_signed, bare }: { is_signed: boolean; bare: Test }): Test {
  const sign = is_signed ? "[-+]?" : "\\+?";
  const known = oneOf(words, `${sign}${NUMBER}(?:%|${UNIT})`, `[-+]?0+(?:\\.0+)?`);
  return (value) =>
    known(value) ||
    (isCalculation(value) && HAS_UNIT.test(value)) ||
    LATER.test(value) ||
    (BARE.test(value) && bare(value));
}
const HAS_UNIT = /[\d.](?!e[-+]?\d)(?:[a-z]|%)/;
const BARE = new RegExp(`^[-+]?${NUMBER}$`);
/** Bare lengths count where they hide. */
const isTiny: Test = (value) => Number(value) >= 0 && Number(value) <= 2;
const isFarAway: Test = (value) => Number(value) <= -500;
export const size = lengths(SIZES.replace(" none normal", ""), { is_signed: false, bare: isTiny });
export const largestSize = lengths(SIZES.replace("auto ", "").replace(" normal", ""), {
  is_signed: false,
  bare: isTiny,
});
export const offset = lengths("auto", { is_signed: true, bare: isFarAway });
const FONT_SIZES = "medium smaller larger xx-small x-small small large x-large xx-large xxx-large math";
export const fontSizes = lengths(FONT_SIZES, { is_signed: false, bare: isTiny });
export const FONT_SIZE_WORD = FONT_SIZES.replaceAll(" ", "|");

/** Numbers and shares, such as an opacity. */
export const numbers = (words: string): Test => {
  const known = oneOf(words, `[-+]?${NUMBER}%?`);
  return (value) => known(value) || (isCalculation(value) && !HAS_UNIT.test(value.replaceAll("%", "")));
};

const ARGUMENT = `(?:[-+]?${NUMBER}(?:%|[a-z]+)?|none|[a-z-]+\\([^()]*(?:\\([^()]*\\)[^()]*)*\\))`;
const functionsOf = (names: string, separator = "\\s*,\\s*"): string =>
  `(?:${names})\\(\\s*${ARGUMENT}(?:${separator}${ARGUMENT}){0,15}\\s*\\)`;
const TRANSFORM = functionsOf("matrix|matrix3d|(?:translate|scale|rotate)(?:[xyz]|3d)?|skew[xy]?|perspective");
export const transforms = oneOf("none", `${TRANSFORM}(?:\\s*${TRANSFORM})*`);
export const moves = oneOf("none", `${ARGUMENT}(?: ${ARGUMENT}){0,2}`);
export const scales = oneOf("none", `[-+]?${NUMBER}%?(?: [-+]?${NUMBER}%?){0,2}`);
export const clips = oneOf(
  "auto",
  `rect\\(\\s*(?:auto|${ARGUMENT})(?:(?:\\s*,\\s*|\\s+)(?:auto|${ARGUMENT})){3}\\s*\\)`,
);
export const clipPaths = oneOf(
  "none border-box padding-box content-box margin-box fill-box stroke-box view-box",
  "(?:inset|circle|ellipse|polygon|path|rect|xywh|shape|url)\\([\\s\\S]*\\)(?: [a-z]+-box)?",
);
export const filters = oneOf(
  "none",
  "(?:(?:opacity|blur|brightness|contrast|drop-shadow|grayscale|hue-rotate|invert|saturate|sepia|url)\\([\\s\\S]*\\)\\s*)+",
);

/** The colours with names, and their values. */
const NAMED: ReadonlyMap<string, string> = new Map(
  Array.from(
    (
      "aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc " +
      "bisque ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a " +
      "burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50 cornflowerblue 6495ed " +
      "cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b darkcyan 008b8b darkgoldenrod b8860b " +
      "darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b darkmagenta 8b008b " +
      "darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000 darksalmon e9967a " +
      "darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f darkslategrey 2f4f4f darkturquoise 00ced1 " +
      "darkviolet 9400d3 deeppink ff1493 deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff " +
      "firebrick b22222 floralwhite fffaf0 forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc " +
      "ghostwhite f8f8ff gold ffd700 goldenrod daa520 gray 808080 green 008000 greenyellow adff2f grey 808080 " +
      "honeydew f0fff0 hotpink ff69b4 indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa " +
      "lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080 " +
      "lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey d3d3d3 " +
      "lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa lightslategray 778899 " +
      "lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0 lime 00ff00 limegreen 32cd32 " +
      "linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa mediumblue 0000cd mediumorchid ba55d3 " +
      "mediumpurple 9370db mediumseagreen 3cb371 mediumslateblue 7b68ee mediumspringgreen 00fa9a " +
      "mediumturquoise 48d1cc mediumvioletred c71585 midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 " +
      "moccasin ffe4b5 navajowhite ffdead navy 000080 oldlace fdf5e6 olive 808000 olivedrab 6b8e23 " +
      "orange ffa500 orangered ff4500 orchid da70d6 palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee " +
      "palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd " +
      "powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue 4169e1 " +
      "saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee sienna a0522d " +
      "silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey 708090 snow fffafa " +
      "springgreen 00ff7f steelblue 4682b4 tan d2b48c teal 008080 thistle d8bfd8 tomato ff6347 " +
      "turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5 yellow ffff00 " +
      "yellowgreen 9acd32"
    ).matchAll(/([a-z]+) ([0-9a-f]{6})/g),
    ([, name = "", hex = ""]) => [name, hex],
  ),
);
const SYSTEM_COLOURS =
  "transparent currentcolor canvas canvastext linktext visitedtext activetext buttonface buttontext buttonborder field fieldtext " +
  "highlight highlighttext selecteditem selecteditemtext mark marktext graytext accentcolor accentcolortext windowtext window";
const COLOUR_WORDS = [...NAMED.keys(), SYSTEM_COLOURS].join(" ");
const CHANNEL = `(?:[-+]?${NUMBER}(?:%|deg|rad|turn|grad)?|none|[a-z-]+\\([^()]*\\))`;
const COLOUR_PATTERNS = [
  "#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})",
  `(?:rgb|hsl)a?\\(\\s*${CHANNEL}(?:\\s*,\\s*${CHANNEL}){2,3}\\s*\\)`,
  `(?:(?:rgb|hsl)a?|hwb|lab|lch|oklab|oklch)\\(\\s*(?:from .+ )?${CHANNEL}(?: ${CHANNEL}){2}(?:\\s*/\\s*${CHANNEL})?\\s*\\)`,
  "color\\((?:from .+ )?[a-z0-9-]+ [\\s\\S]+\\)",
  "color-mix\\(\\s*in\\s[\\s\\S]+,[\\s\\S]+,[\\s\\S]+\\)",
  "light-dark\\([\\s\\S]+,[\\s\\S]+\\)",
];
export const colours = oneOf(COLOUR_WORDS, ...COLOUR_PATTERNS);
export const fills = oneOf(`none context-fill context-stroke ${COLOUR_WORDS}`, "url\\([\\s\\S]*", ...COLOUR_PATTERNS);
const IMAGE =
  "(?:url|(?:-webkit-)?(?:repeating-)?(?:linear|radial|conic)-gradient|(?:-webkit-)?image-set|cross-fade|-webkit-gradient|paint|element)\\([\\s\\S]*";
export const images = oneOf("none", IMAGE);
/** The parts of `background` without images and colours. */
const BACKGROUND_PART = oneOf(
  "none left right top bottom center repeat repeat-x repeat-y no-repeat space round scroll fixed local cover contain " +
    "auto border-box padding-box content-box text / ,",
  `[-+]?${NUMBER}(?:%|[a-z]+)?[,/]?`,
);
export const backgrounds: Test = (value) =>
  new RegExp(IMAGE).test(value) ||
  backgroundParts(value).every((part) => part === "" || BACKGROUND_PART(part) || colours(part));
export const backgroundParts = (value: string): string[] =>
  value.split(/\s+(?![^(]*\))/).map((part) => (part === "," ? part : part.replace(/,$/, "")));

/** A share: 0.5 or 50%. 1 for other values. */
export function share(value: string): number {
  const number = Number.parseFloat(value.replace(/^calc\(\s*/, ""));
  if (Number.isNaN(number)) return 1;
  return value.endsWith("%") ? number / 100 : number;
}

const CALC = /^(?:-webkit-)?calc\(([^()]*)\)$/;
/** Pixels of units whose size depends on the window or the element, for a usual window. */
const USUAL_PX: Readonly<Record<string, number>> = { "%": 10, vw: 12, vh: 8 };

/** The pixels of a `calc()` of sums and products, or null for another value. */
export function calculated(value: string): number | null {
  const inner = CALC.exec(value)?.[1];
  if (inner === undefined) return null;
  let sum = 0;
  for (const term of inner.replace(/\s([-+])\s+/g, " |$1").split("|")) {
    let product = 1;
    for (const factor of term.split("*")) {
      const [, sign = "", number, unit = ""] = /^\s*([-+]?)([\d.]+)([a-z%]*)\s*$/.exec(factor) ?? [];
      if (number === undefined) return null;
      product *=
        Number(`${sign}1`) * (USUAL_PX[unit] === undefined ? pixels(number + unit) : Number(number) * USUAL_PX[unit]);
    }
    sum += product;
  }
  return sum;
}

/** A length in pixels, with an ordinary font. */
export function pixels(length: string): number {
  const number = Number.parseFloat(length);
  if (/(r?em|ch|ex)$/.test(length)) return number * 16;
  if (length.endsWith("pt")) return number * 1.33;
  return number;
}

export type Colour = readonly [red: number, green: number, blue: number];

/** A colour, "none" for a transparent one, or null for one that is not known. */
export function colourOf(value: string | undefined): Colour | "none" | null {
  if (value === undefined) return null;
  if (value === "transparent") return "none";
  if (value.startsWith("#")) return hexColour(value.slice(1));
  const [, name = "", inner = ""] = /^(rgb|hsl|hwb)a?\(([^)]*)\)$/.exec(value) ?? [];
  if (name !== "") return functionColour(name, inner);
  const [, one, other] = MIX.exec(value) ?? [];
  if (one !== undefined && other !== undefined) return mixed(colourOf(one.trim()), colourOf(other.trim()));
  return hexColour(NAMED.get(value === "canvas" ? "white" : value === "canvastext" ? "black" : value) ?? "");
}

function hexColour(hex: string): Colour | "none" | null {
  if (!/^([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/.test(hex)) return null;
  const full = hex.length < 6 ? [...hex].map((digit) => digit + digit).join("") : hex;
  if (full.length === 8 && Number.parseInt(full.slice(6), 16) <= 12) return "none";
  const [red, green, blue] = [0, 2, 4].map((at) => Number.parseInt(full.slice(at, at + 2), 16));
  return [red ?? 0, green ?? 0, blue ?? 0];
}

function functionColour(name: string, inner: string): Colour | "none" | null {
  const [first, second, third, alpha = "1"] = inner.match(/-?[\d.]+%?|\bnone\b/g) ?? [];
  if (first === undefined || second === undefined || third === undefined) return null;
  if (share(alpha === "none" ? "0" : alpha) <= 0.05) return "none";
  const number = (text: string) => (text === "none" ? 0 : Number.parseFloat(text));
  if (name === "rgb") {
    const channel = (text: string) => number(text) * (text.endsWith("%") ? 2.55 : 1);
    return [channel(first), channel(second), channel(third)];
  }
  const [hue, one, other] = [number(first), number(second) / 100, number(third) / 100];
  // HWB: a pure hue, made lighter by white and darker by black.
  const whole = name === "hwb" ? Math.max(1, one + other) : 1;
  const light = name === "hwb" ? (one / whole + 1 - other / whole) / 2 : other;
  const spread = name === "hwb" ? (1 - one / whole - other / whole) / 2 : one * Math.min(light, 1 - light);
  const channel = (offset: number) => {
    const at = (((offset + hue / 30) % 12) + 12) % 12;
    return 255 * (light - spread * Math.max(-1, Math.min(at - 3, 9 - at, 1)));
  };
  return [channel(0), channel(8), channel(4)];
}

/** A mix of two colours without functions in them, in equal parts. */
const MIX = /^color-mix\(in\s[^,()]*,([^,()%]*),([^,()%]*)\)$/;

function mixed(one: Colour | "none" | null, other: Colour | "none" | null): Colour | "none" | null {
  if (one === null || other === null) return null;
  if (one === "none" || other === "none") return one === other ? "none" : null;
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2, (one[2] + other[2]) / 2];
}
