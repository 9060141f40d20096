/**
 * The part of CSS that decides whether a reader sees text. Approximate on purpose: what cannot be known without
 * layout (media queries, external sheets, selectors with combinators) is taken as visible.
 */

/** Declarations that matter, lower case, `!important` cut off. */
export type Declarations = ReadonlyMap<string, string>;

/** Hidden whatever the children say. `null`: not hidden by this. */
export type HidingTechnique =
  | "display-none"
  | "transparent"
  | "off-screen"
  | "clipped"
  | "zero-size"
  | "tiny-font"
  | "same-colour"
  | "visibility-hidden";

/** Further off than this and nobody scrolls there. */
const OFF_SCREEN_PX = 500;
/** Text smaller than this is not read. */
const LEGIBLE_PX = 3;
/** Colours closer than this (largest channel difference, of 255) cannot be told apart. */
const SAME_COLOUR = 12;

const RELEVANT =
  /^(display|visibility|opacity|font|font-size|color|background|background-color|background-image|position|left|top|right|bottom|text-indent|transform|scale|margin-left|margin-top|clip|clip-path|width|height|max-width|max-height|overflow|overflow-x|overflow-y|content-visibility|filter|-webkit-text-fill-color|background-clip|-webkit-background-clip|line-height)$/;

/** Reads `a: b; c: d`. Later declarations win, important ones first. */
export function parseDeclarations(css: string): Map<string, string> {
  const found = new Map<string, string>();
  const important = new Set<string>();
  for (const declaration of css.split(";")) {
    const colon = declaration.indexOf(":");
    if (colon < 0) continue;
    const name = declaration.slice(0, colon).trim().toLowerCase();
    if (!RELEVANT.test(name)) continue;
    const written = declaration
      .slice(colon + 1, colon + 200)
      .trim()
      .toLowerCase();
    const value = written.replace(/\s*!\s*important$/, "");
    if (important.has(name) && value === written) continue;
    if (value !== written) important.add(name);
    found.set(name, value);
  }
  return found;
}

/** What hides the element and all that is in it, or null. */
export function hidesSubtree(css: Declarations): HidingTechnique | null {
  if (css.get("display") === "none" || css.get("content-visibility") === "hidden") return "display-none";
  if (isTransparent(css)) return "transparent";
  if (isOffScreen(css)) return "off-screen";
  if (isClipped(css)) return "clipped";
  if (hasNoSize(css)) return "zero-size";
  return null;
}

function isTransparent(css: Declarations): boolean {
  const opacity = css.get("opacity");
  if (opacity !== undefined && share(opacity) <= 0.05) return true;
  const filter = /opacity\(\s*([\d.]+%?)\s*\)/.exec(css.get("filter") ?? "")?.[1];
  return filter !== undefined && share(filter) <= 0.05;
}

function share(value: string): number {
  const number = Number.parseFloat(value);
  if (Number.isNaN(number)) return 1;
  return value.endsWith("%") ? number / 100 : number;
}

function isOffScreen(css: Declarations): boolean {
  const placed = /^(absolute|fixed|relative)$/.test(css.get("position") ?? "");
  const moved = ["left", "top", "right", "bottom"].some((side) => isFar(css.get(side)));
  if (placed && moved) return true;
  if (isFar(css.get("text-indent")) || isFar(css.get("margin-left")) || isFar(css.get("margin-top"))) return true;
  const transform = css.get("transform") ?? "";
  if (/\bscale[xy]?\(\s*0(\.0+)?\s*[,)]/.test(transform) || /^0(\.0+)?$/.test(css.get("scale") ?? "")) return true;
  return (transform.match(/-\d[\d.]*[a-z%]+/g) ?? []).some((length) => /^translate/.test(transform) && isFar(length));
}

/** Whether a length lies far outside the screen, to the left or above (or, for `right` and `bottom`, beyond). */
function isFar(length: string | undefined): boolean {
  if (length === undefined || !length.startsWith("-")) return false;
  return /(vw|vh|%)$/.test(length) ? Number.parseFloat(length) <= -100 : pixels(length) <= -OFF_SCREEN_PX;
}

function pixels(length: string): number {
  const number = Number.parseFloat(length);
  if (/(r?em|ch|ex)$/.test(length)) return number * 16;
  if (length.endsWith("pt")) return number * 1.33;
  return number;
}

function isClipped(css: Declarations): boolean {
  const clip = css.get("clip") ?? "";
  if (/^rect\(/.test(clip) && (clip.match(/[\d.]+/g) ?? []).every((edge) => Number(edge) <= 1)) return true;
  return /^(inset\(\s*(50|[6-9]\d|1\d\d)(\.\d+)?%|circle\(\s*0|ellipse\(\s*0|polygon\(\s*0\s*0\s*\))/.test(
    css.get("clip-path") ?? "",
  );
}

function hasNoSize(css: Declarations): boolean {
  const cut = ["overflow", "overflow-x", "overflow-y"].some((side) => /hidden|clip|scroll/.test(css.get(side) ?? ""));
  return cut && ["width", "height", "max-width", "max-height"].some((side) => isNothing(css.get(side)));
}

function isNothing(length: string | undefined): boolean {
  return length !== undefined && /^[\d.]/.test(length) && !/(vw|vh|%|em)$/.test(length)
    ? pixels(length) <= 1
    : length === "0%" || length === "0em";
}

/** Font size that the element sets, in pixels; `inherit` (null) when it sets none or one relative to its parent's. */
export function fontSize(css: Declarations): number | null {
  const value =
    css.get("font-size") ?? /(?:^|\s)([\d.]+(?:px|pt|r?em|%)?)\s*(?:\/|\s|$)/.exec(css.get("font") ?? "")?.[1];
  if (value === undefined || !/^[\d.]/.test(value)) return value === undefined || /inherit/.test(value) ? null : 16;
  const number = Number.parseFloat(value);
  if (number === 0) return 0;
  if (value.endsWith("%")) return number < 15 ? 0 : null;
  if (/[^r]em$/.test(value)) return number < 0.15 ? 0 : null;
  return pixels(value);
}

/** Whether text of this size is too small to be read. */
export function isIllegible(font_px: number): boolean {
  return font_px < LEGIBLE_PX;
}

export type Colour = readonly [red: number, green: number, blue: number];

/** Text colour the element sets: a colour, "none" for fully transparent, null when not set or not understood. */
export function textColour(css: Declarations): Colour | "none" | null {
  const fill = css.get("-webkit-text-fill-color");
  const clipped = /text/.test(css.get("background-clip") ?? css.get("-webkit-background-clip") ?? "");
  return clipped ? null : colour(fill ?? css.get("color"));
}

/** Background the element paints; "unknown" for pictures and what is not understood, null when it paints none. */
export function backgroundColour(css: Declarations): Colour | "unknown" | null {
  const image = css.get("background-image");
  const value = css.get("background-color") ?? css.get("background");
  if (image !== undefined && image !== "none") return "unknown";
  if (value === undefined) return null;
  if (/url\(|gradient\(|var\(/.test(value)) return "unknown";
  const painted = colour(value) ?? colour(value.split(/\s+/)[0]);
  if (painted === "none") return null;
  return painted ?? "unknown";
}

/** Whether text of one colour on the other cannot be told from its background. */
export function isSameColour(text: Colour, background: Colour): boolean {
  return text.every((channel, index) => Math.abs(channel - (background[index] ?? 0)) <= SAME_COLOUR);
}

const NAMED: Record<string, Colour> = {
  white: [255, 255, 255],
  snow: [255, 250, 250],
  ivory: [255, 255, 240],
  ghostwhite: [248, 248, 255],
  whitesmoke: [245, 245, 245],
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

function colour(value: string | undefined): Colour | "none" | null {
  if (value === undefined) return null;
  if (value === "transparent") return "none";
  if (value.startsWith("#")) return hexColour(value.slice(1));
  const numbers = /^rgba?\(([^)]*)\)$/.exec(value)?.[1]?.match(/[\d.]+%?/g);
  if (numbers) return rgbColour(numbers);
  return NAMED[value] ?? null;
}

function hexColour(hex: string): Colour | "none" | null {
  if (!/^([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/.test(hex)) return null;
  const full = hex.length < 6 ? [...hex].map((digit) => digit + digit).join("") : hex;
  if (full.length === 8 && Number.parseInt(full.slice(6), 16) <= 12) return "none";
  return [0, 2, 4].map((at) => Number.parseInt(full.slice(at, at + 2), 16)) as unknown as Colour;
}

function rgbColour(numbers: string[]): Colour | "none" | null {
  const [red, green, blue, alpha] = numbers;
  if (red === undefined || green === undefined || blue === undefined) return null;
  if (alpha !== undefined && share(alpha) <= 0.05) return "none";
  const channel = (text: string) => (text.endsWith("%") ? Number.parseFloat(text) * 2.55 : Number.parseFloat(text));
  return [channel(red), channel(green), channel(blue)];
}
