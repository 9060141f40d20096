import { type Declarations, declared } from "./declarations.ts";

export type Direction = "ltr" | "rtl";

/** Elements that browsers isolate from an override around them. */
const ISOLATED = /^(?:bdi|output)$/;

/** The element's direction, and whether it displays all letters in it (`bidi-override`) or ends that. Null: neither. */
export function bidi(
  css: Declarations,
  { name, dir }: { name: string; dir: string | undefined },
): { direction: Direction | null; overrides_bidi: boolean | null } {
  const wanted = declared(css, "direction") ?? dir;
  const mode = declared(css, "unicode-bidi") ?? "";
  const direction = wanted === "rtl" || wanted === "ltr" ? wanted : null;
  if (/override$/.test(mode)) return { direction, overrides_bidi: true };
  if (/(^|-)(embed|isolate|plaintext)$/.test(mode)) return { direction, overrides_bidi: false };
  if (/^(normal|initial|unset|inherit)$/.test(mode)) return { direction, overrides_bidi: null };
  // The `dir` attribute isolates an element from an override around it.
  if (name === "bdo") return { direction, overrides_bidi: true };
  return { direction, overrides_bidi: dir === undefined && !ISOLATED.test(name) ? null : false };
}

const LETTER = /\p{L}/gu;
/** Letters of Hebrew, Arabic and the other scripts that are written from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/gu;

/**
 * Writes text in the order in which people read it. The text of one override is collected and turned as a whole,
 * because browsers also turn the order of the elements in it.
 */
export function createOverrideReader(write: (text: string) => void) {
  let collected = "";
  let direction: Direction | null = null;

  function end(): void {
    if (collected !== "") write(direction === null ? collected : readAs(collected, direction));
    collected = "";
  }

  return {
    /** @param override the direction in which all letters are displayed, or null */
    text(text: string, override: Direction | null): void {
      if (override !== direction) end();
      direction = override;
      if (override === null) write(text);
      else collected += text;
    },
    end,
  };
}

/** Text is turned if it is written in the other direction than it is displayed. */
function readAs(text: string, direction: Direction): string {
  const letters = text.match(LETTER)?.length ?? 0;
  const isRightToLeft = (text.match(RIGHT_TO_LEFT)?.length ?? 0) * 2 > letters;
  return isRightToLeft === (direction === "rtl") ? text : reversed(text);
}

/** Turns the text, but not the white space around it, which separates it from its neighbours. */
function reversed(text: string): string {
  const core = text.trim();
  const start = text.indexOf(core);
  return text.slice(0, start) + Array.from(core).reverse().join("") + text.slice(start + core.length);
}
