/**
 * The stack of open elements while reading a page. It decides which element closes which, as far as that affects
 * hiding. Each step takes constant time or time proportional to the elements it pops, so nesting cannot slow it down.
 */

/** The nearest open element of each kind, or -1. Finds an implied end tag without walking the stack. */
interface Scope {
  readonly p: number;
  readonly li: number;
  readonly dd: number;
  readonly cell: number;
  readonly row: number;
  /** The nearest element that end tags cannot cross. */
  readonly barrier: number;
}

interface Entry<State> {
  readonly name: string;
  readonly scope: Scope;
  readonly state: State;
}

const VOID = new Set(
  "area base br col embed hr img input link meta param source track wbr basefont bgsound frame keygen".split(" "),
);
const CLOSES_P = new Set(
  (
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 " +
    "h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary table ul li dd dt"
  ).split(" "),
);
const BARRIERS = new Set("table td th caption template object marquee applet button".split(" "));
const TABLE_PARTS = new Set("table tr td th tbody thead tfoot caption button".split(" "));
const FORMATTING = new Set("a b big code em font i nobr s small strike strong tt u".split(" "));
const NOTHING_OPEN: Scope = { p: -1, li: -1, dd: -1, cell: -1, row: -1, barrier: -1 };

/** Whether an element with this name is void: no content and no end tag. */
export function isVoid(name: string): boolean {
  return VOID.has(name);
}

/**
 * @param isHidden whether a state hides. A hidden formatting element that a block's end tag closes continues after it,
 * because browsers reopen formatting elements.
 */
export function createOpenElements<State>(root: State, isHidden: (state: State) => boolean) {
  const entries: Entry<State>[] = [];
  const openByName = new Map<string, number[]>();

  function push(name: string, state: State): void {
    const index = entries.length;
    entries.push({ name, state, scope: scopeWithin(entries.at(-1)?.scope ?? NOTHING_OPEN, name, index) });
    const indexes = openByName.get(name);
    if (indexes === undefined) openByName.set(name, [index]);
    else indexes.push(index);
  }

  /** Closes all elements from `index` up. */
  function popFrom(index: number): void {
    let reopened: Entry<State> | undefined;
    while (entries.length > index) {
      const entry = entries.pop();
      if (entry === undefined) break;
      openByName.get(entry.name)?.pop();
      const cutOff = entries.length > index && FORMATTING.has(entry.name) && isHidden(entry.state);
      if (cutOff) reopened = entry;
    }
    if (reopened !== undefined && !isHidden(state())) push(reopened.name, reopened.state);
  }

  /** Closes the elements that an opening `name` closes by implication. */
  function closeImplied(name: string): void {
    const scope = entries.at(-1)?.scope ?? NOTHING_OPEN;
    if (name === "li" && scope.li >= 0) popFrom(scope.li);
    else if ((name === "dd" || name === "dt") && scope.dd >= 0) popFrom(scope.dd);
    else if ((name === "td" || name === "th") && scope.cell >= 0) popFrom(scope.cell);
    else if (scope.row >= 0 && /^(tr|tbody|thead|tfoot)$/.test(name)) popFrom(scope.row);
    else if (CLOSES_P.has(name) && scope.p >= 0) popFrom(scope.p);
  }

  function close(name: string): boolean {
    const index = openByName.get(name)?.at(-1);
    const barrier = entries.at(-1)?.scope.barrier ?? -1;
    if (index === undefined || (index < barrier && !TABLE_PARTS.has(name))) return false;
    popFrom(index);
    return true;
  }

  function state(): State {
    return entries.at(-1)?.state ?? root;
  }

  return { push, closeImplied, close, state };
}

function scopeWithin(outer: Scope, name: string, index: number): Scope {
  switch (name) {
    case "p":
      return { ...outer, p: index };
    case "li":
      return { ...outer, li: index };
    case "dd":
    case "dt":
      return { ...outer, dd: index };
    case "ul":
    case "ol":
    case "menu":
      return { ...outer, li: -1 };
    case "dl":
      return { ...outer, dd: -1 };
    case "tr":
      return { ...outer, row: index, cell: -1 };
    case "td":
    case "th":
      return { ...NOTHING_OPEN, row: outer.row, cell: index, barrier: index };
    default:
      return BARRIERS.has(name) ? { ...NOTHING_OPEN, barrier: index } : outer;
  }
}
