import { cascade, type Declarations, NOTHING_DECLARED, parseDeclarations } from "./hiding-css.ts";

/** The rules of a page's own `<style>` elements, for the simple selectors that cause most hiding. */
export interface StyleSheet {
  /** The declarations for an element. Stronger selectors overwrite weaker ones. */
  match(element: { name: string; id: string; classes: readonly string[] }): Declarations;
  readonly is_empty: boolean;
  /** Whether any rule selects an `id`. */
  readonly reads_ids: boolean;
}

/** The most characters of CSS that are read. Ordinary pages need less. */
const MAX_CSS_LENGTH = 1_000_000;
/** The most classes of an element that are looked up. */
const MAX_CLASSES = 32;

/** The understood selectors: `tag`, `.class`, `#id`, or a tag with a class or id. */
const UNDERSTOOD = /^([a-z][\w-]*|\*)?([.#][\w-]+)?$/i;
const COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/g;
/** Media rules for a screen. Rules for other media (print, a width) are skipped. */
const SCREEN = /^@(media\s+(only\s+)?(screen|all)|layer|supports)\b[^,(]*$/i;

/**
 * Reads sheets in one forward scan. Understood selectors: `tag`, `.class`, `#id`, or a tag with one of these
 * (`p.note`). Other rules are skipped, so their elements count as visible.
 */
export function readStyleSheet(sheets: readonly string[]): StyleSheet {
  const rules = new Map<string, Declarations>();
  for (const { selectors, body } of sheets.flatMap((css) => [
    ...blocks(css.slice(0, MAX_CSS_LENGTH).replace(COMMENT, " ")),
  ])) {
    const declared = parseDeclarations(body);
    if (declared === NOTHING_DECLARED) continue;
    for (const selector of selectors.split(",")) {
      const key = selector.trim();
      if (key === "" || !UNDERSTOOD.test(key)) continue;
      const earlier = rules.get(key);
      rules.set(key, earlier === undefined ? declared : cascade([earlier, declared]));
    }
  }
  const selectors = [...rules.keys()];
  const together = new Set(selectors.map((key) => /^[^.#]+(?=[.#])/.exec(key)?.[0]));
  return {
    match: (element) => matching(rules, element, together.has(element.name)),
    is_empty: rules.size === 0,
    reads_ids: selectors.some((key) => key.includes("#")),
  };
}

/** @param isTogether whether some rule selects the element's name together with a class or an id */
function matching(
  rules: ReadonlyMap<string, Declarations>,
  { name, id, classes }: { name: string; id: string; classes: readonly string[] },
  isTogether: boolean,
): Declarations {
  const matched: Declarations[] = [];
  const add = (selector: string): void => {
    const rule = rules.get(selector);
    if (rule !== undefined) matched.push(rule);
  };
  const some = classes.slice(0, MAX_CLASSES);
  add("*");
  add(name);
  for (const each of some) add(`.${each}`);
  if (isTogether) for (const each of some) add(`${name}.${each}`);
  if (id !== "") add(`#${id}`);
  if (id !== "" && isTogether) add(`${name}#${id}`);
  return cascade(matched);
}

/** Yields the rules in order, including those inside a screen's at-rule. */
function* blocks(css: string): Generator<{ selectors: string; body: string }> {
  let start = 0;
  while (start < css.length) {
    const brace = css.indexOf("{", start);
    if (brace < 0) return;
    const prelude = css.slice(start, brace);
    const selectors = prelude.slice(Math.max(prelude.lastIndexOf(";"), prelude.lastIndexOf("}")) + 1).trim();
    if (selectors.startsWith("@") && SCREEN.test(selectors)) {
      start = brace + 1;
      continue;
    }
    const end = selectors.startsWith("@") ? endOfBlock(css, brace) : css.indexOf("}", brace);
    const stop = end < 0 ? css.length : end;
    if (!selectors.startsWith("@")) yield { selectors, body: css.slice(brace + 1, stop) };
    start = stop + 1;
  }
}

function endOfBlock(css: string, brace: number): number {
  let depth = 0;
  for (let at = brace; at < css.length; at++) {
    if (css[at] === "{") depth++;
    else if (css[at] === "}" && --depth === 0) return at;
  }
  return -1;
}
