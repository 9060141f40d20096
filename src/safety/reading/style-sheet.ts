import { type CssPiece, cssPieces } from "./css-pieces.ts";
import { type Declarations, declarationsOf, NOTHING_DECLARED, PLACES, parseDeclarations } from "./declarations.ts";
import { hidesAlone } from "./hiding-css.ts";
import type { HtmlToken } from "./html-tokens.ts";
import { type Compound, compoundOf, isCertain, matches, selectorsIn } from "./selectors.ts";

/** The rules of a page's own `<style>` elements whose selectors have no combinators. */
export interface StyleSheet {
  /** The declarations for an element. More specific selectors win, then later rules. */
  match(element: { name: string; attributes: ReadonlyMap<string, string> }): Declarations;
  readonly is_empty: boolean;
  /** The attributes that selectors read. */
  readonly reads: ReadonlySet<string>;
}

/** The declarations of one selector, and the rank of each: a higher one wins. */
interface Rule {
  readonly compound: Compound;
  /** By place in `Declarations`. Few places per rule: a large sheet has a hundred thousand rules. */
  readonly declared: Map<number, { readonly value: string; readonly rank: number }>;
}

/** Rules of the browser's at-rules that hold on every screen. Others (print, a width) are skipped. */
const SCREEN = /^@(?:media(?:\s+(?:only\s+)?(?:screen|all))?\s*$|layer\b|supports\b(?!\s*not\b))/i;
/** Checks of selectors with several parts: the first ones, and as many per element. Beyond, an element is hidden. */
const FIRST_CHECKS = 100_000;
const CHECKS_PER_TOKEN = 20;
/** A rule within a rule is read if the outer one has at most this many selectors. */
const MAX_OUTER_SELECTORS = 16;
const MAX_OUTER_LENGTH = 200;
const MAX_SPECIFICITY = 1e9;
const HIDDEN = parseDeclarations("display:none!important");

/** Reads the sheets of a page in one forward scan. */
export function readStyleSheet(tokens: readonly HtmlToken[]): StyleSheet {
  const rules = new Map<string, Rule>();
  let order = 0;
  for (const { css, is_certain } of sheetsOf(tokens)) {
    for (const { selectors, declarations, is_layered } of blocks(css)) {
      const block = declarationsOf(declarations);
      if (block === NOTHING_DECLARED) continue;
      if (!(is_certain && selectors.every(isCertain)) && !hidesAlone(block)) continue;
      order++;
      const declared = block.flatMap((value, place) => (value === undefined ? [] : [[place, value] as const]));
      for (const selector of selectors) addRule(rules, selector, { declared, order, is_layered });
    }
  }
  const all = [...rules.values()];
  const index = indexOf(all);
  const reads = new Set(all.flatMap(({ compound }) => attributesOf(compound)));
  let checks = FIRST_CHECKS + CHECKS_PER_TOKEN * tokens.length;
  return {
    match: ({ name, attributes }) => {
      const classes = new Set((attributes.get("class") ?? "").split(/\s+/));
      const element = { name, classes, attributes };
      const keys = ["*", name, `#${attributes.get("id") ?? ""}`, ...[...classes].map((each) => `.${each}`)];
      const found: Rule[] = [];
      for (const key of keys) {
        for (const rule of index.get(key) ?? []) {
          if (!isSimple(rule.compound) && checks-- <= 0) return HIDDEN;
          if (matches(element, rule.compound)) found.push(rule);
        }
      }
      return strongest(found);
    },
    is_empty: rules.size === 0,
    reads,
  };
}

function addRule(
  rules: Map<string, Rule>,
  selector: string,
  {
    declared,
    order,
    is_layered,
  }: { declared: readonly (readonly [place: number, value: string])[]; order: number; is_layered: boolean },
): void {
  const key = selector.trim();
  let rule = rules.get(key);
  if (rule === undefined) {
    const compound = compoundOf(key);
    if (compound === null) return;
    rule = { compound, declared: new Map() };
    rules.set(key, rule);
  }
  const specificity = Math.min(rule.compound.specificity, MAX_SPECIFICITY - 1);
  for (const [place, value] of declared) {
    // Layers lose against other rules, but their important declarations win.
    const isUpper = is_layered === place >= PLACES / 2;
    const rank = (isUpper ? MAX_SPECIFICITY : 0) + specificity + order / 2 ** 22;
    if (rank >= (rule.declared.get(place)?.rank ?? 0)) rule.declared.set(place, { value, rank });
  }
}

function isSimple({ name, ids, classes, attributes, excluded }: Compound): boolean {
  return attributes.length + excluded.length === 0 && ids.length + classes.length + (name === "" ? 0 : 1) <= 1;
}

function attributesOf({ ids, attributes, excluded }: Compound): string[] {
  const own = attributes.map(({ name }) => name);
  return [...own, ...(ids.length > 0 ? ["id"] : []), ...excluded.flatMap(attributesOf)];
}

/** The rules by the id, class or name that an element must have. */
function indexOf(rules: readonly Rule[]): ReadonlyMap<string, readonly Rule[]> {
  const index = new Map<string, Rule[]>();
  for (const rule of rules) {
    const { ids, classes, name } = rule.compound;
    const key = ids.length > 0 ? `#${ids[0]}` : classes.length > 0 ? `.${classes.at(-1)}` : name || "*";
    const same = index.get(key);
    if (same === undefined) index.set(key, [rule]);
    else same.push(rule);
  }
  return index;
}

function strongest(rules: readonly Rule[]): Declarations {
  if (rules.length === 0) return NOTHING_DECLARED;
  const declared: (string | undefined)[] = new Array(PLACES).fill(undefined);
  const ranks: number[] = new Array(PLACES).fill(0);
  for (const rule of rules) {
    for (const [place, { value, rank }] of rule.declared) {
      if (rank < (ranks[place] ?? 0)) continue;
      declared[place] = value;
      ranks[place] = rank;
    }
  }
  return declared;
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
    if (!SCREEN.test(text)) return null;
    return { ...outer, declarations: [], is_layered: outer.is_layered || /^@layer/i.test(text) };
  }
  const selectors = selectorsIn(text);
  if (outer.selectors.length === 0) return { ...outer, selectors, declarations: [] };
  if (outer.selectors.length > MAX_OUTER_SELECTORS || selectors.length > MAX_OUTER_SELECTORS) return null;
  const nested = outer.selectors.flatMap((each) =>
    selectors.filter((one) => one.includes("&")).map((one) => nest(one, each)),
  );
  return nested.length > 0 && nested.length <= MAX_OUTER_SELECTORS
    ? { ...outer, selectors: nested, declarations: [] }
    : null;
}

/** `&.b` in `.a` is `.a.b`. Longer results are not read as selectors, so they are not kept. */
function nest(selector: string, outer: string): string {
  const text = selector.trim();
  return text.startsWith("&") && !text.includes("&", 1) && outer.length < MAX_OUTER_LENGTH
    ? outer.trim() + text.slice(1)
    : ">";
}
