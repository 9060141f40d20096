import { bidi, type Direction } from "./bidi.ts";
import {
  cascade,
  customProperties,
  type Declarations,
  declarationsOf,
  declarationTexts,
  NOTHING_DECLARED,
  resolved,
} from "./declarations.ts";
import { attributeOf, type Element, nameOf } from "./page-tree.ts";
import type { StyleSheet } from "./style-sheet.ts";
import { createVariables, type Variables } from "./variables.ts";
import {
  attributeColour,
  backgroundColour,
  fontSize,
  inheritedTechniqueOf,
  isInvisible,
  type Subject,
  type TextLook,
  TOO_MANY,
  techniqueOf,
  textColour,
} from "./ways-to-hide.ts";

/** The look that an element passes to its content. */
export interface Look extends TextLook {
  /** The technique that hides it with all its content, or null. */
  readonly hidden_by: string | null;
  /** The technique that hides its own text, or null. */
  readonly technique: string | null;
  readonly direction: Direction;
  /** The direction in which browsers display all its letters, or null. */
  readonly override: Direction | null;
  readonly variables: Variables | null;
}

/** Black on white, unless an external sheet may change the page's colours. */
export function initialLook({ has_foreign_sheet }: { has_foreign_sheet: boolean }): Look {
  return {
    hidden_by: null,
    technique: null,
    invisible: false,
    unpainted: false,
    font_px: 16,
    colour: [0, 0, 0],
    background: has_foreign_sheet ? "unknown" : [255, 255, 255],
    direction: "ltr",
    override: null,
    variables: null,
  };
}

/** The same look for content that is hidden with all that is in it. */
export function hiddenLook(look: Look, technique: string): Look {
  return { ...look, hidden_by: look.hidden_by ?? technique, technique: look.hidden_by ?? technique };
}

/** The look that an element sets itself; null fields are inherited. */
interface OwnLook {
  readonly hidden_by: string | null;
  readonly invisible: boolean | null;
  readonly unpainted: boolean | null;
  readonly font_px: number | null;
  readonly colour: TextLook["colour"] | null;
  readonly background: TextLook["background"] | null;
  readonly direction: Direction | null;
  /** Whether it displays all letters in its direction; false ends an override around it. */
  readonly overrides_bidi: boolean | null;
}

interface Styled {
  readonly own: OwnLook | null;
  readonly variables: Variables | null;
}

/** The most attributes that are read per element. */
const MAX_ATTRIBUTES = 256;
/** SVG elements with text in them. Their attributes may hide it, as declarations do. */
const SVG = new Set(["svg", "g", "text", "tspan", "textpath", "foreignobject"]);
const SVG_ATTRIBUTES = ["display", "visibility", "opacity", "fill", "fill-opacity", "font-size"];
/** What the look of an element depends on besides its rules. */
const LOOK_ATTRIBUTES = new Set(
  [
    "class",
    "style",
    "hidden",
    "bgcolor",
    "color",
    "open",
    "dir",
    "popover",
    "text",
    "label",
    "aria-hidden",
    "role",
  ].concat(SVG_ATTRIBUTES),
);
/** Elements whose look differs from their surroundings without any attribute. */
const STYLED = new Set(["bdi", "output", "svg", "text", "foreignobject"]);
const COLOUR_ATTRIBUTE: Readonly<Record<string, string>> = { font: "color", body: "text" };

/** The looks of elements. Equal elements share one, because a page may repeat an element a million times. */
export function createLooks() {
  const variables = createVariables();
  const known = new Map<Variables | null, Map<string, Styled>>();
  const merged = new Map<Styled, { outer: Look; look: Look }>();
  const names = new Map<string, boolean>();

  /** Whether elements of this name look like their surroundings without any attribute. */
  const isPlain = (name: string) =>
    names.getOrInsertComputed(name, () => {
      const technique = techniqueOf({ name, attribute: () => undefined, css: NOTHING_DECLARED });
      return technique === null && !STYLED.has(name);
    });

  return function lookOf(element: Element, outer: Look, sheet: StyleSheet): Look {
    if (outer.hidden_by !== null) return outer;
    const name = nameOf(element);
    const matched = sheet.match(element);
    const attributes = attributesKey(element);
    if (matched.key === "" && attributes === "" && isPlain(name)) return outer;
    const key = `${name}\0${matched.key}${attributes}`;
    const kinds = known.getOrInsertComputed(outer.variables, () => new Map<string, Styled>());
    const styled = kinds.getOrInsertComputed(key, () => styledOf(element, name));
    const last = merged.get(styled);
    if (last?.outer === outer) return last.look;
    const look = within(styled, outer);
    merged.set(styled, { outer, look });
    return look;

    function styledOf(element: Element, name: string): Styled {
      const style = attributeOf(element, "style");
      const written = style === undefined ? [] : declarationTexts(style);
      const customs = new Map([...matched.customs, ...customProperties(written)]);
      const inner = customs.size === 0 ? outer.variables : variables.within(outer.variables, customs);
      const block = cascade([svgDeclarations(element, name), matched.declarations, declarationsOf(written)]);
      const css = resolved(block, (variable) => variables.lookUp(inner, variable));
      return { own: ownLook({ name, attribute: readerOf(element), css }), variables: inner };
    }
  };
}

/** The attributes that make two elements with the same rules look different. */
function attributesKey({ attrs }: Element): string {
  if (attrs.length > MAX_ATTRIBUTES) return TOO_MANY;
  let key = "";
  for (const { name, value } of attrs) if (LOOK_ATTRIBUTES.has(name)) key += `\0${name}=${value}`;
  return key;
}

function readerOf(element: Element): Subject["attribute"] {
  if (element.attrs.length > MAX_ATTRIBUTES) return (name) => (name === TOO_MANY ? "" : attributeOf(element, name));
  return (name) => attributeOf(element, name);
}

function ownLook(element: Subject): OwnLook | null {
  const { name, attribute, css } = element;
  const own: OwnLook = {
    hidden_by: techniqueOf(element),
    invisible: isInvisible(css),
    unpainted: name === "svg" ? true : name === "text" || name === "foreignobject" ? false : null,
    font_px: fontSize(css),
    colour: textColour(css) ?? attributeColour(attribute(COLOUR_ATTRIBUTE[name] ?? "")),
    background: backgroundColour(css) ?? attributeColour(attribute("bgcolor")),
    ...bidi(css, { name, dir: attribute("dir")?.toLowerCase() }),
  };
  // Ignored for html and body: such pages hide themselves until their scripts or sheets have come.
  if (name === "html" || name === "body") return { ...own, hidden_by: null, invisible: null };
  return Object.values(own).every((each) => each === null) ? null : own;
}

function within({ own, variables }: Styled, outer: Look): Look {
  if (own === null) return variables === outer.variables ? outer : { ...outer, variables };
  const direction = own.direction ?? outer.direction;
  const look = {
    hidden_by: own.hidden_by,
    invisible: own.invisible ?? outer.invisible,
    unpainted: own.unpainted ?? outer.unpainted,
    font_px: own.font_px ?? outer.font_px,
    colour: own.colour ?? outer.colour,
    background: own.background ?? outer.background,
    direction,
    override: own.overrides_bidi === null ? outer.override : own.overrides_bidi ? direction : null,
    variables,
  };
  return { ...look, technique: look.hidden_by ?? inheritedTechniqueOf(look) };
}

function svgDeclarations(element: Element, name: string): Declarations {
  if (!SVG.has(name)) return NOTHING_DECLARED;
  const written = element.attrs.filter((each) => SVG_ATTRIBUTES.includes(each.name));
  return declarationsOf(written.map((each) => `${each.name}:${each.value}`));
}
