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

/** The words that browsers take for a colour. */
const COLOUR_WORDS =
  "transparent currentcolor aliceblue antiquewhite aqua aquamarine azure beige bisque black blanchedalmond blue " +
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
  "highlighttext selecteditem selecteditemtext mark marktext graytext accentcolor accentcolortext windowtext window";
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

const NAMED: Readonly<Record<string, Colour>> = {
  white: [255, 255, 255],
  snow: [255, 250, 250],
  ivory: [255, 255, 240],
  ghostwhite: [248, 248, 255],
  whitesmoke: [245, 245, 245],
  mintcream: [245, 255, 250],
  floralwhite: [255, 250, 240],
  azure: [240, 255, 255],
  canvas: [255, 255, 255],
  canvastext: [0, 0, 0],
  black: [0, 0, 0],
  red: [255, 0, 0],
  green: [0, 128, 0],
  lime: [0, 255, 0],
  blue: [0, 0, 255],
  navy: [0, 0, 128],
  yellow: [255, 255, 0],
  gray: [128, 128, 128],
  grey: [128, 128, 128],
  lightgray: [211, 211, 211],
  lightgrey: [211, 211, 211],
  silver: [192, 192, 192],
  orange: [255, 165, 0],
};

/** A colour, "none" for a transparent one, or null for one that is not known. */
export function colourOf(value: string | undefined): Colour | "none" | null {
  if (value === undefined) return null;
  if (value === "transparent") return "none";
  if (value.startsWith("#")) return hexColour(value.slice(1));
  const [, name = "", inner = ""] = /^(rgb|hsl|hwb)a?\(([^)]*)\)$/.exec(value) ?? [];
  if (name !== "") return functionColour(name, inner);
  const [, one, other] = MIX.exec(value) ?? [];
  if (one !== undefined && other !== undefined) return mixed(colourOf(one.trim()), colourOf(other.trim()));
  return Object.hasOwn(NAMED, value) ? (NAMED[value] as Colour) : null;
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
