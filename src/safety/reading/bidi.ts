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

/** Text apart from what a bidi override displays backwards. */
interface Sides {
  readonly rest: string;
  readonly backwards: string;
}

/** The controls of the bidirectional algorithm (UAX 9), and the line feed, which ends them all. */
const LINE_FEED = 0x0a;
const EMBEDDING = 0x202a;
const POP = 0x202c;
const OVERRIDE = 0x202e;
const ISOLATE = 0x2066;
const POP_ISOLATE = 0x2069;
const LEFT_TO_RIGHT = /[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Han}\p{Script=Hangul}]/gu;
/** Fewer letters than this may be an editor's error. */
const MIN_LETTERS = 16;
/** Browsers ignore controls in a deeper nesting. No honest text has it, so its text counts as backwards. */
const MOST_NESTED = 125;

/**
 * Takes out text in right-to-left overrides, if it has letters that are written from left to right. The innermost control
 * decides how a letter is displayed. Linear in the text.
 */
export function withoutOverridden(text: string): Sides {
  const unchanged = { rest: text, backwards: "" };
  if (!text.includes(String.fromCharCode(OVERRIDE))) return unchanged;
  const nesting = createNesting();
  let rest = "";
  let backwards = "";
  let from = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = text.charCodeAt(at);
    if (at < text.length && !isControl(code)) continue;
    if (at > from && nesting.isBackwards()) {
      backwards += `${text.slice(from, at)} `;
      rest += " ";
    } else if (at > from) rest += text.slice(from, at);
    if (code === LINE_FEED) rest += "\n";
    nesting.read(code);
    from = at + 1;
  }
  const letters = backwards.match(LEFT_TO_RIGHT)?.length ?? 0;
  return letters < MIN_LETTERS ? unchanged : { rest, backwards };
}

function isControl(code: number): boolean {
  return code === LINE_FEED || (code >= EMBEDDING && code <= POP_ISOLATE && (code <= OVERRIDE || code >= ISOLATE));
}

/** The controls that are open at a place of the text. An override from left to right is like an embedding here. */
function createNesting() {
  const open: number[] = [];
  let isolates = 0;
  return {
    isBackwards: () => open.at(-1) === OVERRIDE || open.length > MOST_NESTED,
    read(control: number): void {
      if (control === LINE_FEED) {
        open.length = 0;
        isolates = 0;
      } else if (control === POP) {
        if (open.at(-1) !== ISOLATE) open.pop();
      } else if (control === POP_ISOLATE) {
        if (isolates === 0) return;
        isolates--;
        while (open.pop() !== ISOLATE);
      } else if (control >= ISOLATE) {
        isolates++;
        open.push(ISOLATE);
      } else open.push(control === OVERRIDE ? OVERRIDE : EMBEDDING);
    },
  };
}
