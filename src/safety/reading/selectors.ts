import { unescaped } from "./declarations.ts";

/** A selector without combinators, such as `p.note[lang]:not(.a)`. Case counts as browsers say. */
export interface Compound {
  /** Lower case; "" is any. */
  readonly name: string;
  readonly ids: readonly string[];
  readonly classes: readonly string[];
  readonly attributes: readonly AttributeTest[];
  /** The element must match none of these. */
  readonly excluded: readonly Compound[];
  readonly specificity: number;
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
}

/** Longer selectors are not read. */
const MAX_SELECTOR = 1_000;
const IDENT = "(?:[\\w\\u0080-\\uffff-]|\\\\[0-9a-f]{1,6}\\s?|\\\\[^\\n])+";
const STRING = "\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'";
const PART = new RegExp(
  `(?<type>\\*|${IDENT})|\\.(?<class>${IDENT})|#(?<id>${IDENT})|` +
    `\\[\\s*(?<attribute>${IDENT})\\s*(?:(?<operator>[~|^$*]?=)\\s*(?<value>${IDENT}|${STRING})\\s*(?<flag>[is])?\\s*)?\\]|` +
    ":(?<pseudo>not|is|where|matches|-webkit-any)\\(\\s*(?<inner>[^()]*)\\)",
  "iy",
);
/** Ancestors that every element has. */
const EVERYWHERE = /^(?:(?:html|:root|body|\*)(?:\s+|\s*>\s*(?=body\b)))+(?=[\w.#[*:-])/i;
/** Attributes whose values have no case in HTML. */
const CASELESS = new Set(
  "align checked dir disabled hidden lang media method rel rev selected shape type valign".split(" "),
);

/** Reads one selector. Null: combinators, states and places need the page's tree, so it is not known what matches. */
export function compoundOf(selector: string): Compound | null {
  const text = selector.length > MAX_SELECTOR ? "" : selector.trim().replace(EVERYWHERE, "");
  if (text === "") return null;
  const found = { name: "", ids: [], classes: [], attributes: [], excluded: [], specificity: 0 } as Writable;
  const part = new RegExp(PART);
  while (part.lastIndex < text.length) {
    const at = part.lastIndex;
    const groups = part.exec(text)?.groups;
    if (groups === undefined || !add(found, groups, at)) return null;
  }
  return found;
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
  } else return addInner(found, groups);
  return true;
}

const CLASS = 1_000;
const ID = 1_000_000;

function addInner(found: Writable, { pseudo = "", inner = "" }: Record<string, string | undefined>): boolean {
  const lists = inner.split(",").map(compoundOf);
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
  found.excluded.push(...only.excluded);
  found.specificity += pseudo.toLowerCase() === "where" ? 0 : only.specificity;
  return true;
}

/** Whether the element matches. */
export function matches(element: Selectable, compound: Compound): boolean {
  const { name, ids, classes, attributes, excluded } = compound;
  return (
    (name === "" || name === element.name) &&
    ids.every((id) => element.attributes.get("id") === id) &&
    classes.every((each) => element.classes.has(each)) &&
    attributes.every((test) => passes(element.attributes.get(test.name), test)) &&
    !excluded.some((each) => matches(element, each))
  );
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
