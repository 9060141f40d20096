/** Text apart from what a bidi override displays backwards. */
interface Sides {
  readonly rest: string;
  readonly backwards: string;
}

const OVERRIDE = "\u202e";
const POP = "\u202c";
const POP_ISOLATE = "\u2069";
/** Other embeddings and overrides, which display their text as it is written. */
const EMBEDDINGS = "\u202a\u202b\u202d";
const ISOLATES = "\u2066\u2067\u2068";
/** The controls of the bidirectional algorithm (UAX 9), and the line feed, which ends them all. */
const CONTROL = /([\u202a-\u202e\u2066-\u2069\n])/;
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
  if (!text.includes(OVERRIDE)) return { rest: text, backwards: "" };
  const [rest, backwards]: [string[], string[]] = [[], []];
  const nested: ("override" | "embedding" | "isolate")[] = [];
  let isolates = 0;
  for (const part of text.split(CONTROL)) {
    if (part === OVERRIDE) nested.push("override");
    else if (part === POP) popUnless(nested, "isolate");
    else if (part === POP_ISOLATE) {
      if (isolates === 0) continue;
      isolates--;
      while (nested.pop() !== "isolate");
    } else if (part !== "" && EMBEDDINGS.includes(part)) nested.push("embedding");
    else if (part !== "" && ISOLATES.includes(part)) {
      isolates++;
      nested.push("isolate");
    } else if (part === "\n") {
      nested.length = 0;
      isolates = 0;
      rest.push(part);
    } else if (nested.at(-1) === "override" || nested.length > MOST_NESTED) {
      backwards.push(part);
      rest.push(" ");
    } else rest.push(part);
  }
  const taken = backwards.join(" ");
  const letters = taken.match(LEFT_TO_RIGHT)?.length ?? 0;
  return letters < MIN_LETTERS ? { rest: text, backwards: "" } : { rest: rest.join(""), backwards: taken };
}

function popUnless<T>(stack: T[], kept: T): void {
  if (stack.at(-1) !== kept) stack.pop();
}
