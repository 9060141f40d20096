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
