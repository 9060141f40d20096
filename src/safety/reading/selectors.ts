import { AttributeAction, type Selector, SelectorType } from "css-what";
import { unescaped } from "./declarations.ts";
import type { Element } from "./page-tree.ts";

/**
 * Reads selectors as strictly as browsers do: they drop a whole rule for one invalid selector in its list. The result
 * is css-what's form, which css-select matches.
 */

/** A selector that elements can match. */
export interface ReadSelector {
  readonly text: string;
  readonly tokens: Selector[];
  /** 1,000,000 per id, 1,000 per class, attribute or state, 1 per name. */
  readonly specificity: number;
}

export interface SelectorList {
  /** Without those that match no element at rest, such as `a::before`. */
  readonly selectors: readonly ReadSelector[];
  /** Whether browsers certainly read the list. Selectors that are too long to be checked are left out. */
  readonly is_certain: boolean;
}

/** Answers what css-select does not know. Its index is the data of the pseudo-class `:check` in the result. */
export type Check = (element: Element) => boolean;

/** Where the children of an element's parent stand: among all of them, or among those of its name. */
export interface Places {
  /** From 1. */
  placeOf(element: Element, given: { of_type: boolean; from_end: boolean; among: Check | null }): number;
  isRoot(element: Element): boolean;
  isEmpty(element: Element): boolean;
}

/** Longer selectors are not read. */
const MAX_SELECTOR = 1_000;
const CLASS = 1_000;
const ID = 1_000_000;

const ESCAPE = "\\\\(?:(?:[0-9a-f]{6}|[0-9a-f]{1,5}(?![0-9a-f]))\\s?|[^\\n\\r\\f0-9a-f])";
const IDENT = `(?:--|-?(?:[a-z_\\u0080-\\uffff]|${ESCAPE}))(?:[\\w\\u0080-\\uffff-]|${ESCAPE})*`;
const STRING = "\"(?:[^\"\\\\\\n]|\\\\[\\s\\S])*\"|'(?:[^'\\\\\\n]|\\\\[\\s\\S])*'";
const SIMPLE = new RegExp(
  `(?<namespace>\\*?\\|(?!\\|))?(?<type>\\*|${IDENT})|\\.(?<class>${IDENT})|#(?<id>${IDENT})|` +
    `\\[\\s*(?:\\*?\\|)?(?<attribute>${IDENT})\\s*` +
    `(?:(?<operator>[~|^$*]?=)\\s*(?<value>${IDENT}|${STRING})\\s*(?<flag>[is])?\\s*)?\\]|` +
    `(?<colons>::?)(?<pseudo>${IDENT})(?<opens>\\()?|(?<comment>/\\*\\*/)|(?<nesting>&)`,
  "iy",
);
const COMBINATOR = /\s*([>+~])\s*|\s+/y;
const RELATIONS: Readonly<Record<string, Selector>> = {
  ">": { type: SelectorType.Child },
  "+": { type: SelectorType.Adjacent },
  "~": { type: SelectorType.Sibling },
};
const OPERATORS: Readonly<Record<string, AttributeAction>> = {
  "": AttributeAction.Exists,
  "=": AttributeAction.Equals,
  "~=": AttributeAction.Element,
  "|=": AttributeAction.Hyphen,
  "^=": AttributeAction.Start,
  "$=": AttributeAction.End,
  "*=": AttributeAction.Any,
};
const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

/** States that no element has before a person does something. */
const AT_REST = words(
  "hover active focus focus-visible focus-within target target-current visited fullscreen modal popover-open user-valid " +
    "user-invalid autofill -webkit-autofill -webkit-full-screen picture-in-picture",
);
/** css-select knows these. */
const MATCHED = words("any-link link checked disabled enabled required optional");
/** Browsers know these, but the page's text does not tell which elements they match. */
const UNREAD = words(
  "valid invalid in-range out-of-range indeterminate default read-only read-write placeholder-shown defined host open " +
    "playing paused muted seeking stalled buffering volume-locked active-view-transition -webkit-any-link -webkit-drag " +
    "interest-source interest-target has-slotted xr-overlay",
);
const UNREAD_FUNCTIONS = words("lang dir host-context host state active-view-transition-type");
const PSEUDO_ELEMENTS = words(
  "before after first-letter first-line marker selection placeholder backdrop file-selector-button cue target-text " +
    "spelling-error grammar-error details-content view-transition scroll-marker scroll-marker-group checkmark " +
    "picker-icon column search-text",
);
/** Written with one colon, too. */
const OLD_PSEUDO_ELEMENTS = words("before after first-letter first-line");
const PSEUDO_ELEMENT_FUNCTIONS = words(
  "part slotted highlight cue picker scroll-button view-transition-group view-transition-image-pair " +
    "view-transition-old view-transition-new",
);
const FORMULA =
  /^\s*(?:(?<word>even|odd)|(?<only>[+-]?\d{1,6})|(?<step>[+-]?\d{0,6})n(?:\s*(?<sign>[+-])\s*(?<offset>\d{1,6}))?)\s*$/i;
const FORMULA_OF = /^(.*?)\sof\s(.*)$/is;

/** What may stand at a place of a selector. */
interface Where {
  /** In `:is()`, `:not()` and `:has()`. */
  readonly is_inner: boolean;
  /** Whether it may begin with `>`, `+` or `~`. */
  readonly is_relative: boolean;
  readonly in_has: boolean;
}

interface Read extends Omit<ReadSelector, "text"> {
  /** Browsers know it, but it matches no element at rest, or it is not known which ones. */
  readonly is_unread: boolean;
}

/** Reads lists of selectors, with the checks that their results need. */
export function createSelectorReader(places: Places, compile: (tokens: Selector[][]) => Check) {
  const checks: Check[] = [];
  const registered = (check: Check): Selector => ({
    type: SelectorType.Pseudo,
    name: "check",
    data: String(checks.push(check) - 1),
  });
  const never = registered(() => false);
  const root = registered(places.isRoot);
  const empty = registered(places.isEmpty);

  /** Null: the list is invalid. In a forgiving list, invalid selectors are left out. */
  function readAll(list: readonly string[], where: Where, is_forgiving = false): (Read & ReadSelector)[] | null {
    const found: (Read & ReadSelector)[] = [];
    for (const one of list) {
      const read = readOne(one, where);
      if (read !== null) found.push(read);
      else if (!is_forgiving) return null;
    }
    return found;
  }

  function readOne(selector: string, where: Where): (Read & ReadSelector) | null {
    const text = withoutComments(selector.trim());
    const tokens: Selector[] = [];
    let [specificity, is_unread] = [0, false];
    let [from, is_pseudo_element] = [0, false];
    const simple = new RegExp(SIMPLE);
    const combinator = new RegExp(COMBINATOR);
    const start = where.is_relative ? /^([>+~])\s*/.exec(text) : null;
    if (start !== null) {
      tokens.push({ ...(RELATIONS[start[1] ?? ""] as Selector) });
      from = simple.lastIndex = start[0].length;
    }
    let at = from;
    while (at < text.length) {
      simple.lastIndex = at;
      const groups = simple.exec(text)?.groups;
      if (groups === undefined) {
        combinator.lastIndex = at;
        const found = combinator.exec(text);
        if (found === null || at === from || is_pseudo_element) return null;
        tokens.push({ ...(RELATIONS[found[1] ?? ""] ?? { type: SelectorType.Descendant }) });
        at = from = combinator.lastIndex;
        continue;
      }
      const is_first = at === from;
      at = simple.lastIndex;
      if (groups.comment !== undefined) continue;
      if (groups.type !== undefined && !is_first) return null;
      if (is_pseudo_element && (groups.pseudo === undefined || !mayFollow(groups.pseudo))) return null;
      let inner: string | null = null;
      if (groups.opens !== undefined) {
        const end = closingBracket(text, at);
        if (end < 0) return null;
        inner = text.slice(at, end);
        at = end + 1;
      }
      // Outside a rule, `&` is the page.
      const is_page = groups.nesting !== undefined;
      const plain = is_page ? { tokens: [root], specificity: 0, is_unread: false } : readPlain(groups);
      const read = groups.pseudo === undefined ? plain : readPseudo(groups, inner, where);
      if (read === null) return null;
      is_pseudo_element ||= "is_pseudo_element" in read;
      is_unread ||= read.is_unread;
      specificity += read.specificity;
      tokens.push(...read.tokens);
    }
    return from === text.length ? null : { text, tokens, specificity, is_unread };
  }

  function readPseudo(
    groups: Record<string, string | undefined>,
    inner: string | null,
    where: Where,
  ): (Read & { is_pseudo_element?: true }) | null {
    const name = unescaped(groups.pseudo ?? "").toLowerCase();
    const of = (tokens: Selector[], specificity = CLASS): Read => ({ tokens, specificity, is_unread: false });
    if (groups.colons === "::" || (inner === null && OLD_PSEUDO_ELEMENTS.has(name))) {
      const is_known = (inner === null ? PSEUDO_ELEMENTS : PSEUDO_ELEMENT_FUNCTIONS).has(name);
      // Browsers take any name of this vendor for an element that they may have.
      if ((!is_known && !(inner === null && name.startsWith("-webkit-"))) || where.is_inner) return null;
      return { tokens: [], specificity: 1, is_unread: true, is_pseudo_element: true };
    }
    if (inner === null) {
      if (name === "root" || name === "scope") return of([root]);
      if (name === "empty") return of([empty]);
      if (AT_REST.has(name)) return of([never]);
      if (MATCHED.has(name)) return of([{ type: SelectorType.Pseudo, name, data: null }]);
      const places = PLACES_OF[name];
      if (places !== undefined) return of(places.map((each) => placeCheck({ ...each, step: 0, first: 1 }, null)));
      return UNREAD.has(name) ? { ...of([]), is_unread: true } : null;
    }
    if (name === "is" || name === "where" || name === "not" || name === "has" || name === "-webkit-any")
      return readInner(name, inner, where);
    if (/^nth-(?:last-)?(?:child|of-type)$/.test(name)) return readPlace(name, inner, where);
    return UNREAD_FUNCTIONS.has(name) && /\S/.test(inner) ? { ...of([]), is_unread: true } : null;
  }

  function readInner(name: string, inner: string, where: Where): Read | null {
    const is_has = name === "has";
    if (is_has && where.in_has) return null;
    const is_forgiving = name === "is" || name === "where";
    const inside = { is_inner: true, is_relative: is_has, in_has: is_has || where.in_has };
    const all = readAll(selectorsIn(inner), inside, is_forgiving);
    if (all === null) return null;
    const specificity = name === "where" ? 0 : Math.max(0, ...all.map((each) => each.specificity));
    const known = all.filter(({ is_unread }) => !is_unread);
    // Whether such an element matches is not known if one of the excluded is not.
    if (name === "not" && known.length < all.length) return { tokens: [], specificity, is_unread: true };
    if (known.length === 0) return { tokens: [never], specificity, is_unread: false };
    const data = known.map(({ tokens }) => tokens);
    return {
      tokens: [{ type: SelectorType.Pseudo, name: name === "not" || name === "has" ? name : "is", data }],
      specificity,
      is_unread: false,
    };
  }

  function readPlace(name: string, inner: string, where: Where): Read | null {
    const [, written = inner, list = null] = name.endsWith("child") ? (FORMULA_OF.exec(inner) ?? []) : [];
    const groups = FORMULA.exec(written)?.groups;
    if (groups === undefined) return null;
    const among = list === null ? [] : readAll(selectorsIn(list), { ...where, is_inner: true, is_relative: false });
    if (among === null) return null;
    const specificity = CLASS + Math.max(0, ...among.map((each) => each.specificity));
    if (among.some(({ is_unread }) => is_unread)) return { tokens: [], specificity, is_unread: true };
    const { word, only, step = "", sign = "+", offset = "0" } = groups;
    const formula =
      word !== undefined
        ? { step: 2, first: word.toLowerCase() === "odd" ? 1 : 0 }
        : only !== undefined
          ? { step: 0, first: Number(only) }
          : { step: /\d/.test(step) ? Number(step) : Number(`${step}1`), first: Number(sign + offset) };
    const check = among.length === 0 ? null : compile(among.map(({ tokens }) => tokens));
    const given = { ...formula, of_type: name.endsWith("type"), from_end: name.includes("last") };
    return { tokens: [placeCheck(given, check)], specificity, is_unread: false };
  }

  function placeCheck(
    { step, first, ...given }: { step: number; first: number; of_type: boolean; from_end: boolean },
    among: Check | null,
  ): Selector {
    return registered((element) => {
      if (among?.(element) === false) return false;
      const past = places.placeOf(element, { ...given, among }) - first;
      return step === 0 ? past === 0 : past % step === 0 && past / step >= 0;
    });
  }

  return {
    checks,
    /** Null: browsers drop the rule. */
    read(list: string): SelectorList | null {
      const written = selectorsIn(list);
      const short = written.filter((one) => one.length <= MAX_SELECTOR);
      const all = readAll(short, { is_inner: false, is_relative: false, in_has: false });
      if (all === null) return null;
      const is_certain = short.length === written.length;
      return { selectors: all.filter(({ is_unread }) => !is_unread), is_certain };
    },
  };
}

const FIRST = { of_type: false, from_end: false };
/** The places that have names. */
const PLACES_OF: Readonly<Record<string, readonly { of_type: boolean; from_end: boolean }[]>> = {
  "first-child": [FIRST],
  "last-child": [{ ...FIRST, from_end: true }],
  "only-child": [FIRST, { ...FIRST, from_end: true }],
  "first-of-type": [{ ...FIRST, of_type: true }],
  "last-of-type": [{ of_type: true, from_end: true }],
  "only-of-type": [
    { ...FIRST, of_type: true },
    { of_type: true, from_end: true },
  ],
};

function readPlain(groups: Record<string, string | undefined>): Read | null {
  const { namespace, type, id, attribute, operator = "", value = "", flag } = groups;
  const of = (token: Selector, specificity: number): Read => ({ tokens: [token], specificity, is_unread: false });
  if (type === "*")
    return { ...of({ type: SelectorType.Universal, namespace: null }, 0), is_unread: namespace === "|" };
  if (type !== undefined) {
    const token: Selector = { type: SelectorType.Tag, name: unescaped(type), namespace: null };
    // No element of a page is without a namespace.
    return { ...of(token, 1), is_unread: namespace === "|" };
  }
  if (attribute !== undefined) {
    const plain = unescaped(/^["']/.test(value) ? value.slice(1, -1) : value);
    const ignoreCase = flag === undefined ? null : flag.toLowerCase() === "i";
    const action = OPERATORS[operator] ?? AttributeAction.Exists;
    const name = unescaped(attribute);
    return of({ type: SelectorType.Attribute, name, action, value: plain, namespace: null, ignoreCase }, CLASS);
  }
  const [name, written, action] =
    id === undefined
      ? ["class", groups.class ?? "", AttributeAction.Element]
      : (["id", id, AttributeAction.Equals] as const);
  const token: Selector = {
    type: SelectorType.Attribute,
    name,
    action,
    value: unescaped(written),
    namespace: null,
    ignoreCase: "quirks",
  };
  return of(token, id === undefined ? CLASS : ID);
}

/** After a pseudo-element, browsers read only states. */
function mayFollow(pseudo: string): boolean {
  return AT_REST.has(pseudo.toLowerCase()) || /^(?:marker|-webkit-.*|first-letter)$/i.test(pseudo);
}

/** Comments separate nothing in a selector, but white space beside one does. */
function withoutComments(text: string): string {
  if (!text.includes("/**/")) return text;
  return text.replace(/\s*(?:\/\*\*\/\s*)+/g, (all) => (/\s/.test(all) ? " " : "/**/"));
}

/** The place of the bracket that ends the one before `from`; -1: none. */
export function closingBracket(text: string, from: number): number {
  let depth = 1;
  for (const { 0: char, index } of text.slice(from).matchAll(BRACKETS)) {
    if (char === "(" || char === "[") depth++;
    else if (char === ")" || char === "]") depth--;
    if (depth === 0) return from + index;
  }
  return -1;
}
const BRACKETS = new RegExp(`${STRING}|\\\\[\\s\\S]|[()[\\],]`, "g");

/** Splits a list at its commas, not at those in brackets or strings. */
export function selectorsIn(list: string): string[] {
  if (!/[([\\"']/.test(list)) return list.split(",");
  const found: string[] = [];
  let [depth, from] = [0, 0];
  for (const { 0: char, index } of list.matchAll(BRACKETS)) {
    if (char === "(" || char === "[") depth++;
    else if (char === ")" || char === "]") depth--;
    else if (char === "," && depth === 0) {
      found.push(list.slice(from, index));
      from = index + 1;
    }
  }
  return [...found, list.slice(from)];
}

/** The ids, classes or names of which an element must have one to match; `*`: any element may. */
export function keysOf(tokens: readonly Selector[]): readonly string[] {
  return keysOfCompound(tokens.slice(tokens.findLastIndex(({ type }) => TRAVERSALS.has(type)) + 1));
}

/** For each ancestor that the selector names, its id, class or name. */
export function ancestorKeysOf(tokens: readonly Selector[]): readonly string[] {
  const found: string[] = [];
  let from = 0;
  for (const [at, { type }] of tokens.entries()) {
    if (!TRAVERSALS.has(type)) continue;
    const [key = "*", other] = keysOfCompound(tokens.slice(from, at));
    const is_around = type === SelectorType.Descendant || type === SelectorType.Child;
    if (is_around && key !== "*" && other === undefined) found.push(key);
    from = at + 1;
  }
  return found;
}

function keysOfCompound(compound: readonly Selector[]): readonly string[] {
  let best: readonly string[] = ["*"];
  for (const token of compound) {
    if (token.type === SelectorType.Attribute && token.ignoreCase === "quirks") {
      if (token.name === "id") return [`#${token.value}`];
      best = [`.${token.value}`];
    } else if (best[0] !== "*") continue;
    else if (token.type === SelectorType.Tag) best = [token.name.toLowerCase()];
    else if (token.type === SelectorType.Pseudo && token.name === "is" && Array.isArray(token.data))
      best = token.data.flatMap(keysOf);
  }
  return best.includes("*") ? ["*"] : best;
}
const TRAVERSALS: ReadonlySet<SelectorType> = new Set([
  SelectorType.Descendant,
  SelectorType.Child,
  SelectorType.Adjacent,
  SelectorType.Sibling,
]);
