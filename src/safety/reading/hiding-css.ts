import { type Declarations, declared, NOTHING_DECLARED, parseDeclarations } from "./declarations.ts";

/**
 * The part of CSS that decides whether a reader sees text. Approximate on purpose: text counts as visible when the
 * answer needs layout (media queries, external sheets).
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
/** A smaller `zoom` makes ordinary text illegible. */
const SMALLEST_ZOOM = 0.15;
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

const EMPTY_MASK = /^[a-z-]*gradient\((?:(?:transparent|#0000(?:0000)?|rgba\([^()]*,\s*0\))\s*,?\s*)+\)/;

function isTransparent(css: Declarations): boolean {
  const opacity = declared(css, "opacity");
  if (opacity !== undefined && share(opacity) <= 0.05) return true;
  if (EMPTY_MASK.test(declared(css, "mask-image") ?? "")) return true;
  const filter = /opacity\(\s*([\d.]+%?)\s*\)/.exec(declared(css, "filter") ?? "")?.[1];
  return filter !== undefined && share(filter) <= 0.05;
}

function share(value: string): number {
  const number = Number.parseFloat(value.replace(/^calc\(\s*/, ""));
  if (Number.isNaN(number)) return 1;
  return value.endsWith("%") ? number / 100 : number;
}

function isOffScreen(css: Declarations): boolean {
  const placed = /^(absolute|fixed|relative)$/.test(declared(css, "position") ?? "");
  const moved = ["left", "top", "right", "bottom"].some((side) => isFar(declared(css, side)));
  if (placed && moved) return true;
  if (isFar(declared(css, "text-indent")) || isFar(declared(css, "margin-left")) || isFar(declared(css, "margin-top")))
    return true;
  if (/^0(\.0+)?$/.test(declared(css, "scale") ?? "")) return true;
  return isMovedAway(declared(css, "transform") ?? "") || (declared(css, "translate") ?? "").split(" ").some(isFar);
}

function isMovedAway(transform: string): boolean {
  if (/\bscale(?:[xy]|3d)?\(\s*(?:[\d.]+\s*,\s*)?0(\.0+)?\s*[,)]/.test(transform)) return true;
  const [a = 1, b = 0, c = 0, d = 1, ...moved] =
    /\bmatrix\(([^()]*)/.exec(transform)?.[1]?.split(",").map(Number) ?? [];
  if (a * d === b * c || moved.some((each) => each <= -OFF_SCREEN_PX)) return true;
  return transform.startsWith("translate") && (transform.match(/-\d[\d.]*[a-z%]+/g) ?? []).some(isFar);
}

/** Whether a length is far outside the screen: to the left or above (for `right` and `bottom`: beyond). */
function isFar(length: string | undefined): boolean {
  if (length === undefined) return false;
  const sum = calculated(length);
  if (sum !== null) return sum <= -OFF_SCREEN_PX;
  if (!length.startsWith("-")) return false;
  return /(vw|vh|%)$/.test(length) ? Number.parseFloat(length) <= -100 : pixels(length) <= -OFF_SCREEN_PX;
}

const CALC = /^(?:-webkit-)?calc\(([^()]*)\)$/;
/** Pixels of units whose size depends on the window or the element, for a usual window. */
const USUAL_PX: Readonly<Record<string, number>> = { "%": 10, vw: 12, vh: 8 };

/** The pixels of a `calc()` of sums and products, or null for another value. */
function calculated(value: string): number | null {
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

function pixels(length: string): number {
  const number = Number.parseFloat(length);
  if (/(r?em|ch|ex)$/.test(length)) return number * 16;
  if (length.endsWith("pt")) return number * 1.33;
  return number;
}

function isClipped(css: Declarations): boolean {
  const clip = declared(css, "clip") ?? "";
  if (/^rect\(/.test(clip) && (clip.match(/[\d.]+/g) ?? []).every((edge) => Number(edge) <= 1)) return true;
  const path = declared(css, "clip-path") ?? "";
  const [, shape = "", inner = ""] = /^([a-z]+)\(([^()]*)/.exec(path) ?? [];
  if (shape === "circle" || shape === "ellipse") return /^\s*0/.test(inner) && !/^\s*0?\.\d*[1-9]/.test(inner);
  if (shape === "polygon") return new Set(inner.split(",").map((point) => point.trim().replace(/px/g, ""))).size === 1;
  if (shape !== "inset") return false;
  const [top = 0, right = top, bottom = top, left = right] = inner
    .trim()
    .split(/\s+/)
    .map((side) => (side.endsWith("%") ? Number.parseFloat(side) : 0));
  return top + bottom >= 100 || left + right >= 100;
}

function hasNoSize(css: Declarations): boolean {
  const cut = ["overflow-x", "overflow-y"].some((side) => /hidden|clip|scroll/.test(declared(css, side) ?? ""));
  return cut && ["width", "height", "max-width", "max-height"].some((side) => isNothing(declared(css, side)));
}

function isNothing(length: string | undefined): boolean {
  const sum = calculated(length ?? "");
  if (sum !== null) return sum <= 1;
  return length !== undefined && /^[\d.]/.test(length) && !/(vw|vh|%|em)$/.test(length)
    ? pixels(length) <= 1
    : length === "0%" || length === "0em";
}

/** The element's font size in pixels. Returns `inherit` (null) when unset or relative to the parent's. */
export function fontSize(css: Declarations): number | null {
  const value = declared(css, "font-size");
  const zoom = Number.parseFloat(declared(css, "zoom") ?? "");
  if (zoom > 0 && share(declared(css, "zoom") ?? "") <= SMALLEST_ZOOM) return 0;
  const sum = calculated(value ?? "");
  if (sum !== null) return sum < LEGIBLE_PX ? 0 : null;
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

/** Whether text of SVG is drawn without colour. */
export function isUnfilled(css: Declarations): boolean {
  return (
    /^(?:none|transparent)$/.test(declared(css, "fill") ?? "") || share(declared(css, "fill-opacity") ?? "1") <= 0.05
  );
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

/** The colour in an attribute such as `bgcolor`; null: none, or not a known one. */
export function attributeColour(value: string | undefined): Colour | null {
  if (value === undefined) return null;
  const colour = backgroundColour(parseDeclarations(`background-color:${value.replaceAll(";", " ")}`));
  return colour === "unknown" ? null : colour;
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
  mintcream: [245, 255, 250],
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

function colour(value: string | undefined): Colour | "none" | null {
  if (value === undefined) return null;
  if (value === "transparent") return "none";
  if (value.startsWith("#")) return hexColour(value.slice(1));
  const numbers = /^rgba?\(([^)]*)\)$/.exec(value)?.[1]?.match(/[\d.]+%?/g);
  if (numbers) return rgbColour(numbers);
  const parts = /^hsla?\(([^)]*)\)$/.exec(value)?.[1]?.match(/[\d.]+/g);
  if (parts) return hslColour(parts.map(Number), value);
  const [, one, other] = MIX.exec(value) ?? [];
  if (one !== undefined && other !== undefined) return mixed(colour(one.trim()), colour(other.trim()));
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

function hslColour([hue = 0, saturation = 0, lightness = 0, alpha = 1]: number[], value: string): Colour | "none" {
  if ((/%\s*\)$/.test(value) && /\//.test(value) ? alpha / 100 : alpha) <= 0.05) return "none";
  const light = lightness / 100;
  const spread = (saturation / 100) * Math.min(light, 1 - light);
  const channel = (offset: number) => {
    const at = (offset + hue / 30) % 12;
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
