import { isAt, type Place } from "./selectors.ts";
import { byKey, type Rest } from "./style-context.ts";

/** Selectors whose beginning earlier siblings match. Shared by all places where the same siblings came before. */
export interface Earlier<Rule> {
  readonly id: number;
  /** What the siblings before the last one have begun, or null. */
  readonly outer: Earlier<Rule> | null;
  /** What the sibling has begun, by the key of the next part. */
  readonly begun: ReadonlyMap<string, readonly Rest<Rule>[]>;
  readonly has: ReadonlySet<Rest<Rule>>;
  /** How many siblings have begun something new. */
  readonly depth: number;
  /** What follows it, by what the next sibling begins. */
  readonly grown: Map<readonly Rest<Rule>[], Earlier<Rule>>;
}

/** The children of one element until now. */
export interface Siblings<Rule> {
  count: number;
  readonly of_type: Map<string, number>;
  /** What the last child has begun for the next one (`a + b`). */
  next: Earlier<Rule>;
  /** What all children have begun for later ones (`a ~ b`). */
  later: Earlier<Rule>;
}

/** More different formulas are not remembered by their results. */
const MAX_PLACES = 32;

/** Keeps what selectors need of earlier siblings: their number, and what they have begun. */
export function createSiblings<Rule>(places: readonly Place[]) {
  const distinct = [...new Map(places.map((each) => [JSON.stringify(each), each])).values()];
  const roots = { next: root<Rule>(0), later: root<Rule>(1) };
  let ids = 2;

  function grown(before: Earlier<Rule>, begun: readonly Rest<Rule>[]): Earlier<Rule> {
    const known = before.grown.get(begun);
    if (known !== undefined) return known;
    const { depth } = before;
    const made = { ...root<Rule>(ids++), outer: before, begun: byKey(begun), has: new Set(begun), depth: depth + 1 };
    before.grown.set(begun, made);
    return made;
  }

  return {
    /** An element without children yet. */
    none: (): Siblings<Rule> => ({ count: 0, of_type: new Map(), ...roots }),
    /** Counts an element. Returns what distinguishes its place for selectors. */
    add(siblings: Siblings<Rule>, name: string): string {
      siblings.count++;
      const place_of_type = (siblings.of_type.get(name) ?? 0) + 1;
      siblings.of_type.set(name, place_of_type);
      const { count, next, later } = siblings;
      const where =
        distinct.length > MAX_PLACES
          ? `${count}/${place_of_type}`
          : distinct.map((each) => (isAt(each.of_type ? place_of_type : count, each) ? 1 : 0)).join("");
      return `${where}+${next.id}~${later.id}`;
    },
    /** Notes what the last child has begun. */
    note(siblings: Siblings<Rule>, { next, later }: Begun<Rule>): void {
      siblings.next = next.length === 0 ? roots.next : grown(roots.next, next);
      if (later.length > 0) siblings.later = grown(siblings.later, later);
    },
  };
}

/** What an element begins for its siblings. */
export interface Begun<Rule> {
  readonly next: readonly Rest<Rule>[];
  readonly later: readonly Rest<Rule>[];
}

const root = <Rule>(id: number): Earlier<Rule> => ({
  id,
  outer: null,
  begun: new Map(),
  has: new Set(),
  depth: 0,
  grown: new Map(),
});

/** Browsers add this around rows of a table. */
export const BODY_OF_TABLE = {
  type: "open",
  name: "tbody",
  attributes: new Map<string, string>(),
  source: "",
  is_self_closed: false,
} as const;
/** Elements of a page's head, as long as nothing of its body has come. */
const OF_HEAD = new Set("base link meta noscript script style template title".split(" "));

/**
 * Finds the siblings of an element that opens next in the innermost one. Browsers add `head` and `body` where a page
 * leaves them out. Text counts as an element without a name: it begins the body.
 */
export function createPlaces<Rule>(
  siblings: Pick<ReturnType<typeof createSiblings<Rule>>, "none"> | null,
  innermost: () => { readonly name: string } | null,
): (name: string) => Siblings<Rule> | null {
  if (siblings === null) return () => null;
  const known = new WeakMap<object, Siblings<Rule>>();
  const [head, body] = [siblings.none(), siblings.none()];
  let has_body = false;

  function inPage(name: string, outer: string): Siblings<Rule> {
    if (name === "html" || name === "head" || name === "body") {
      has_body ||= name === "body";
      const page = siblings?.none() ?? head;
      page.count = name === "body" ? 1 : 0;
      return page;
    }
    if (!has_body && outer !== "body" && OF_HEAD.has(name)) return head;
    has_body = true;
    return body;
  }

  return (name) => {
    const parent = innermost();
    if (parent === null || parent.name === "html" || parent.name === "body") return inPage(name, parent?.name ?? "");
    if (parent.name === "head") return inPage(name, "head");
    const own = known.get(parent) ?? siblings.none();
    known.set(parent, own);
    return own;
  };
}
