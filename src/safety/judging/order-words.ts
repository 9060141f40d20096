/**
 * The words that orders to a model are made of, and how to know them again when they are misspelt on purpose. They tell
 * only where a second look is worth its time (respell.ts): what is found there is judged like any other text.
 */

const VERBS =
  "ignore ignoring disregard forget override bypass overlook discard neglect abandon reveal repeat print output show " +
  "tell send forward upload exfiltrate leak disclose share respond reply answer pretend follow obey delete execute " +
  "transfer decode summarize translate";
const OBJECTS =
  "instructions instruction prompt prompts rules directives directions guidelines commands orders system password " +
  "passwords credentials secret secrets token tokens previous prior above earlier everything conversation message " +
  "messages account developer restrictions context assistant hidden user";
/** What stands between them: words to cut `ignoreallprevious` into. */
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
/** Every word of orders with what it is in them; 0 for the small ones. */
export const ORDER_WORDS: ReadonlyMap<string, number> = new Map([
  ...wordsOf(OTHERS).map((word) => [word, 0] as const),
  ...roles,
]);

/** Shorter words have too many neighbours to be known misspelt. */
const MIN_MISSPELT = 5;
const MIN_DROPPED = 6;
const MIN_SKELETON = 3;

/** `l` and `i` are one letter: leet writes `1` and `!` for both. */
const canonical = (word: string): string => word.replaceAll("l", "i");
const squeezed = (word: string): string => word.replace(/(.)\1+/g, "$1");
/** With the inner letters in order: the same for all that only swap these. */
const sorted = (word: string): string => (word[0] ?? "") + [...word.slice(1, -1)].sort().join("") + (word.at(-1) ?? "");
const skeleton = (word: string): string => squeezed(word.replace(/[aeiou]/g, ""));
const keys = [...roles.keys()];
const misspelt = keys.filter((word) => word.length >= MIN_MISSPELT);

/** Key words by each form they are known again by. The earlier forms are surer, and go first. */
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

/** The word with one letter left out, its first and last apart. */
function dropped(word: string): string[] {
  return [...word.slice(1, -1)].map((_letter, at) => word.slice(0, at + 1) + word.slice(at + 2));
}

/** Forms of all key words, for a table to look them up by (respell.ts). */
export function keyForms(): { exact: string[]; squeezed: string[]; sorted: string[]; skeletons: string[] } {
  return {
    exact: keys,
    squeezed: [
      ...keys.filter((word) => word.length > 2).map((word) => squeezed(canonical(word))),
      ...FORMS.dropped.keys(),
    ],
    sorted: [...FORMS.sorted.keys()],
    skeletons: [...FORMS.skeleton.keys()],
  };
}

/** The order word that this stands for, if it does. @param word letters a to z */
export function meant(word: string): string | undefined {
  if (ORDER_WORDS.has(word)) return word;
  const like = canonical(word);
  const known = FORMS.exact.get(like) ?? FORMS.squeezed.get(squeezed(like));
  if (known !== undefined || word.length < MIN_SKELETON) return known;
  const bare = /[aeiou]/.test(word.slice(1)) ? undefined : FORMS.skeleton.get(skeleton(word));
  return bare ?? FORMS.sorted.get(sorted(like)) ?? FORMS.dropped.get(like);
}

const LONGEST = 12;

/** Cuts letters into order words, with as few letters left over as can be; what is left over stays in one piece. */
export function cutIntoWords(letters: string): string {
  const like = canonical(letters);
  const costs = [0];
  const cuts = [0];
  for (let end = 1; end <= like.length; end++) {
    let cost = (costs[end - 1] as number) + 2;
    let cut = -1;
    for (let start = Math.max(0, end - LONGEST); start < end; start++) {
      if ((costs[start] as number) + 1 >= cost || !FORMS.exact.has(like.slice(start, end))) continue;
      cost = (costs[start] as number) + 1;
      cut = start;
    }
    costs.push(cost);
    cuts.push(cut);
  }
  const words: string[] = [];
  for (let end = like.length; end > 0; ) {
    let start = cuts[end] as number;
    if (start < 0) for (start = end - 1; start > 0 && (cuts[start] as number) < 0; ) start--;
    words.push(FORMS.exact.get(like.slice(start, end)) ?? letters.slice(start, end));
    end = start;
  }
  return words.reverse().join(" ");
}

const anyOf = (list: string): RegExp => new RegExp(wordsOf(canonical(list)).join("|"));
const VERB_IN = anyOf(VERBS);
const OBJECT_IN = anyOf(OBJECTS);

/** Whether letters without their spaces have the words of an order in them. */
export function mayHoldOrder(letters: string): boolean {
  const like = canonical(letters);
  return VERB_IN.test(like) && OBJECT_IN.test(like);
}
