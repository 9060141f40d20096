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
  /** The nearest element that end tags of blocks cannot cross. */
  readonly barrier: number;
  /** The nearest element that end tags of table parts cannot cross. */
  readonly table: number;
  /** The nearest "special" element: end tags of inline and unknown elements cannot cross it. */
  readonly special: number;
  /** The nearest SVG or MathML element whose content is not HTML. */
  readonly foreign: number;
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
const TABLE_PARTS = new Set("table tr td th tbody thead tfoot caption".split(" "));
/** The parts of a table that end each other. */
const PARTS_OF_ROWS = new Set("tbody thead tfoot".split(" "));
const FORMATTING = new Set("a b big code em font i nobr s small strike strong tt u".split(" "));
/** SVG and MathML elements whose content is HTML again. */
const HTML_AGAIN = new Set("foreignobject desc title mi mo mn ms mtext annotation-xml".split(" "));
/** Elements that end the SVG or MathML around them. */
const ENDS_FOREIGN = new Set(
  (
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta " +
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
  ).split(" "),
);
/** All special elements of the HTML standard; elements that close a paragraph are among them. */
const SPECIAL = new Set([
  ...CLOSES_P,
  ...TABLE_PARTS,
  ..."applet body button colgroup html iframe marquee noembed noframes noscript object select template textarea".split(
    " ",
  ),
]);
const NOTHING_OPEN: Scope = {
  p: -1,
  li: -1,
  dd: -1,
  cell: -1,
  row: -1,
  barrier: -1,
  table: -1,
  special: -1,
  foreign: -1,
};

/** Whether an element with this name is void: no content and no end tag. */
export function isVoid(name: string): boolean {
  return VOID.has(name);
}

/** What the states of elements mean. */
interface Hiding<State> {
  /**
   * A hidden formatting element that a block's end tag closes continues after it, because browsers reopen formatting
   * elements.
   */
  readonly isHidden: (state: State) => boolean;
  /** Whether no content of the element can be visible. */
  readonly isHiddenWhole: (state: State) => boolean;
}

/** @param root the state outside all elements */
export function createOpenElements<State>(root: State, { isHidden, isHiddenWhole }: Hiding<State>) {
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
    if (scope.foreign >= 0 && ENDS_FOREIGN.has(name)) {
      popFrom(scope.foreign);
      closeImplied(name);
    } else if (name === "li" && scope.li >= 0) popFrom(scope.li);
    else if ((name === "dd" || name === "dt") && scope.dd >= 0) popFrom(scope.dd);
    else if ((name === "td" || name === "th") && scope.cell >= 0) popFrom(scope.cell);
    else if (PARTS_OF_ROWS.has(name) && entries[scope.table]?.name === "table") popFrom(scope.table + 1);
    else if (scope.row >= 0 && name === "tr") popFrom(scope.row);
    else if (CLOSES_P.has(name) && scope.p >= 0) popFrom(scope.p);
  }

  function close(name: string): boolean {
    const index = openByName.get(name)?.at(-1);
    // Browsers put what follows these end tags into the body, where open elements stay open.
    if (index === undefined || name === "body" || name === "html") return false;
    if (isBlocked(name, index)) return false;
    popFrom(index);
    return true;
  }

  /** Whether an element inside the one at `index` keeps its end tag from closing it, as in the HTML standard. */
  function isBlocked(name: string, index: number): boolean {
    const { barrier, table, special } = entries.at(-1)?.scope ?? NOTHING_OPEN;
    if (name === "template") return false;
    if (TABLE_PARTS.has(name)) return index < table;
    if (FORMATTING.has(name)) return index < barrier || (index < special && staysHidden(index, special));
    return index < (SPECIAL.has(name) && name !== "form" ? barrier : special);
  }

  /** Browsers move the blocks in a formatting element out of it at its end tag. They stay open, and hidden. */
  function staysHidden(index: number, special: number): boolean {
    const [formatting, block] = [entries[index], entries[special]];
    if (formatting === undefined || block === undefined) return false;
    return isHiddenWhole(block.state) || (isHidden(block.state) && !isHidden(formatting.state));
  }

  function state(): State {
    return entries.at(-1)?.state ?? root;
  }

  /** Whether an element that opens now is one of SVG or MathML. */
  function isForeign(name: string): boolean {
    return name === "svg" || name === "math" || (entries.at(-1)?.scope.foreign ?? -1) >= 0;
  }

  /** The innermost open element. The same object is always the same element. */
  function innermost(): { readonly name: string } | null {
    return entries.at(-1) ?? null;
  }

  return { push, closeImplied, close, state, isForeign, innermost };
}

function scopeWithin(outer: Scope, name: string, index: number): Scope {
  if (outer.foreign >= 0) {
    return HTML_AGAIN.has(name) ? { ...NOTHING_OPEN, barrier: index, special: index } : outer;
  }
  if (name === "svg" || name === "math") return { ...outer, foreign: index };
  if (name === "td" || name === "th") {
    return { ...NOTHING_OPEN, row: outer.row, cell: index, barrier: index, table: outer.table, special: index };
  }
  if (BARRIERS.has(name)) {
    const isTable = name === "table" || name === "template";
    return { ...NOTHING_OPEN, barrier: index, table: isTable ? index : outer.table, special: index };
  }
  if (!SPECIAL.has(name)) return outer;
  const inner = { ...outer, special: index };
  switch (name) {
    case "p":
      return { ...inner, p: index };
    case "address":
    case "div":
      return inner;
    case "li":
      return { ...inner, li: index, dd: -1 };
    case "dd":
    case "dt":
      return { ...inner, dd: index, li: -1 };
    case "tr":
      return { ...inner, row: index, cell: -1, li: -1, dd: -1 };
    default:
      return { ...inner, li: -1, dd: -1 };
  }
}
