import { withVariables } from "./declarations.ts";
import type { Compound, Part, Relation } from "./selectors.ts";

/**
 * What the ancestors of an element contribute to its style: how far they match selectors with combinators, and the
 * custom properties that it inherits. Contexts are immutable and shared, so a deep page does not copy them.
 */
export interface StyleContext<Rule> {
  /** The context that this one adds to, or null. */
  readonly outer: StyleContext<Rule> | null;
  /** What its ancestors have begun, by the key of the next part. */
  readonly begun: ReadonlyMap<string, readonly Rest<Rule>[]>;
  readonly has: ReadonlySet<Rest<Rule>>;
  /** What its parent has begun for children only. */
  readonly for_children: ReadonlyMap<string, readonly Rest<Rule>[]> | null;
  readonly variables: Variables | null;
  /** How many contexts are around it. */
  readonly depth: number;
}

/** The rest of a selector whose beginning an ancestor matches. */
export interface Rest<Rule> {
  readonly key: string;
  readonly compound: Compound;
  readonly relation: Relation;
  /** null: this part is the element itself. */
  readonly next: Rest<Rule> | null;
  readonly rule: Rule;
}

export interface Variables {
  readonly outer: Variables | null;
  readonly own: ReadonlyMap<string, string>;
}

const NOTHING = new Map<string, never>();
/** The most contexts that are looked through for a custom property. */
const MAX_DEPTH = 64;

/** The context of a page's outermost element. */
export const emptyContext = <Rule>(): StyleContext<Rule> => ({
  outer: null,
  begun: NOTHING,
  has: new Set(),
  for_children: null,
  variables: null,
  depth: 0,
});

/** A selector's parts as a chain. */
export function restOf<Rule>(parts: readonly Part[], rule: Rule): Rest<Rule> | null {
  let rest: Rest<Rule> | null = null;
  for (const { compound, relation } of parts.toReversed()) {
    rest = { key: keyOf(compound), compound, relation, next: rest, rule };
  }
  return rest;
}

/** The id, class or name that an element must have to match. */
export function keyOf({ ids, classes, name }: Compound): string {
  return ids.length > 0 ? `#${ids[0]}` : classes.length > 0 ? `.${classes.at(-1)}` : name || "*";
}

/** The context of an element's children. `customs`: the element's own custom properties, without `var()`. */
export function contextWithin<Rule>(
  context: StyleContext<Rule>,
  begun: readonly Rest<Rule>[],
  customs: ReadonlyMap<string, string>,
): StyleContext<Rule> {
  const fresh = begun.filter(({ relation }) => relation === "descendant");
  const for_children = begun.filter(({ relation }) => relation === "child");
  const base = context.for_children === null ? context : withoutChildren(context);
  if (fresh.length === 0 && for_children.length === 0 && customs.size === 0) return base;
  const { variables } = base;
  return {
    outer: base,
    begun: byKey(fresh),
    has: new Set(fresh),
    for_children: for_children.length === 0 ? null : byKey(for_children),
    variables: customs.size === 0 ? variables : { outer: variables, own: customs },
    depth: base.depth + 1,
  };
}

/** The custom properties that differ from the inherited ones, with their `var()` replaced. */
export function changedVariables(
  customs: ReadonlyMap<string, string>,
  inherited: (name: string) => string | undefined,
): ReadonlyMap<string, string> {
  const changed = new Map<string, string>();
  for (const [name, written] of customs) {
    const value = written.includes("var(")
      ? withVariables(written, (other) => customs.get(other) ?? inherited(other))
      : written;
    if (value !== null && value !== inherited(name)) changed.set(name, value);
  }
  return changed;
}

/** The same context for the grandchildren of the element that it is of. */
function withoutChildren<Rule>(context: StyleContext<Rule>): StyleContext<Rule> {
  const { outer, begun, variables } = context;
  const adds = begun.size > 0 || variables !== (outer?.variables ?? null);
  return !adds && outer !== null ? outer : { ...context, for_children: null };
}

interface Chain<Rule> {
  readonly outer: Chain<Rule> | null;
  readonly has: ReadonlySet<Rest<Rule>>;
}

/** Whether an ancestor or an earlier sibling has begun this already. */
export function isBegun<Rule>(context: Chain<Rule>, rest: Rest<Rule>): boolean {
  for (let at: Chain<Rule> | null = context; at !== null; at = at.outer) if (at.has.has(rest)) return true;
  return false;
}

/** Selectors by the id, class or name that their next part needs. */
export function byKey<Rule>(all: readonly Rest<Rule>[]): ReadonlyMap<string, readonly Rest<Rule>[]> {
  if (all.length === 0) return NOTHING;
  return Map.groupBy(all, (rest) => rest.key);
}

/** The value of a custom property, if one of these declares it. */
export function variableOf(variables: Variables | null, name: string): string | undefined {
  let left = MAX_DEPTH;
  for (let at = variables; at !== null && left > 0; at = at.outer, left--) {
    const value = at.own.get(name);
    if (value !== undefined) return value;
  }
  return undefined;
}
