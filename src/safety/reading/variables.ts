import { withVariables } from "./declarations.ts";

/** Custom properties that elements inherit. Shared, so that a deep page does not copy them. */
export interface Variables {
  readonly outer: Variables | null;
  readonly own: ReadonlyMap<string, string>;
}

/** The most elements with own properties that are looked through for one. */
const MAX_DEPTH = 64;
/** The look-ups on a page: the first ones, and as many per element. Beyond, properties have no value. */
const FIRST_LOOK_UPS = 100_000;
const LOOK_UPS_PER_ELEMENT = 5;

/** Custom properties of one page, with limits for all look-ups. */
export function createVariables() {
  let left = FIRST_LOOK_UPS;

  function lookUp(variables: Variables | null, name: string): string | undefined {
    let depth = MAX_DEPTH;
    for (let at = variables; at !== null && depth > 0 && left > 0; at = at.outer, depth--, left--) {
      const value = at.own.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  /** What an element with these custom properties hands down. Their `var()` are replaced. */
  function within(outer: Variables | null, customs: ReadonlyMap<string, string>): Variables | null {
    left += LOOK_UPS_PER_ELEMENT;
    const changed = new Map<string, string>();
    for (const [name, written] of customs) {
      const inherited = lookUp(outer, name);
      const value = written.includes("var(")
        ? withVariables(written, (other) => customs.get(other) ?? lookUp(outer, other))
        : written;
      if (value !== null && value !== inherited) changed.set(name, value);
    }
    return changed.size === 0 ? outer : { outer, own: changed };
  }

  return { lookUp, within };
}
