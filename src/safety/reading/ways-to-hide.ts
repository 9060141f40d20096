import * as values from "./css-values.ts";
import { type Declarations, declared, NOTHING_DECLARED, parseDeclarations } from "./declarations.ts";

/**
 * The ways to hide text from a reader, as far as a page itself shows them. What needs layout or another file (the width
 * of the window, external sheets) counts as visible. `test/unit/safety/ways-to-hide.test.ts` has examples of each row.
 */

/** An element that may hide its text. */
export interface Subject {
  readonly name: string;
  readonly attribute: (name: string) => string | undefined;
  /** What the page's rules and the element's own `style` declare. */
  readonly css: Declarations;
}

interface Way {
  readonly way: string;
  /** The name that callers of the service get. */
  readonly technique: string;
  readonly why: string;
  readonly hides: (element: Subject) => boolean;
}

/** Ways that hide an element with all its content. The first one that applies gives the technique. */
export const WAYS = [
  {
    way: "too many attributes",
    technique: "too-many-attributes",
    why: "nobody writes them, and reading all would take long",
    hides: ({ attribute }) => attribute(TOO_MANY) !== undefined,
  },
  {
    way: "the attribute hidden",
    technique: "hidden-attribute",
    why: "browsers give it display: none, which only another display overrides; until-found hides in any case",
    hides: ({ attribute, css }) =>
      attribute("hidden") !== undefined &&
      (!declaresDisplay(css) || attribute("hidden")?.toLowerCase() === "until-found"),
  },
  {
    way: "a name for screen readers only",
    technique: "clipped",
    why: "widespread sheets clip these classes; the text repeats or describes what others see",
    hides: ({ attribute }) => SCREEN_READER_ONLY.test(attribute("class") ?? ""),
  },
  {
    way: "a closed popover or dialog",
    technique: "display-none",
    why: "it opens only by a script or a click, unless a rule displays it",
    hides: ({ name, attribute, css }) =>
      (attribute("popover") !== undefined || (name === "dialog" && attribute("open") === undefined)) &&
      !declaresDisplay(css),
  },
  {
    way: "a dialog that screen readers skip",
    technique: "aria-hidden",
    why: "scripts give aria-hidden to their dialogs and menus as long as these are closed, by a sheet that is not here",
    hides: ({ attribute }) =>
      attribute("aria-hidden")?.toLowerCase() === "true" &&
      /^\s*(?:alertdialog|dialog|menu)\b/i.test(attribute("role") ?? ""),
  },
  {
    way: "an option with a label",
    technique: "fallback-content",
    why: "browsers show the label in place of the text",
    hides: ({ name, attribute }) => name === "option" && Boolean(attribute("label")),
  },
  {
    way: "SVG text without paint",
    technique: "transparent",
    why: "its letters are drawn by fill",
    hides: ({ name, css }) =>
      /^(?:text|tspan|textpath)$/.test(name) &&
      (/^(?:none|transparent)$/.test(declared(css, "fill") ?? "") ||
        values.share(declared(css, "fill-opacity") ?? "1") <= VISIBLE_SHARE),
  },
  {
    way: "display: none",
    technique: "display-none",
    why: "the element has no box; columns of a table have none with text",
    hides: ({ css }) => /^(?:none|table-column(?:-group)?)$/.test(declared(css, "display") ?? ""),
  },
  {
    way: "content-visibility: hidden",
    technique: "display-none",
    why: "browsers skip the content",
    hides: ({ css }) => declared(css, "content-visibility") === "hidden",
  },
  {
    way: "opacity",
    technique: "transparent",
    why: "nothing of it is painted",
    hides: ({ css }) => {
      const filter = /opacity\(\s*([\d.]+%?)\s*\)/.exec(declared(css, "filter") ?? "")?.[1];
      return [declared(css, "opacity"), filter].some(
        (each) => each !== undefined && values.share(each) <= VISIBLE_SHARE,
      );
    },
  },
  {
    way: "an empty mask",
    technique: "transparent",
    why: "a mask of transparent colours lets nothing through",
    hides: ({ css }) => EMPTY_MASK.test(declared(css, "mask-image") ?? ""),
  },
  {
    way: "a place off the screen",
    technique: "off-screen",
    why: "nobody can scroll to the left of a page or above it",
    hides: ({ css }) =>
      /^(?:absolute|fixed|relative)$/.test(declared(css, "position") ?? "") &&
      ["left", "top", "right", "bottom"].some((side) => isFar(declared(css, side))),
  },
  {
    way: "a shift off the screen",
    technique: "off-screen",
    why: "the same by an indent, a margin or a translation",
    hides: ({ css }) =>
      ["text-indent", "margin-left", "margin-top"].some((each) => isFar(declared(css, each))) ||
      (declared(css, "translate") ?? "").split(" ").some(isFar) ||
      isMovedAway(declared(css, "transform") ?? ""),
  },
  {
    way: "a scale of nothing",
    technique: "off-screen",
    why: "the letters have no width or no height",
    hides: ({ css }) =>
      /(?:^| )0(?:\.0+)?%?(?: |$)/.test(declared(css, "scale") ?? "") || isFlattened(declared(css, "transform") ?? ""),
  },
  {
    way: "an empty clip",
    technique: "clipped",
    why: "only the inside of a clip is painted; screen-reader texts have one of a pixel",
    hides: ({ css }) => isClipped(css),
  },
  {
    way: "a box of no size",
    technique: "zero-size",
    why: "what overflows is cut off",
    hides: ({ css }) =>
      ["overflow-x", "overflow-y"].some((side) => /hidden|clip|scroll/.test(declared(css, side) ?? "")) &&
      ["width", "height", "max-width", "max-height"].some((side) => isNothing(declared(css, side))),
  },
  ...(["script", "style", "template", "noscript", "noembed", "noframes"] as const).map((hidden_name) => ({
    way: `the element ${hidden_name}` as const,
    technique: hidden_name,
    why: "browsers show nothing of it while scripts run",
    hides: ({ name }: Subject) => name === hidden_name,
  })),
  {
    way: "content in place of what a browser shows",
    technique: "fallback-content",
    why: "the element shows something other than its content, or defines what others show",
    hides: ({ name }) => FALLBACK.has(name),
  },
] as const satisfies readonly Way[];

/** What text takes over from the elements around it. */
export interface TextLook {
  readonly invisible: boolean;
  /** Whether it is in SVG, outside its text elements. */
  readonly unpainted: boolean;
  readonly font_px: number;
  /** "none": fully transparent. "unknown": what it is cannot be told from the text of the page. */
  readonly colour: values.Colour | "none" | "unknown";
  /** "unknown": an image, or an external style sheet. */
  readonly background: values.Colour | "unknown";
}

/** Ways that an element hands down to its content, which may undo them. */
export const INHERITED_WAYS = [
  {
    way: "visibility: hidden",
    technique: "visibility-hidden",
    why: "the box stays empty; visibility: visible in it shows text again",
    hides: ({ invisible }) => invisible,
  },
  {
    way: "text of SVG outside its text elements",
    technique: "fallback-content",
    why: "SVG draws only text, tspan, textPath and foreignObject",
    hides: ({ unpainted }) => unpainted,
  },
  {
    way: "tiny type",
    technique: "tiny-font",
    why: "nobody can read it",
    hides: ({ font_px }) => isIllegible(font_px),
  },
  {
    way: "a transparent colour",
    technique: "transparent",
    why: "the letters have no paint",
    hides: ({ colour }) => colour === "none",
  },
  {
    way: "the colour of the background",
    technique: "same-colour",
    why: "letters and ground look the same; on a page with external sheets the ground is not known",
    hides: ({ colour, background }) =>
      typeof colour !== "string" && background !== "unknown" && isSameColour(colour, background),
  },
] as const satisfies readonly (Omit<Way, "hides"> & { readonly hides: (look: TextLook) => boolean })[];

/** The technique that hides the element with its content, or null. */
export function techniqueOf(element: Subject): string | null {
  return WAYS.find(({ hides }) => hides(element))?.technique ?? null;
}

/** The technique by which the inherited look hides text, or null. */
export function inheritedTechniqueOf(look: TextLook): string | null {
  return INHERITED_WAYS.find(({ hides }) => hides(look))?.technique ?? null;
}

/** Whether the declarations of one rule hide text by themselves. */
export function hidesAlone(css: Declarations): boolean {
  if (css === NOTHING_DECLARED) return false;
  const size = fontSize(css);
  return (
    techniqueOf({ name: "", attribute: () => undefined, css }) !== null ||
    isInvisible(css) === true ||
    textColour(css) === "none" ||
    (size !== null && isIllegible(size))
  );
}

/** The attribute of elements that have more than are read. No name in a page has a space. */
export const TOO_MANY = "too many";
/** Text further away than this is off screen. */
const OFF_SCREEN_PX = 500;
/** Text smaller than this is illegible. */
const LEGIBLE_PX = 3;
/** A smaller `zoom` makes ordinary text illegible. */
const SMALLEST_ZOOM = 0.15;
/** Colours closer than this (largest channel difference, of 255) look equal. */
const SAME_COLOUR = 12;
/** Less of a colour cannot be seen. */
const VISIBLE_SHARE = 0.05;
const SCREEN_READER_ONLY =
  /(?:^|\s)(sr-only|visually-hidden|visuallyhidden|screen-reader-text|screen-reader-only)(?:\s|$)/;
const FALLBACK = new Set(
  (
    "iframe object audio video canvas datalist rp progress meter defs metadata desc symbol clippath mask marker pattern " +
    "annotation annotation-xml"
  ).split(" "),
);
const EMPTY_MASK = /^[a-z-]*gradient\((?:(?:transparent|#0000(?:0000)?|rgba\([^()]*,\s*0\))\s*,?\s*)+\)/;

/** Whether the element's own display overrides that of an attribute. */
function declaresDisplay(css: Declarations): boolean {
  const display = declared(css, "display");
  return display !== undefined && !/^(?:none|revert|revert-layer)$/.test(display) && !display.includes("var(");
}

/** Whether the element hides its text until an inner one shows it; null: it inherits that. */
export function isInvisible(css: Declarations): boolean | null {
  const visibility = declared(css, "visibility");
  if (visibility === undefined || /^(?:inherit|unset|revert|revert-layer)$/.test(visibility)) return null;
  return visibility === "hidden" || visibility === "collapse";
}

function isMovedAway(transform: string): boolean {
  const moved = /\bmatrix\(([^()]*)/.exec(transform)?.[1]?.split(",").slice(4).map(Number) ?? [];
  if (moved.some((each) => each <= -OFF_SCREEN_PX)) return true;
  return transform.startsWith("translate") && (transform.match(/-\d[\d.]*[a-z%]+/g) ?? []).some(isFar);
}

function isFlattened(transform: string): boolean {
  if (/\bscale(?:[xy]|3d)?\(\s*(?:[\d.]+\s*,\s*)?0(\.0+)?\s*[,)]/.test(transform)) return true;
  const [a = 1, b = 0, c = 0, d = 1] = /\bmatrix\(([^()]*)/.exec(transform)?.[1]?.split(",").map(Number) ?? [];
  return a * d === b * c;
}

/** Whether a length is far outside the screen: to the left or above (for `right` and `bottom`: beyond). */
function isFar(length: string | undefined): boolean {
  if (length === undefined) return false;
  const sum = values.calculated(length);
  if (sum !== null) return sum <= -OFF_SCREEN_PX;
  if (!length.startsWith("-")) return false;
  return /(vw|vh|%)$/.test(length) ? Number.parseFloat(length) <= -100 : values.pixels(length) <= -OFF_SCREEN_PX;
}

function isClipped(css: Declarations): boolean {
  const clip = declared(css, "clip") ?? "";
  // Browsers clip only positioned elements this way, which screen-reader texts are.
  if (/^rect\(/.test(clip) && (clip.match(/[\d.]+/g) ?? ["auto"]).every((edge) => Number(edge) <= 1)) return true;
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

function isNothing(length: string | undefined): boolean {
  const sum = values.calculated(length ?? "");
  if (sum !== null) return sum <= 1;
  return length !== undefined && /^[\d.]/.test(length) && !/(vw|vh|%|em)$/.test(length)
    ? values.pixels(length) <= 1
    : length === "0%" || length === "0em";
}

/** The element's font size in pixels; null: unset, or relative to the parent's. */
export function fontSize(css: Declarations): number | null {
  const value = declared(css, "font-size");
  const zoom = Number.parseFloat(declared(css, "zoom") ?? "");
  if (zoom > 0 && values.share(declared(css, "zoom") ?? "") <= SMALLEST_ZOOM) return 0;
  const sum = values.calculated(value ?? "");
  if (sum !== null) return sum < LEGIBLE_PX ? 0 : null;
  if (value === undefined || !/^[\d.]/.test(value))
    return value === undefined || /^(?:inherit|unset|revert|smaller|larger)/.test(value) ? null : 16;
  const number = Number.parseFloat(value);
  if (number === 0) return 0;
  if (value.endsWith("%")) return number < 15 ? 0 : null;
  if (/[^r]em$/.test(value)) return number < 0.15 ? 0 : null;
  return values.pixels(value);
}

function isIllegible(font_px: number): boolean {
  return font_px < LEGIBLE_PX;
}

/** The element's text colour; null: it inherits one. */
export function textColour(css: Declarations): TextLook["colour"] | null {
  const value = declared(css, "-webkit-text-fill-color") ?? declared(css, "color");
  // The background shows through the letters.
  if (/text/.test(declared(css, "background-clip") ?? "")) return "unknown";
  if (value === undefined || /^(?:inherit|unset|revert|revert-layer|currentcolor)$/.test(value)) return null;
  return values.colourOf(value) ?? "unknown";
}

/** The element's background: a colour, "unknown" for images and unparsed values, or null when it paints none. */
export function backgroundColour(css: Declarations): values.Colour | "unknown" | null {
  const image = declared(css, "background-image");
  const value = declared(css, "background-color");
  if (image !== undefined && image !== "none") return "unknown";
  if (value === undefined) return null;
  if (/url\(|gradient\(|var\(/.test(value)) return "unknown";
  const painted = values.colourOf(value) ?? values.colourOf(values.backgroundParts(value).find(values.colours));
  if (painted === "none") return null;
  return painted ?? "unknown";
}

/** The colour in an attribute such as `bgcolor`; null: none, or not a known one. */
export function attributeColour(value: string | undefined): values.Colour | null {
  if (value === undefined) return null;
  const colour = backgroundColour(parseDeclarations(`background-color:${value.replaceAll(";", " ")}`));
  return colour === "unknown" ? null : colour;
}

function isSameColour(text: values.Colour, background: values.Colour): boolean {
  return text.every((channel, index) => Math.abs(channel - (background[index] ?? 0)) <= SAME_COLOUR);
}
