/** Finds http addresses in text that people write, in any language, with or without spaces around them. Pure. */

/** Text from a scheme up to a character that no address has. web_fetch accepts 4,000 characters. */
const RUN = /https?:\/\/[^\s<>"'`\p{Cc}\p{Cf}]{1,4000}/giu;
const SCHEME = /https?:\/\//gi;
/** An address whose end is certain. */
const PLAIN = /^https?:\/\/[\w\-./?=&%#+~:@!$]*[a-z0-9/=]$/i;
/** The most addresses that are read in one run of text without spaces. */
const MAX_IN_RUN = 50;
/** Characters that end a sentence or a mark-up, not the address before them. */
const TRAILING = new Set(")]}.,;:!?*_~|\\");
/** Characters that join two addresses, or an address and other text. Some addresses have them. */
const JOINTS = /[,;|]/;
const NOT_ASCII = /[^!-~]/;
/** Punctuation of other scripts, such as 。 and ». */
const FOREIGN_PUNCTUATION = /[^!-~\p{L}\p{M}\p{N}]/u;
const ENDS = [NOT_ASCII, FOREIGN_PUNCTUATION, /,/, /;/, /\|/, /\*/, /\\/, /\(/, /\)/, /\]/, /\}/];

/**
 * The addresses in a text: for each place where one begins, what it may be. The end is not always certain, as in
 * `http://a/b,c` and in text that goes on in another script. With `all`, every reading is returned, also the ones that
 * a reader would hardly choose.
 */
export function* writtenUrls(text: string, { all = false } = {}): Generator<Iterable<string>, void> {
  for (const [run] of text.matchAll(RUN)) {
    const starts = [...run.matchAll(SCHEME)].slice(0, MAX_IN_RUN).map(({ index }) => index);
    if (starts.length === 1 && PLAIN.test(run)) {
      yield [run];
      continue;
    }
    for (const [nth, from] of starts.entries()) {
      const later = starts.slice(nth + 1);
      // An address may have another one in it, as those of archives do.
      const joined = later.find((start) => !/[\w/=:%]/.test(run[start - 1] ?? "")) ?? run.length;
      // Whatever joins two addresses is part of none.
      const whole = joined === run.length ? run.slice(from) : run.slice(from, joined).replace(/[^\w/]$/u, "");
      yield all ? everyReading([whole, run.slice(from), run.slice(from, later[0])]) : likelyReadings(whole);
    }
  }
}

function likelyReadings(text: string): Set<string> {
  const own = before(text, FOREIGN_PUNCTUATION);
  return new Set([own, before(own, NOT_ASCII), before(own, JOINTS)].map(withoutTrailing));
}

function everyReading(texts: readonly string[]): Set<string> {
  const cut = new Set(texts.flatMap((text) => [text, ...ENDS.map((end) => before(text, end))]));
  return new Set([...cut].flatMap((each) => [each, withoutTrailing(each), stripped(each)]));
}

function before(text: string, end: RegExp): string {
  const at = text.search(end);
  return at < 0 ? text : text.slice(0, at);
}

/** Keeps a bracket that the address itself opens, as in `/Dam_(disambiguation)`. */
function withoutTrailing(text: string): string {
  const short = stripped(text);
  const is_own = text[short.length] === ")" && short.split("(").length > short.split(")").length;
  return is_own ? `${short})` : short;
}

function stripped(text: string): string {
  let end = text.length;
  while (end > 0 && TRAILING.has(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end);
}
