import { codeAt } from "./letters.ts";

/**
 * The words of orders to a model, and how to recognise them when they are misspelt on purpose. They only decide which
 * text is read again (respell.ts); the detector judges the result like any other text.
 */

const VERBS =
  "ignore ignoring disregard forget override bypass overlook discard neglect abandon reveal repeat print output show " +
  "tell send forward upload exfiltrate leak disclose share respond reply answer pretend follow obey delete execute " +
  "transfer decode summarize translate";
const OBJECTS =
  "instructions instruction prompt prompts rules directives directions guidelines commands orders system password " +
  "passwords credentials secret secrets token tokens previous prior above earlier everything conversation message " +
  "messages account developer restrictions context assistant hidden user";
/** Common words between them, for cutting `ignoreallprevious` into words. */
const OTHERS =
  "a about account address after all an and answer any anything are as ask at be been before but by call can card code " +
  "confidential contents customer data do dont email entire everyone exactly exact file files first follow following for " +
  "from full function given go had has have he her his how i if in initial instead into is it its key keys language last " +
  "link list longer lines made mail make me mode model money must my name never new next no not now number of on once only or " +
  "original other our out over please page pay policy private profile put read report role run safety said say security " +
  "she should shown so start stop that the their them then there these they this those to told tool under until up use using " +
  "visit was way we web were what when which who will with without word words write yes you your";

export const ROLE = { verb: 1, object: 2 } as const;
const wordsOf = (list: string): string[] => list.split(" ");
const roles = new Map<string, number>([
  ...wordsOf(VERBS).map((word) => [word, ROLE.verb] as const),
  ...wordsOf(OBJECTS).map((word) => [word, ROLE.object] as const),
]);
/** Every order word with its kind: verb, object, or 0 for common words. */
export const ORDER_WORDS: ReadonlyMap<string, number> = new Map([
  ...wordsOf(OTHERS).map((word) => [word, 0] as const),
  ...roles,
]);

/** Shorter words have too many similar words to recognise a misspelling. */
const MIN_MISSPELT = 5;
const MIN_DROPPED = 6;
const MIN_SKELETON = 3;

const ALPHABET = "abcdefghijklmnopqrstuvwxyz";
const LETTERS = ALPHABET.length;

/** Treats `l` and `i` as one letter, because leet writes `1` and `!` for both. */
const canonical = (word: string): string => word.replaceAll("l", "i");
function squeezed(word: string): string {
  let once = word.slice(0, 1);
  for (let at = 1; at < word.length; at++) if (word[at] !== word[at - 1]) once += word[at];
  return once;
}

/** Sorts the inner letters, so that words with swapped inner letters become equal. */
function sorted(word: string): string {
  const counts = new Uint8Array(LETTERS);
  for (let at = 1; at < word.length - 1; at++) {
    const letter = word.charCodeAt(at) - 97;
    counts[letter] = (counts[letter] as number) + 1;
  }
  let inner = "";
  for (let letter = 0; letter < LETTERS; letter++) {
    for (let left = counts[letter] as number; left > 0; left--) inner += ALPHABET[letter];
  }
  return (word[0] ?? "") + inner + (word.at(-1) ?? "");
}
const skeleton = (word: string): string => squeezed(word.replace(/[aeiou]/g, ""));
const keys = [...roles.keys()];
const misspelt = keys.filter((word) => word.length >= MIN_MISSPELT);

/** Key words by each of their recognised forms. The first forms are the most certain and are tried first. */
const FORMS = {
  exact: new Map([...ORDER_WORDS.keys()].map((word) => [canonical(word), word])),
  squeezed: new Map(
    [...ORDER_WORDS.keys()].filter((word) => word.length > 2).map((word) => [squeezed(canonical(word)), word]),
  ),
  sorted: new Map(misspelt.map((word) => [sorted(canonical(word)), word])),
  skeleton: new Map(
    misspelt.filter((word) => skeleton(word).length >= MIN_SKELETON).map((word) => [skeleton(word), word]),
  ),
  dropped: new Map(
    misspelt
      .filter((word) => word.length >= MIN_DROPPED)
      .flatMap((word) => dropped(canonical(word)).map((each) => [each, word] as const)),
  ),
};

/** All forms of the word without one letter; the first and last letter stay. */
function dropped(word: string): string[] {
  return [...word.slice(1, -1)].map((_letter, at) => word.slice(0, at + 1) + word.slice(at + 2));
}

/** The forms of all key words, and the squeezed forms of every order word, for a lookup table (survey.ts). */
export function keyForms(): Record<"exact" | "every" | "squeezed" | "sorted" | "skeletons", string[]> {
  return {
    exact: keys,
    every: [...ORDER_WORDS.keys()].map((word) => squeezed(canonical(word))),
    squeezed: [
      ...keys.filter((word) => word.length > 2).map((word) => squeezed(canonical(word))),
      ...FORMS.dropped.keys(),
    ],
    sorted: [...FORMS.sorted.keys()],
    skeletons: [...FORMS.skeleton.keys()],
  };
}

/**
 * Returns the order word that `word` probably means, if any.
 * @param word letters a to z
 */
export function nearestOrderWord(word: string): string | undefined {
  if (ORDER_WORDS.has(word)) return word;
  const like = canonical(word);
  const known = FORMS.exact.get(like) ?? FORMS.squeezed.get(squeezed(like));
  if (known !== undefined || word.length < MIN_SKELETON) return known;
  const bare = /[aeiou]/.test(word.slice(1)) ? undefined : FORMS.skeleton.get(skeleton(word));
  return bare ?? FORMS.sorted.get(sorted(like)) ?? FORMS.dropped.get(like);
}

/**
 * A trie of the order words, from last letter to first. Each node has 27 slots; the last holds the word that ends
 * there.
 */
const NODE = LETTERS + 1;
/** The value of a word's end: its number from 1 up, and above these bits whether it is a verb or an object. */
const WORD_BITS = 12;
const tree = readBackwards([...FORMS.exact.keys()]);
const words = [...FORMS.exact.values()];

function readBackwards(forms: readonly string[]): Int32Array {
  const nodes = new Int32Array(NODE * (1 + forms.join("").length));
  let next = NODE;
  forms.forEach((form, index) => {
    let node = 0;
    for (let at = form.length - 1; at >= 0; at--) {
      const place = node + form.charCodeAt(at) - 97;
      if (nodes[place] === 0) {
        nodes[place] = next;
        next += NODE;
      }
      node = nodes[place] as number;
    }
    nodes[node + LETTERS] = (index + 1) | ((roles.get(FORMS.exact.get(form) ?? "") ?? 0) << WORD_BITS);
  });
  return nodes.slice(0, next);
}

/** @param letters a to z, `l` as `i` */
const childOf = (node: number, letters: string, at: number): number => tree[node + codeAt(letters, at) - 97] as number;

/** Cuts letters into order words with as few letters left over as possible. Leftover letters stay together. */
export function cutIntoWords(letters: string): string {
  const like = canonical(letters);
  const costs = new Int32Array(like.length + 1);
  const cuts = new Int32Array(like.length + 1);
  const found = new Int32Array(like.length + 1);
  for (let end = 1; end <= like.length; end++) {
    let cost = (costs[end - 1] as number) + 2;
    let cut = -1;
    let node = 0;
    for (let start = end - 1; start >= 0; start--) {
      node = childOf(node, like, start);
      if (node === 0) break;
      const word = tree[node + LETTERS] as number;
      // On equal cost prefer the longer word, but prefer no word over one that gains nothing.
      const own = (costs[start] as number) + 1;
      if (word === 0 || own > cost || (own === cost && cut < 0)) continue;
      cost = own;
      cut = start;
      found[end] = (word & ((1 << WORD_BITS) - 1)) - 1;
    }
    costs[end] = cost;
    cuts[end] = cut;
  }
  const parts: string[] = [];
  for (let end = like.length; end > 0; ) {
    let start = cuts[end] as number;
    if (start >= 0) parts.push(words[found[end] as number] as string);
    else {
      for (start = end - 1; start > 0 && (cuts[start] as number) < 0; ) start--;
      parts.push(letters.slice(start, end));
    }
    end = start;
  }
  return parts.reverse().join(" ");
}

/** Whether letters without spaces contain the words of an order. */
export function mayHoldOrder(letters: string): boolean {
  const like = canonical(letters);
  let held = 0;
  for (let end = like.length; end > 0; end--) {
    let node = 0;
    for (let start = end - 1; start >= 0; start--) {
      node = childOf(node, like, start);
      if (node === 0) break;
      held |= (tree[node + LETTERS] as number) >> WORD_BITS;
    }
    if (held === (ROLE.verb | ROLE.object)) return true;
  }
  return false;
}
