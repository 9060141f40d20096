import { type Declarations, declared, NOTHING_DECLARED } from "./declarations.ts";

/**
 * The part of CSS that decides whether a reader sees text. Approximate on purpose: text counts as visible when the
 * answer needs layout (media queries, external sheets, selectors with combinators).
 */

/** A technique that hides an element with all its children. `null`: not hidden. */
export type HidingTechnique =
  | "display-none"
  | "transparent"
  | "off-screen"
  | "clipped"
  | "zero-size"
  | "tiny-font"
  | "same-colour"
  | "visibility-hidden";

/** Text further away than this is off screen. */
const OFF_SCREEN_PX = 500;
/** Text smaller than this is illegible. */
const LEGIBLE_PX = 3;
/** Colours closer than this (largest channel difference, of 255) look equal. */
const SAME_COLOUR = 12;

/** Returns the technique that hides the element and its content, or null. */
export function hidesSubtree(css: Declarations): HidingTechnique | null {
  if (css === NOTHING_DECLARED) return null;
  if (declared(css, "display") === "none" || declared(css, "content-visibility") === "hidden") return "display-none";
  if (isTransparent(css)) return "transparent";
  if (isOffScreen(css)) return "off-screen";
  if (isClipped(css)) return "clipped";
  if (hasNoSize(css)) return "zero-size";
  return null;
}

/** Whether the declarations of one rule hide text by themselves. */
export function hidesAlone(css: Declarations): boolean {
  const size = fontSize(css);
  const isInvisible = /^(?:hidden|collapse)$/.test(declared(css, "visibility") ?? "");
  return (
    hidesSubtree(css) !== null || isInvisible || textColour(css) === "none" || (size !== null && isIllegible(size))
  );
}

function isTransparent(css: Declarations): boolean {
  const opacity = declared(css, "opacity");
  if (opacity !== undefined && share(opacity) <= 0.05) return true;
  const filter = /opacity\(\s*([\d.]+%?)\s*\)/.exec(declared(css, "filter") ?? "")?.[1];
  return filter !== undefined && share(filter) <= 0.05;
}

function share(value: string): number {
  const number = Number.parseFloat(value);
  if (Number.isNaN(number)) return 1;
  return value.endsWith("%") ? number / 100 : number;
}

function isOffScreen(css: Declarations): boolean {
  const placed = /^(absolute|fixed|relative)$/.test(declared(css, "position") ?? "");
  const moved = ["left", "top", "right", "bottom"].some((side) => isFar(declared(css, side)));
  if (placed && moved) return true;
  if (isFar(declared(css, "text-indent")) || isFar(declared(css, "margin-left")) || isFar(declared(css, "margin-top")))
    return true;
  const transform = declared(css, "transform") ?? "";
  if (/\bscale[xy]?\(\s*0(\.0+)?\s*[,)]/.test(transform) || /^0(\.0+)?$/.test(declared(css, "scale") ?? ""))
    return true;
  return transform.startsWith("translate") && (transform.match(/-\d[\d.]*[a-z%]+/g) ?? []).some(isFar);
}

/** Whether a length is far outside the screen: to the left or above (for `right` and `bottom`: beyond). */
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
  const clip = declared(css, "clip") ?? "";
  if (/^rect\(/.test(clip) && (clip.match(/[\d.]+/g) ?? []).every((edge) => Number(edge) <= 1)) return true;
  return /^(inset\(\s*(50|[6-9]\d|1\d\d)(\.\d+)?%|circle\(\s*0|ellipse\(\s*0|polygon\(\s*0\s*0\s*\))/.test(
    declared(css, "clip-path") ?? "",
  );
}

function hasNoSize(css: Declarations): boolean {
  const cut = ["overflow-x", "overflow-y"].some((side) => /hidden|clip|scroll/.test(declared(css, side) ?? ""));
  return cut && ["width", "height", "max-width", "max-height"].some((side) => isNothing(declared(css, side)));
}

function isNothing(length: string | undefined): boolean {
  return length !== undefined && /^[\d.]/.test(length) && !/(vw|vh|%|em)$/.test(length)
    ? pixels(length) <= 1
    : length === "0%" || length === "0em";
}

/** The element's font size in pixels. Returns `inherit` (null) when unset or relative to the parent's. */
export function fontSize(css: Declarations): number | null {
  const value = declared(css, "font-size");
  if (value === undefined || !/^[\d.]/.test(value)) return value === undefined || /inherit/.test(value) ? null : 16;
  const number = Number.parseFloat(value);
  if (number === 0) return 0;
  if (value.endsWith("%")) return number < 15 ? 0 : null;
  if (/[^r]em$/.test(value)) return number < 0.15 ? 0 : null;
  return pixels(value);
}

/** Whether text of this size is too small to read. */
export function isIllegible(font_px: number): boolean {
  return font_px < LEGIBLE_PX;
}

export type Direction = "ltr" | "rtl";

/** Elements that browsers isolate from an override around them. */
const ISOLATED = /^(?:bdi|output)$/;

/** The element's direction, and whether it displays all letters in it (`bidi-override`) or ends that. Null: neither. */
export function bidi(
  css: Declarations,
  { name, dir }: { name: string; dir: string | undefined },
): { direction: Direction | null; overrides_bidi: boolean | null } {
  const wanted = declared(css, "direction") ?? dir;
  const mode = declared(css, "unicode-bidi") ?? "";
  const direction = wanted === "rtl" || wanted === "ltr" ? wanted : null;
  if (/override$/.test(mode)) return { direction, overrides_bidi: true };
  if (/(^|-)(embed|isolate|plaintext)$/.test(mode)) return { direction, overrides_bidi: false };
  if (/^(normal|initial|unset|inherit)$/.test(mode)) return { direction, overrides_bidi: null };
  // The `dir` attribute isolates an element from an override around it.
  if (name === "bdo") return { direction, overrides_bidi: true };
  return { direction, overrides_bidi: dir === undefined && !ISOLATED.test(name) ? null : false };
}

export type Colour = readonly [red: number, green: number, blue: number];

/** The element's text colour: a colour, "none" for fully transparent, or null when unset or unknown. */
export function textColour(css: Declarations): Colour | "none" | null {
  const fill = declared(css, "-webkit-text-fill-color");
  const clipped = /text/.test(declared(css, "background-clip") ?? "");
  return clipped ? null : colour(fill ?? declared(css, "color"));
}

/** The element's background: a colour, "unknown" for images and unparsed values, or null when it paints none. */
export function backgroundColour(css: Declarations): Colour | "unknown" | null {
  const image = declared(css, "background-image");
  const value = declared(css, "background-color");
  if (image !== undefined && image !== "none") return "unknown";
  if (value === undefined) return null;
  if (/url\(|gradient\(|var\(/.test(value)) return "unknown";
  const painted = colour(value) ?? colour(value.split(/\s+/)[0]);
  if (painted === "none") return null;
  return painted ?? "unknown";
}

/** Whether text and background have the same colour to the eye. */
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
