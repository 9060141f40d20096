import { _compileUnsafe as compileSelector, type Options } from "css-select";
import type { Selector } from "css-what";
import { type CssPiece, cssPieces } from "./css-pieces.ts";
import {
  customProperties,
  type Declarations,
  declarationsOf,
  isSupported,
  NOTHING_DECLARED,
  PLACES,
  parseDeclarations,
} from "./declarations.ts";
import { attributeOf, type Element, isElement, nameOf, type PageNode, type Parent } from "./page-tree.ts";
import {
  ancestorKeysOf,
  type Check,
  closingBracket,
  createSelectorReader,
  keysOf,
  type Places,
  type ReadSelector,
  type SelectorList,
  selectorsIn,
} from "./selectors.ts";
import { hidesAlone } from "./ways-to-hide.ts";

/** The style of an element by the sheet. Rules win as in browsers. Their `var()` are not replaced. */
export interface Matched {
  readonly declarations: Declarations;
  readonly customs: ReadonlyMap<string, string>;
  /** The same for elements that the same rules match. */
  readonly key: string;
}

/** The rules of the `<style>` elements of a page or of a shadow root. */
export interface StyleSheet {
  match(element: Element): Matched;
}

/** A sheet's text. */
export interface SheetSource {
  readonly css: string;
  readonly media: string;
}

/** The declarations of one selector. */
interface Rule {
  readonly selector: ReadSelector;
  readonly keys: readonly string[];
  /** By place in `Declarations`, or by the name of a custom property: a large sheet has a hundred thousand rules. */
  readonly declared: Map<number | string, { readonly value: string; readonly rank: Rank }>;
}

interface IndexedRule extends Rule {
  /** Unique on the page. */
  readonly id: number;
  /** Made when an element may match. */
  matches?: Check;
}

/** The rules whose last part has the same id, class or name. */
interface Candidates {
  readonly anywhere: IndexedRule[];
  /** By an ancestor that they need: a rule for `.card p` need not look at paragraphs outside cards. */
  readonly within: Map<number, IndexedRule[]>;
}

/** The higher one wins: first by layer, then by specificity, then the later one. */
type Rank = readonly [layer: number, specificity: number, order: number];

const MEDIA = /^@media\b(.*)$/is;
const SUPPORTS = /^@supports\b(.*)$/is;
const LAYER = /^@layer\b\s*(.*)$/is;
/** A media query that every screen fulfils: its kind, or a width that none falls below or exceeds. */
const ANY_SCREEN =
  /^(?:(?:only\s+)?(?:screen|all)|not\s+print)?(?:(?:^|\s+and\s+)\((?:min-(?:width|height):\s*(?:[012]?\d?\d(?:\.\d+)?px|(?:1?\d(?:\.\d+)?|20)r?em|0)|max-(?:width|height):\s*(?:\d{5,}px|\d{4,}r?em))\s*\))*$/i;

/** The steps that selectors may take on a page: the first ones, and as many per element. Beyond, elements are hidden. */
const FIRST_STEPS = 1_000_000;
const STEPS_PER_ELEMENT = 10;
/** What it costs to look for the rules that need an ancestor. */
const LOOK = 0.1;
/** A rule within rules is read up to this length of its selectors. */
const MAX_NESTED = 1_000;
const UNLAYERED = Number.MAX_SAFE_INTEGER;
const NOTHING_MATCHED: Matched = { declarations: NOTHING_DECLARED, customs: new Map(), key: "" };
const HIDDEN: Matched = { ...NOTHING_MATCHED, declarations: parseDeclarations("display:none!important"), key: "-" };

class StepsError extends Error {}

/** What all sheets of a page share. */
export function createStyles({ is_quirky }: { is_quirky: boolean }) {
  let steps = FIRST_STEPS;
  let is_exhausted = false;
  let count = 0;
  const step = (cost = 1) => {
    steps -= cost;
    if (steps <= 0) throw new StepsError();
  };
  const tree = createTreeReader(step);
  const reader = createSelectorReader(tree.places, (tokens) => compiled(tokens));
  const pseudos = {
    check: (element: Element, index?: string | null) => reader.checks[Number(index)]?.(element) === true,
  };
  const options = { adapter: tree.adapter, pseudos, quirksMode: is_quirky };
  const compiled = (tokens: Selector[][]): Check => compileSelector<PageNode | Parent, Element>(tokens, options);
  const ancestors = createAncestors();
  const fold = (key: string) => (is_quirky ? key.toLowerCase() : key);

  function readSheets(sources: readonly SheetSource[]): StyleSheet {
    const index = new Map<string, Candidates>();
    const rules = rulesOf(sources, reader.read);
    if (rules.size === 0) return { match: () => NOTHING_MATCHED };
    for (const rule of rules.values()) {
      const indexed = { ...rule, id: count++ };
      // An id or a class around is rarer than a name.
      const around = ancestorKeysOf(rule.selector.tokens).toSorted()[0];
      for (const key of new Set(rule.keys.map(fold))) {
        const candidates = index.getOrInsertComputed(key, (): Candidates => ({ anywhere: [], within: new Map() }));
        if (around === undefined) candidates.anywhere.push(indexed);
        else
          candidates.within
            .getOrInsertComputed(ancestors.numberOf(fold(around)), (): IndexedRule[] => [])
            .push(indexed);
      }
    }
    const known = new Map<string, Matched>();

    function match(element: Element): Matched {
      if (is_exhausted) return HIDDEN;
      steps += STEPS_PER_ELEMENT;
      const found = new Set<IndexedRule>();
      const tryRules = (rules: readonly IndexedRule[]) => {
        for (const rule of rules) {
          step();
          rule.matches ??= compiled([rule.selector.tokens]);
          if (rule.matches(element)) found.add(rule);
        }
      };
      const tryKey = (key: string) => {
        const candidates = index.get(fold(key));
        if (candidates === undefined) return;
        tryRules(candidates.anywhere);
        if (candidates.within.size === 0) return;
        for (const number of ancestors.around(element, fold)) {
          step(LOOK);
          tryRules(candidates.within.get(number) ?? []);
        }
      };
      try {
        tryKey("*");
        for (const key of keysOfElement(element)) tryKey(key);
      } catch (error) {
        if (!(error instanceof StepsError)) throw error;
        is_exhausted = true;
        return HIDDEN;
      }
      if (found.size === 0) return NOTHING_MATCHED;
      const key = Array.from(found, ({ id }) => id).join();
      return known.getOrInsertComputed(key, () => ({ ...strongest(found), key }));
    }
    return { match };
  }
  return { readSheets };
}

/** The numbers for ids, classes and names that rules need around an element. With more of them, some share one. */
const MAX_NUMBERS = 256;

/** The numbers that are around an element. Shared, because most elements add none. */
function createAncestors() {
  const numbers = new Map<string, number>();
  const known = new Map<Parent | null, ReadonlySet<number>>();

  function around(element: Element, fold: (key: string) => string): ReadonlySet<number> {
    const path: Element[] = [];
    let at = element.parentNode;
    for (; isElement(at) && !known.has(at); at = at.parentNode) path.push(at);
    let found = known.get(at) ?? new Set();
    for (const each of path.reverse()) {
      const own = Array.from(keysOfElement(each), (key) => numbers.get(fold(key)) ?? -1);
      const added = own.filter((number) => number >= 0 && !found.has(number));
      if (added.length > 0) found = new Set([...found, ...added]);
      known.set(each, found);
    }
    return found;
  }
  return { numberOf: (key: string) => numbers.getOrInsertComputed(key, () => numbers.size % MAX_NUMBERS), around };
}

function* keysOfElement(element: Element): Generator<string> {
  yield nameOf(element);
  for (const { name, value } of element.attrs) {
    if (name === "id") yield `#${value}`;
    else if (name === "class") for (const each of value.split(/\s+/)) yield `.${each}`;
  }
}

/** How css-select reads the tree. Each step costs. */
function createTreeReader(step: (cost?: number) => void) {
  const known = new Map<Parent, Element[]>();
  const positions = new Map<Element, number>();
  const childrenOf = (parent: Parent | null): Element[] => {
    if (parent === null) return [];
    return known.getOrInsertComputed(parent, () => {
      const children = parent.childNodes.filter(isElement);
      for (const [at, child] of children.entries()) positions.set(child, at);
      return children;
    });
  };
  const counts = new Map<Parent, Map<Check | string, Map<Element, number>>>();

  /** The place among the children of a kind, counted once per parent and kind. */
  const placeOf: Places["placeOf"] = (element, { of_type, from_end, among }) => {
    step();
    const parent = element.parentNode;
    if (parent === null) return 1;
    const kinds = counts.getOrInsertComputed(parent, () => new Map<Check | string, Map<Element, number>>());
    const places = kinds.getOrInsertComputed(among ?? `${of_type} ${from_end}`, () => {
      const found = new Map<Element, number>();
      const last = new Map<string, number>();
      const children = childrenOf(parent);
      for (const child of from_end ? children.toReversed() : children) {
        step();
        if (among !== null && !among(child)) continue;
        const name = of_type ? nameOf(child) : "";
        const place = (last.get(name) ?? 0) + 1;
        last.set(name, place);
        found.set(child, place);
      }
      return found;
    });
    return places.get(element) ?? 0;
  };

  const adapter: Options<PageNode | Parent, Element>["adapter"] = {
    isTag: (node): node is Element => {
      step();
      return isElement(node);
    },
    getAttributeValue: (element, name) => {
      step();
      return attributeOf(element, name);
    },
    hasAttrib: (element, name) => attributeOf(element, name) !== undefined,
    getChildren: (node) => ("childNodes" in node ? node.childNodes : []),
    getName: nameOf,
    getParent: (element) => element.parentNode,
    getSiblings: (node) => childrenOf("parentNode" in node ? node.parentNode : null),
    prevElementSibling: (node) => {
      if (!isElement(node)) return null;
      const siblings = childrenOf(node.parentNode);
      return siblings[(positions.get(node) ?? 0) - 1] ?? null;
    },
    getText: () => "",
    removeSubsets: (nodes) => nodes,
  };
  const places: Places = {
    placeOf,
    isRoot: ({ parentNode }) => parentNode?.nodeName === "#document",
    isEmpty: ({ childNodes }) => childNodes.every(({ nodeName }) => nodeName === "#comment"),
  };
  return { adapter, places };
}

type Read = (list: string) => SelectorList | null;

/** The rules that can hide something, by their selectors. */
function rulesOf(sources: readonly SheetSource[], readList: Read): ReadonlyMap<string, Rule> {
  const rules = new Map<string, Rule>();
  const lists = new Map<string, SelectorList | null>();
  const read: Read = (selectors) => lists.getOrInsertComputed(selectors, () => readList(selectors));
  const layers = new Map<string, number>();
  let order = 0;
  for (const { css, media } of sources) {
    if (!holdsOnScreens(media)) continue;
    for (const { selectors, declarations, layer, is_certain } of blocks(css, { layers, read })) {
      const block = declarationsOf(declarations);
      const customs = customProperties(declarations);
      if (block === NOTHING_DECLARED && customs.size === 0) continue;
      const list = read(selectors);
      if (list === null || (!(is_certain && list.is_certain) && !hidesAlone(block))) continue;
      order++;
      const declared = [
        ...block.flatMap((value, place) => (value === undefined ? [] : [[place, value] as const])),
        ...customs,
      ];
      for (const selector of list.selectors) addRule(rules, selector, { declared, order, layer });
    }
  }
  return rules;
}

function addRule(
  rules: Map<string, Rule>,
  selector: ReadSelector,
  {
    declared,
    order,
    layer,
  }: { declared: readonly (readonly [place: number | string, value: string])[]; order: number; layer: number },
): void {
  const key = selector.text;
  let rule = rules.get(key);
  if (rule === undefined) {
    rule = { selector, keys: keysOf(selector.tokens), declared: new Map() };
    rules.set(key, rule);
  }
  for (const [place, value] of declared) {
    // Important declarations win in the other order of layers.
    const is_important = typeof place === "number" && place >= PLACES / 2;
    const rank: Rank = [is_important ? -layer : layer, selector.specificity, order];
    const before = rule.declared.get(place);
    if (before === undefined || !wins(before.rank, rank)) rule.declared.set(place, { value, rank });
  }
}

function wins(one: Rank, other: Rank): boolean {
  const at = one.findIndex((each, nth) => each !== other[nth]);
  return at >= 0 && (one[at] ?? 0) > (other[at] ?? 0);
}

function strongest(rules: Iterable<Rule>): Pick<Matched, "declarations" | "customs"> {
  const found = new Map<number | string, { readonly value: string; readonly rank: Rank }>();
  for (const { declared } of rules) {
    for (const [place, each] of declared) {
      const before = found.get(place);
      if (before === undefined || !wins(before.rank, each.rank)) found.set(place, each);
    }
  }
  const declarations: (string | undefined)[] = new Array(PLACES).fill(undefined);
  const customs = new Map<string, string>();
  for (const [place, { value }] of found) {
    if (typeof place === "number") declarations[place] = value;
    else customs.set(place, value);
  }
  return { declarations, customs };
}

function holdsOnScreens(media: string): boolean {
  return media
    .slice(0, MAX_NESTED)
    .split(",")
    .some((query) => ANY_SCREEN.test(query.trim()));
}

interface Block {
  /** A list of selectors; "" outside rules. */
  readonly selectors: string;
  readonly declarations: string[];
  readonly layer: number;
  /** Whether browsers certainly apply it. Otherwise it only ever hides. */
  readonly is_certain: boolean;
}

interface Known {
  readonly layers: Map<string, number>;
  readonly read: Read;
}

/** Yields the rules in order, including those inside a screen's at-rule or another rule. */
function* blocks(css: string, known: Known): Generator<Block> {
  const open: (Block | null)[] = [];
  const outermost: Block = { selectors: "", declarations: [], layer: UNLAYERED, is_certain: true };
  for (const { type, text } of cssPieces(css, { in_block: false })) {
    const block = open.length === 0 ? outermost : open.at(-1);
    if (type === "declaration" && open.length === 0) {
      const names = LAYER.exec(text.trim())?.[1]?.split(",") ?? [];
      for (const name of names) layerOf(name, known.layers);
    } else if (type === "declaration") block?.declarations.push(text);
    if (type === "declaration" || block === undefined) continue;
    if (block !== null && block.selectors !== "" && block.declarations.length > 0) {
      yield { ...block, declarations: block.declarations.splice(0) };
    }
    if (type === "close") open.pop();
    else open.push(block === null ? null : inner(block, text, known));
  }
  for (const block of open) if (block !== null && block.selectors !== "") yield block;
}

/** The block that `prelude` opens, or null when nothing of it applies. */
function inner(outer: Block, prelude: CssPiece["text"], { layers, read }: Known): Block | null {
  const text = prelude.replace(/^(?:\s|<!--|-->|\/\*\*\/)+/, "").trim();
  const [, media] = MEDIA.exec(text) ?? [];
  if (media !== undefined) return holdsOnScreens(media.replaceAll("/**/", " ")) ? { ...outer, declarations: [] } : null;
  const [, condition] = SUPPORTS.exec(text) ?? [];
  if (condition !== undefined) {
    const holds = supports(condition.replaceAll("/**/", " ").slice(0, MAX_NESTED), read);
    return holds === false ? null : { ...outer, declarations: [], is_certain: outer.is_certain && holds === true };
  }
  const [, layer] = LAYER.exec(text) ?? [];
  if (layer !== undefined) {
    // A layer in a layer is ordered as the outer one.
    const own = outer.layer === UNLAYERED ? layerOf(layer, layers) : outer.layer;
    return { ...outer, declarations: [], layer: own };
  }
  if (text.startsWith("@")) return null;
  if (outer.selectors === "") return text === "" ? null : { ...outer, selectors: text, declarations: [] };
  const selectors = read(outer.selectors) === null ? null : nest(text, outer.selectors);
  return selectors === null ? null : { ...outer, selectors, declarations: [] };
}

/** The number of a layer in the order of their first names. */
function layerOf(name: string, layers: Map<string, number>): number {
  const key = name.trim().split(".")[0] || ` ${layers.size}`;
  const number = layers.get(key) ?? layers.size;
  layers.set(key, number);
  return number;
}

const NESTING = /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|\\[\s\S]|&/g;

/** `&.b` in `.a` is `:is(.a).b`, and `.b` in it is `:is(.a) .b`. Null: it is too long. */
function nest(list: string, outer: string): string | null {
  const parent = `:is(${outer})`;
  const all = selectorsIn(list).map((one) => {
    const replaced = one.replace(NESTING, (found) => (found === "&" ? parent : found));
    return replaced === one || /^\s*[>+~]/.test(one) ? `${parent} ${replaced.trim()}` : replaced;
  });
  const nested = all.join();
  return nested.length <= MAX_NESTED ? nested : null;
}

/** Whether browsers fulfil the condition of `@supports`; null: not known. */
function supports(condition: string, read: Read): boolean | null {
  const parts: (boolean | null | "not" | "and" | "or")[] = [];
  const part = /\s*(?:(not|and|or)\s|([a-z-]*)\()/iy;
  const text = condition.trim();
  while (part.lastIndex < text.length) {
    const found = part.exec(text);
    if (found === null) return false;
    if (found[1] !== undefined) {
      parts.push(found[1].toLowerCase() as "not" | "and" | "or");
      continue;
    }
    const end = closingBracket(text, part.lastIndex);
    if (end < 0) return false;
    parts.push(holds(found[2] ?? "", text.slice(part.lastIndex, end), read));
    part.lastIndex = end + 1;
  }
  const [first, second] = parts;
  if (first === "not")
    return parts.length === 2 && typeof second === "boolean" ? !second : parts.length === 2 ? null : false;
  const [values, between] = [parts.filter((_, at) => at % 2 === 0), new Set(parts.filter((_, at) => at % 2 === 1))];
  const operator = between.has("and") ? "and" : "or";
  if (
    values.length !== parts.length - values.length + 1 ||
    between.size > 1 ||
    (between.size === 1 && !between.has(operator))
  )
    return false;
  // One such part decides; otherwise an unknown part leaves it open.
  const decisive = operator === "or";
  return values.includes(decisive) ? decisive : values.includes(null) ? null : !decisive;
}

function holds(name: string, inner: string, read: Read): boolean | null {
  if (name === "") return /^\s*[\w\\-]+\s*:/.test(inner) ? isSupported(inner) : supports(inner, read);
  if (name.toLowerCase() === "selector") {
    const list = read(inner);
    return list === null || selectorsIn(inner).length > 1 ? false : list.is_certain || null;
  }
  return /^font-(?:tech|format)$/i.test(name) ? null : false;
}
