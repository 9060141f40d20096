import { unescaped } from "./declarations.ts";

/** A selector without combinators, such as `p.note[lang]:not(.a):nth-child(2)`. Case counts as browsers say. */
export interface Compound {
  /** Lower case; "" is any. */
  readonly name: string;
  readonly ids: readonly string[];
  readonly classes: readonly string[];
  readonly attributes: readonly AttributeTest[];
  readonly places: readonly Place[];
  /** The element must match none of these. */
  readonly excluded: readonly Compound[];
  readonly specificity: number;
}

/** Places among siblings: `step` times 0, 1, 2, …, plus `first`. */
export interface Place {
  readonly step: number;
  readonly first: number;
  /** Whether only siblings of the same name count. */
  readonly of_type: boolean;
}

interface AttributeTest {
  readonly name: string;
  readonly operator: string;
  readonly value: string;
  readonly ignores_case: boolean;
}

/** What selectors read of an element. */
export interface Selectable {
  readonly name: string;
  readonly classes: ReadonlySet<string>;
  readonly attributes: ReadonlyMap<string, string>;
  /** Its place among its siblings, from 1. */
  readonly place: number;
  /** Its place among its siblings of the same name, from 1. */
  readonly place_of_type: number;
}

/** Longer selectors are not read. */
const MAX_SELECTOR = 1_000;
const IDENT = "(?:[\\w\\u0080-\\uffff-]|\\\\[0-9a-f]{1,6}\\s?|\\\\[^\\n])+";
const STRING = "\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'";
const PART = new RegExp(
  `(?<type>\\*|${IDENT})|\\.(?<class>${IDENT})|#(?<id>${IDENT})|` +
    `\\[\\s*(?<attribute>${IDENT})\\s*(?:(?<operator>[~|^$*]?=)\\s*(?<value>${IDENT}|${STRING})\\s*(?<flag>[is])?\\s*)?\\]|` +
    ":(?<pseudo>not|is|where|matches|-webkit-any)\\(\\s*(?<inner>(?:[^()]|\\([^()]*\\))*)\\)|" +
    ":(?:(?<first>first-(?:child|of-type))(?![\\w(-])|(?<nth>nth-(?:child|of-type))\\((?<formula>[^()]*)\\))",
  "iy",
);
/** Ancestors that every element has. */
const EVERYWHERE = /^(?:(?:html|:root|body|\*)(?:\s+|\s*>\s*(?=body\b)))+(?=[\w.#[*:-])/i;
/** Attributes whose values have no case in HTML. */
const CASELESS = new Set(
  "align checked dir disabled hidden lang media method rel rev selected shape type valign".split(" "),
);

/** Between an ancestor or parent and the rest of a selector. */
const COMBINATOR = /\s*[>+~]\s*|\s+/y;
/** `:root` is the element html. */
const ROOT = /(^|[\s>]):root\b/gi;
/** States that no element has before a person does something: `.a:not(:hover)`. */
const AT_REST = /:not\(\s*:(?:hover|active|focus|focus-visible|focus-within|target|fullscreen|modal)\s*\)/gi;
/** The same weight, for a class that no element can have: a space. */
const NO_CLASS = ":not(.\\20 )";
/** Selectors with more parts are not read. */
const MAX_PARTS = 16;

/** What an element is to the one of the part before: `a b`, `a > b`, `a + b`, `a ~ b`. */
export type Relation = "descendant" | "child" | "next" | "later";
const RELATIONS: Readonly<Record<string, Relation>> = { ">": "child", "+": "next", "~": "later" };

/** A compound of a selector with combinators. */
export interface Part {
  readonly compound: Compound;
  readonly relation: Relation;
}

/**
 * The parts of one selector, from the outermost ancestor to the element itself. Null: states, and places counted
 * from the end, are not read, so it is not known what matches.
 */
export function partsOf(selector: string): readonly [...Part[], Part] | null {
  if (selector.length > MAX_SELECTOR) return null;
  const text = selector.trim().replace(EVERYWHERE, "").replace(ROOT, "$1html").replace(AT_REST, NO_CLASS);
  const parts: Part[] = [];
  const simple = new RegExp(PART);
  const combinator = new RegExp(COMBINATOR);
  let found = emptyCompound();
  let from = 0;
  let relation: Relation = "descendant";
  while (simple.lastIndex < text.length) {
    const at = simple.lastIndex;
    const groups = simple.exec(text)?.groups;
    if (groups !== undefined) {
      if (!add(found, groups, at - from)) return null;
      continue;
    }
    combinator.lastIndex = at;
    const between = combinator.exec(text)?.[0];
    if (between === undefined || at === from || parts.length >= MAX_PARTS) return null;
    parts.push({ compound: found, relation });
    relation = RELATIONS[between.trim()] ?? "descendant";
    found = emptyCompound();
    from = combinator.lastIndex;
    simple.lastIndex = from;
  }
  return from === text.length ? null : [...parts, { compound: found, relation }];
}

const emptyCompound = (): Writable => ({
  name: "",
  ids: [],
  classes: [],
  attributes: [],
  places: [],
  excluded: [],
  specificity: 0,
});

/** Reads a selector without combinators; null for others. */
function compoundOf(selector: string): Compound | null {
  const parts = partsOf(selector);
  return parts?.length === 1 ? parts[0].compound : null;
}

type Writable = {
  -readonly [Key in keyof Compound]: Compound[Key] extends readonly (infer Item)[] ? Item[] : Compound[Key];
};

function add(found: Writable, groups: Record<string, string | undefined>, at: number): boolean {
  const { type, id, attribute, operator = "", value = "", flag } = groups;
  if (type !== undefined) {
    if (at > 0) return false;
    found.name = type === "*" ? "" : unescaped(type).toLowerCase();
    found.specificity += type === "*" ? 0 : 1;
  } else if (groups.class !== undefined) {
    found.classes.push(unescaped(groups.class));
    found.specificity += CLASS;
  } else if (id !== undefined) {
    found.ids.push(unescaped(id));
    found.specificity += ID;
  } else if (attribute !== undefined) {
    const name = unescaped(attribute).toLowerCase();
    const plain = unescaped(/^["']/.test(value) ? value.slice(1, -1) : value);
    const ignores_case = flag?.toLowerCase() === "i" || CASELESS.has(name);
    found.attributes.push({ name, operator, value: ignores_case ? plain.toLowerCase() : plain, ignores_case });
    found.specificity += CLASS;
  } else if (groups.pseudo !== undefined) return addInner(found, groups);
  else return addPlace(found, groups);
  return true;
}

const FORMULA = /^\s*(?:([+-]?\d{0,6})n\s*(?:([+-])\s*(\d{1,6}))?|([+-]?\d{1,6}))\s*$/i;

function addPlace(found: Writable, { first, nth, formula = "" }: Record<string, string | undefined>): boolean {
  const written = first === undefined ? formula.replace(/even/i, "2n").replace(/odd/i, "2n+1") : "1";
  const [all, step, sign = "+", offset = "0", only] = FORMULA.exec(written) ?? [];
  if (all === undefined) return false;
  found.places.push({
    step: step === undefined ? 0 : /\d/.test(step) ? Number(step) : Number(`${step}1`),
    first: Number(only ?? sign + offset),
    of_type: (first ?? nth ?? "").toLowerCase().endsWith("type"),
  });
  found.specificity += CLASS;
  return true;
}

/** `:not(:is(.a, .b))` is `:not(.a, .b)`. */
const INNER_CHOICE = /^\s*:(?:is|matches|-webkit-any)\(([^()]*)\)\s*$/i;
const CLASS = 1_000;
const ID = 1_000_000;

function addInner(found: Writable, { pseudo = "", inner = "" }: Record<string, string | undefined>): boolean {
  const lists = selectorsIn(inner.replace(INNER_CHOICE, "$1")).map(compoundOf);
  const known = lists.filter((each) => each !== null);
  const [only] = known;
  if (only === undefined || known.length < lists.length) return false;
  if (pseudo.toLowerCase() === "not") {
    found.excluded.push(...known);
    found.specificity += Math.max(...known.map((each) => each.specificity));
    return true;
  }
  // Several names cannot be merged into one selector.
  if (known.length > 1 || (only.name !== "" && found.name !== "" && only.name !== found.name)) return false;
  found.name ||= only.name;
  found.ids.push(...only.ids);
  found.classes.push(...only.classes);
  found.attributes.push(...only.attributes);
  found.places.push(...only.places);
  found.excluded.push(...only.excluded);
  found.specificity += pseudo.toLowerCase() === "where" ? 0 : only.specificity;
  return true;
}

/** Whether the element matches. */
export function matches(element: Selectable, compound: Compound): boolean {
  const { name, ids, classes, attributes, places, excluded } = compound;
  return (
    (name === "" || name === element.name) &&
    ids.every((id) => element.attributes.get("id") === id) &&
    classes.every((each) => element.classes.has(each)) &&
    attributes.every((test) => passes(element.attributes.get(test.name), test)) &&
    places.every((each) => isAt(each.of_type ? element.place_of_type : element.place, each)) &&
    !excluded.some((each) => matches(element, each))
  );
}

/** Whether `place` is one of these. */
export function isAt(place: number, { step, first }: Place): boolean {
  const past = place - first;
  return step === 0 ? past === 0 : past % step === 0 && past / step >= 0;
}

function passes(written: string | undefined, { operator, value, ignores_case }: AttributeTest): boolean {
  if (written === undefined) return false;
  const has = ignores_case ? written.toLowerCase() : written;
  switch (operator) {
    case "":
      return true;
    case "=":
      return has === value;
    case "~=":
      return value !== "" && has.split(/\s+/).includes(value);
    case "|=":
      return has === value || has.startsWith(`${value}-`);
    case "^=":
      return value !== "" && has.startsWith(value);
    case "$=":
      return value !== "" && has.endsWith(value);
    default:
      return value !== "" && has.includes(value);
  }
}

/** A choice between several selectors: `:is(.a, .b)`. */
const CHOICE = /:(?:is|where|matches|-webkit-any)\(([^()]*,[^()]*)\)/gi;
const MAX_CHOICES = 64;

/** The selectors that one with choices stands for: `:is(.a, .b) p` is `:is(.a) p` and `:is(.b) p`. */
export function choicesOf(selector: string): readonly string[] {
  if (selector.length > MAX_SELECTOR) return [selector];
  let all = [selector];
  for (let round = 0; round < MAX_PARTS && all.length < MAX_CHOICES; round++) {
    const split = all.flatMap(withoutFirstChoice);
    if (split.length === all.length) break;
    all = split;
  }
  return all.length <= MAX_CHOICES ? all : [selector];
}

/** A choice in `:not()` stays: the element must match none of it. */
function withoutFirstChoice(selector: string): readonly string[] {
  for (const { 0: choice, 1: list = "", index } of selector.matchAll(CHOICE)) {
    const before = selector.slice(0, index);
    if (before.split("(").length !== before.split(")").length) continue;
    const after = selector.slice(index + choice.length);
    return list.split(",").map((one) => before + choice.replace(list, () => one) + after);
  }
  return [selector];
}

/** Splits a list of selectors at its commas, not at those in brackets or strings. */
export function selectorsIn(list: string): string[] {
  if (!/[([\\"']/.test(list)) return list.split(",");
  const found: string[] = [];
  let depth = 0;
  let quote = "";
  let from = 0;
  for (let at = 0; at < list.length; at++) {
    const char = list.charAt(at);
    if (char === "\\") at++;
    else if (quote !== "") quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === "(" || char === "[") depth++;
    else if (char === ")" || char === "]") depth--;
    else if (char === "," && depth === 0) {
      found.push(list.slice(from, at));
      from = at + 1;
    }
  }
  return [...found, list.slice(from)];
}

const PSEUDO = /::?([\w-]+)/g;
/** Browsers ignore a rule if they do not know one of its selectors. These they know. */
const KNOWN_PSEUDO = new Set(
  (
    "active after any-link backdrop before checked default defined dir disabled empty enabled file-selector-button " +
    "first-child first-letter first-line first-of-type focus focus-visible focus-within fullscreen has hover " +
    "in-range indeterminate invalid is lang last-child last-of-type link marker modal not nth-child nth-last-child " +
    "nth-last-of-type nth-of-type only-child only-of-type optional out-of-range placeholder placeholder-shown " +
    "popover-open read-only read-write required root selection target user-invalid user-valid valid visited where"
  ).split(" "),
);

/** Whether browsers certainly know the selector. */
export function isCertain(selector: string): boolean {
  const text = selector.trim();
  if (text === "" || text.length > MAX_SELECTOR) return false;
  const names = [...text.matchAll(PSEUDO)].map(([, name = ""]) => name.toLowerCase());
  return /^[\w\s.#:()[\]="'~|^$*+>&,\\\u0080-\uffff-]+$/.test(text) && names.every((name) => KNOWN_PSEUDO.has(name));
}
