import { type CssPiece, cssPieces } from "./css-pieces.ts";
import {
  customProperties,
  type Declarations,
  declarationsOf,
  NOTHING_DECLARED,
  PLACES,
  parseDeclarations,
} from "./declarations.ts";
import { hidesAlone } from "./hiding-css.ts";
import type { HtmlToken } from "./html-tokens.ts";
import {
  type Compound,
  choicesOf,
  isCertain,
  matches,
  type Part,
  type Place,
  partsOf,
  type Selectable,
  selectorsIn,
} from "./selectors.ts";
import { type Begun, createSiblings, type Earlier, type Siblings } from "./siblings.ts";
import {
  changedVariables,
  contextWithin,
  emptyContext,
  isBegun,
  keyOf,
  type Rest,
  restOf,
  type StyleContext,
  type Variables,
  variableOf,
} from "./style-context.ts";

/** What ancestors contribute to the style of an element. */
export type Context = StyleContext<Rule>;

/** The style of an element by the sheet. */
export interface Matched {
  /** More specific selectors win, then later rules. Their `var()` are not replaced. */
  readonly declarations: Declarations;
  readonly customs: ReadonlyMap<string, string>;
  /** Selectors whose beginning the element matches, for its children. */
  readonly begun: readonly Rest<Rule>[];
  /** The same for the siblings after it. */
  readonly for_siblings: Begun<Rule>;
}

/** The children of one element until now. */
export type Among = Siblings<Rule>;

/** The rules of a page's own `<style>` elements whose selectors need no states, and nothing that comes later. */
export interface StyleSheet {
  /** @param among the siblings until now, with the element itself */
  match(
    element: { name: string; attributes: ReadonlyMap<string, string> },
    context: Context,
    among: Among | null,
  ): Matched;
  /** Counts siblings; null if no selector reads them. */
  readonly siblings: ReturnType<typeof createSiblings<Rule>> | null;
  /** The value of a custom property. Undefined, too, on a page that has asked too often. */
  variableOf(variables: Variables | null, name: string): string | undefined;
  /** The context of the page's outermost elements: browsers add `html` and `body`. */
  readonly root: Context;
  readonly is_empty: boolean;
  /** The attributes that selectors read. */
  readonly reads: ReadonlySet<string>;
}

/** The declarations of one selector, and the rank of each: a higher one wins. */
interface Rule {
  readonly parts: readonly [...Part[], Part];
  readonly specificity: number;
  /**
   * By place in `Declarations`, or by the name of a custom property. Few places per rule: a large sheet has a hundred
   * thousand rules.
   */
  readonly declared: Map<number | string, { readonly value: string; readonly rank: number }>;
}

/** Rules of the browser's at-rules that hold on every screen. Others (print, a width) are skipped. */
const SCREEN = /^@(?:layer\b|supports\b(?!\s*not\b))/i;
const MEDIA = /^@media\b(.*)$/is;
/** A media query that every screen fulfils: its kind, or a width that none falls below or exceeds. */
const ANY_SCREEN =
  /^(?:(?:only\s+)?(?:screen|all)|not\s+print)?(?:(?:^|\s+and\s+)\((?:min-(?:width|height):\s*(?:[012]?\d?\d(?:\.\d+)?px|(?:1?\d(?:\.\d+)?|20)r?em|0)|max-(?:width|height):\s*(?:\d{5,}px|\d{4,}r?em))\s*\))*$/i;

function holdsOnScreens(at_rule: string): boolean {
  const queries = MEDIA.exec(at_rule)?.[1]?.slice(0, MAX_OUTER_LENGTH).split(",");
  return queries === undefined ? SCREEN.test(at_rule) : queries.some((query) => ANY_SCREEN.test(query.trim()));
}
/** Checks of selectors with several parts: the first ones, and as many per element. Beyond, an element is hidden. */
const FIRST_CHECKS = 100_000;
const CHECKS_PER_TOKEN = 20;
/** The same for the contexts that are looked through for selectors with combinators. */
const FIRST_STEPS = 1_000_000;
const STEPS_PER_TOKEN = 20;
/** The same for custom properties. Beyond, they have no value. */
const FIRST_LOOK_UPS = 100_000;
const LOOK_UPS_PER_TOKEN = 5;
/** Elements within more contexts are hidden. */
const MAX_CONTEXTS = 256;
/** A rule within a rule is read if the outer one has at most this many selectors. */
const MAX_OUTER_SELECTORS = 16;
const MAX_OUTER_LENGTH = 200;
/** The selectors that those with choices (`:is(.a, .b)`) add on a page. */
const MAX_CHOICES = 20_000;
const MAX_SPECIFICITY = 1e9;
const HIDDEN: Matched = {
  declarations: parseDeclarations("display:none!important"),
  customs: new Map(),
  begun: [],
  for_siblings: { next: [], later: [] },
};

/** Reads the sheets of a page in one forward scan. */
export function readStyleSheet(tokens: readonly HtmlToken[]): StyleSheet {
  const rules = rulesOf(tokens);
  const all = [...rules.values()];
  const index = Map.groupBy(
    all.filter(({ parts }) => parts.length === 1),
    ({ parts }) => keyOf(parts[0].compound),
  );
  const chains = all.flatMap((rule) => (rule.parts.length === 1 ? [] : (restOf(rule.parts, rule) ?? [])));
  const starts = Map.groupBy(chains, ({ key }) => key);
  const has_chains = chains.length > 0;
  const reads = new Set(all.flatMap(({ parts }) => parts.flatMap(({ compound }) => attributesOf(compound))));
  let checks = FIRST_CHECKS + CHECKS_PER_TOKEN * tokens.length;
  let steps = FIRST_STEPS + STEPS_PER_TOKEN * tokens.length;

  const places = all.flatMap(({ parts }) => parts.flatMap(({ compound }) => placesOf(compound)));
  const reads_siblings = places.length > 0 || chains.some(({ next }) => readsSiblings(next));

  /** The chains whose next part has this key. */
  function* chainsFor(key: string, context: Context, among: Among | null): Generator<Rest<Rule>> {
    steps -= context.depth + (among?.later.depth ?? 0) + 1;
    yield* starts.get(key) ?? [];
    yield* context.for_children?.get(key) ?? [];
    for (let at: Context | null = context; at !== null; at = at.outer) yield* at.begun.get(key) ?? [];
    yield* among?.next.begun.get(key) ?? [];
    for (let at: Earlier<Rule> | null = among?.later ?? null; at !== null; at = at.outer)
      yield* at.begun.get(key) ?? [];
  }

  /** Whether the elements around or before this one have begun the selector already. */
  function isKnown(next: Rest<Rule>, context: Context, among: Among | null): boolean {
    if (next.relation === "descendant") return isBegun(context, next);
    return next.relation === "later" && among !== null && isBegun(among.later, next);
  }

  function match(
    { name, attributes }: Pick<Selectable, "name" | "attributes">,
    context: Context,
    among: Among | null,
  ): Matched {
    const classes = new Set((attributes.get("class") ?? "").split(/\s+/));
    const place = among?.count ?? (name === "body" ? 2 : 1);
    const element = { name, classes, attributes, place, place_of_type: among?.of_type.get(name) ?? 1 };
    const keys = ["*", name, `#${attributes.get("id") ?? ""}`, ...[...classes].map((each) => `.${each}`)];
    const found: Rule[] = [];
    const begun = new Set<Rest<Rule>>();
    for (const key of keys) {
      for (const rule of index.get(key) ?? []) {
        const { compound } = rule.parts[0];
        if (!isSimple(compound) && checks-- <= 0) return HIDDEN;
        if (matches(element, compound)) found.push(rule);
      }
      if (!has_chains) continue;
      for (const { compound, next, rule } of chainsFor(key, context, among)) {
        if (steps-- <= 0) return HIDDEN;
        if (!matches(element, compound)) continue;
        if (next === null) found.push(rule);
        else if (!isKnown(next, context, among)) begun.add(next);
      }
    }
    const depth = Math.max(context.depth, among?.later.depth ?? 0);
    steps -= begun.size * depth;
    if (begun.size > 0 && (steps <= 0 || depth > MAX_CONTEXTS)) return HIDDEN;
    return { ...strongest(found), ...byRelation([...begun]) };
  }

  let look_ups = FIRST_LOOK_UPS + LOOK_UPS_PER_TOKEN * tokens.length;
  const lookUp = (variables: Variables | null, name: string) =>
    look_ups-- > 0 ? variableOf(variables, name) : undefined;
  const root = ["html", "body"].reduce((context: Context, name) => {
    const { begun, customs } = match({ name, attributes: new Map() }, context, null);
    const inherited = (variable: string) => lookUp(context.variables, variable);
    return contextWithin(context, begun, changedVariables(customs, inherited));
  }, emptyContext<Rule>());
  const siblings = reads_siblings ? createSiblings<Rule>(places) : null;
  return { match, siblings, variableOf: lookUp, root, is_empty: rules.size === 0, reads };
}

function byRelation(begun: readonly Rest<Rule>[]): Pick<Matched, "begun" | "for_siblings"> {
  if (begun.length === 0) return NOTHING_BEGUN;
  const { next = [], later = [], ...others } = Object.groupBy(begun, ({ relation }) => relation);
  return { begun: Object.values(others).flat(), for_siblings: { next, later } };
}
const NOTHING_BEGUN = { begun: [], for_siblings: { next: [], later: [] } };

function readsSiblings(rest: Rest<Rule> | null): boolean {
  for (let at = rest; at !== null; at = at.next) if (at.relation === "next" || at.relation === "later") return true;
  return false;
}

function placesOf({ places, excluded }: Compound): readonly Place[] {
  return [...places, ...excluded.flatMap(placesOf)];
}

/** The rules that can hide something, by their selectors. */
function rulesOf(tokens: readonly HtmlToken[]): ReadonlyMap<string, Rule> {
  const rules = new Map<string, Rule>();
  let order = 0;
  let left = MAX_CHOICES;
  for (const { css, is_certain } of sheetsOf(tokens)) {
    for (const { selectors, declarations, is_layered } of blocks(css)) {
      const block = declarationsOf(declarations);
      const customs = customProperties(declarations);
      if (block === NOTHING_DECLARED && customs.size === 0) continue;
      if (!(is_certain && selectors.every(isCertain)) && !hidesAlone(block)) continue;
      order++;
      const declared = [
        ...block.flatMap((value, place) => (value === undefined ? [] : [[place, value] as const])),
        ...customs,
      ];
      for (const selector of selectors) {
        const choices = left > 0 ? choicesOf(selector) : [selector];
        left -= choices.length - 1;
        for (const choice of choices) addRule(rules, choice, { declared, order, is_layered });
      }
    }
  }
  return rules;
}

function addRule(
  rules: Map<string, Rule>,
  selector: string,
  {
    declared,
    order,
    is_layered,
  }: { declared: readonly (readonly [place: number | string, value: string])[]; order: number; is_layered: boolean },
): void {
  const key = selector.trim();
  let rule = rules.get(key);
  if (rule === undefined) {
    const parts = partsOf(key);
    if (parts === null) return;
    const sum = parts.reduce((total, { compound }) => total + compound.specificity, 0);
    rule = { parts, specificity: Math.min(sum, MAX_SPECIFICITY - 1), declared: new Map() };
    rules.set(key, rule);
  }
  const { specificity } = rule;
  for (const [place, value] of declared) {
    // Layers lose against other rules, but their important declarations win.
    const isUpper = is_layered === (typeof place === "number" && place >= PLACES / 2);
    const rank = (isUpper ? MAX_SPECIFICITY : 0) + specificity + order / 2 ** 22;
    if (rank >= (rule.declared.get(place)?.rank ?? 0)) rule.declared.set(place, { value, rank });
  }
}

function isSimple({ name, ids, classes, attributes, places, excluded }: Compound): boolean {
  return (
    attributes.length + places.length + excluded.length === 0 &&
    ids.length + classes.length + (name === "" ? 0 : 1) <= 1
  );
}

function attributesOf({ ids, attributes, excluded }: Compound): string[] {
  const own = attributes.map(({ name }) => name);
  return [...own, ...(ids.length > 0 ? ["id"] : []), ...excluded.flatMap(attributesOf)];
}

function strongest(rules: readonly Rule[]): Pick<Matched, "declarations" | "customs"> {
  if (rules.length === 0) return { declarations: NOTHING_DECLARED, customs: new Map() };
  const declarations: (string | undefined)[] = new Array(PLACES).fill(undefined);
  const customs = new Map<string, string>();
  const ranks = new Map<number | string, number>();
  for (const rule of rules) {
    for (const [place, { value, rank }] of rule.declared) {
      if (rank < (ranks.get(place) ?? 0)) continue;
      ranks.set(place, rank);
      if (typeof place === "number") declarations[place] = value;
      else customs.set(place, value);
    }
  }
  return { declarations, customs };
}

/** The page's sheets. One for some media only is uncertain. */
function sheetsOf(tokens: readonly HtmlToken[]): { css: string; is_certain: boolean }[] {
  const sheets: { css: string; is_certain: boolean }[] = [];
  let inert = 0;
  tokens.forEach((token, index) => {
    if (token.type === "text" || token.type === "comment") return;
    if (/^(?:noscript|template)$/.test(token.name)) inert = Math.max(0, inert + (token.type === "open" ? 1 : -1));
    const content = tokens[index + 1];
    if (token.name !== "style" || token.type !== "open" || content?.type !== "text") return;
    const type = token.attributes.get("type")?.trim().toLowerCase() ?? "";
    const media = token.attributes.get("media")?.trim().toLowerCase() ?? "";
    if ((type !== "" && type !== "text/css") || /^(?:only\s+)?print$/.test(media)) return;
    sheets.push({ css: content.text, is_certain: inert === 0 && /^(?:|all|screen)$/.test(media) });
  });
  return sheets;
}

interface Block {
  readonly selectors: readonly string[];
  readonly declarations: string[];
  readonly is_layered: boolean;
}

/** Yields the rules in order, including those inside a screen's at-rule or another rule. */
function* blocks(css: string): Generator<Block> {
  const open: (Block | null)[] = [];
  const outermost: Block = { selectors: [], declarations: [], is_layered: false };
  for (const { type, text } of cssPieces(css, { in_block: false })) {
    const block = open.length === 0 ? outermost : open.at(-1);
    if (type === "declaration") block?.declarations.push(text);
    if (type === "declaration" || block === undefined) continue;
    if (block !== null && block.selectors.length > 0 && block.declarations.length > 0) {
      yield { ...block, declarations: block.declarations.splice(0) };
    }
    if (type === "close") open.pop();
    else open.push(block === null ? null : inner(block, text));
  }
  for (const block of open) if (block !== null && block.selectors.length > 0) yield block;
}

/** The block that `prelude` opens, or null when it is not known what it selects. */
function inner(outer: Block, prelude: CssPiece["text"]): Block | null {
  const text = prelude.replace(/<!--|-->/g, " ").trim();
  if (text.startsWith("@")) {
    if (!holdsOnScreens(text)) return null;
    return { ...outer, declarations: [], is_layered: outer.is_layered || /^@layer/i.test(text) };
  }
  const selectors = selectorsIn(text);
  if (outer.selectors.length === 0) return { ...outer, selectors, declarations: [] };
  if (outer.selectors.length > MAX_OUTER_SELECTORS || selectors.length > MAX_OUTER_SELECTORS) return null;
  const nested = outer.selectors.flatMap((each) => selectors.map((one) => nest(one, each)));
  return nested.length > 0 && nested.length <= MAX_OUTER_SELECTORS
    ? { ...outer, selectors: nested, declarations: [] }
    : null;
}

/** `&.b` in `.a` is `.a.b`, and `.b` in it is `.a .b`. Longer results are not read as selectors, so they are not kept. */
function nest(selector: string, outer: string): string {
  const text = selector.trim();
  if (outer.length >= MAX_OUTER_LENGTH || text.includes("&", 1)) return ">";
  return text.startsWith("&") ? outer.trim() + text.slice(1) : `${outer.trim()} ${text}`;
}
