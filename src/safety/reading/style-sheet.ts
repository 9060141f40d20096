import { cascade, type Declarations, NOTHING_DECLARED, parseDeclarations } from "./hiding-css.ts";

/** Rules of a page's own `<style>` elements, by the simple selectors that decide most hiding. */
export interface StyleSheet {
  /** What the rules declare for an element, weaker selectors first overwritten by stronger ones. */
  match(element: { name: string; id: string; classes: readonly string[] }): Declarations;
  readonly is_empty: boolean;
  /** Whether any rule is for an element's `id`. */
  readonly reads_ids: boolean;
}

/** Beyond this a sheet is not read further: no page that people read needs more. */
const MAX_CSS_LENGTH = 1_000_000;
/** Classes of one element that are looked up. */
const MAX_CLASSES = 32;

/** `tag`, `.class`, `#id`, or a tag with one of these. */
const UNDERSTOOD = /^([a-z][\w-]*|\*)?([.#][\w-]+)?$/i;
const COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/g;
/** Media in which a person reads the page; rules for others (print, a width) are left out. */
const SCREEN = /^@(media\s+(only\s+)?(screen|all)|layer|supports)\b[^,(]*$/i;

/**
 * Reads sheets once, by a scan that never goes back. Understood selectors: `tag`, `.class`, `#id` and one of each
 * together (`p.note`); the rest is passed over, so its elements count as visible.
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

/** @param isTogether whether some rule is for the element's name together with a class or an id */
function matching(
  rules: ReadonlyMap<string, Declarations>,
  { name, id, classes }: { name: string; id: string; classes: readonly string[] },
  isTogether: boolean,
): Declarations {
  const some = classes.slice(0, MAX_CLASSES);
  const keys = ["*", name, ...some.map((c) => `.${c}`)];
  if (isTogether) keys.push(...some.map((c) => `${name}.${c}`));
  if (id !== "") keys.push(`#${id}`);
  if (id !== "" && isTogether) keys.push(`${name}#${id}`);
  return cascade(keys.map((key) => rules.get(key)).filter((rule) => rule !== undefined));
}

/** Rules in order, those inside a screen's at-rule included. */
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
