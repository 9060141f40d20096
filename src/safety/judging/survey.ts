import { codeAt, fillWhere, LEET, LOOKALIKES } from "./letters.ts";
import { keyForms, ORDER_WORDS, ROLE } from "./order-words.ts";

/** Facts about the words of a folded text, from one fast pass. They decide whether the text is read again. */
export interface Signs {
  readonly words: number;
  /** Key words of orders (order-words.ts) as written. */
  readonly verbs: number;
  readonly objects: number;
  /** Key words that are misspelt, or written in look-alikes or leet. */
  readonly disguised: number;
  /** Key words written backwards, or with shifted letters. */
  readonly reversed: number;
  readonly shifted: number;
  /** Key words and common words in ROT13. */
  readonly rot13: number;
  /** Words that contain a look-alike of a letter, numbers excluded. */
  readonly masked: number;
  /** The longest row of words of up to three letters. */
  readonly short_run: number;
  readonly longest: number;
  /** Marks inside a word that are neither spaces nor ordinary joints of words. */
  readonly joints: number;
}

const OTHER_LETTER = 64;
const MASKED = 32;
const LETTER = 31;
/** Per code unit: 1 to 26 for a letter or a look-alike, and whether it is a look-alike. */
const CLASSES = classes();
/** Per hash of a word's form: the kinds of form that have it. A wrong hit only costs a second reading. */
const HITS = new Uint16Array(1 << 16);
const HIT = {
  verb: 1,
  object: 2,
  squeezed: 4,
  sorted: 8,
  skeleton: 16,
  reversed: 32,
  shifted: 64,
  any: 128,
  rot13: 256,
} as const;
/** The letters `i` and `l`, which count as one letter. */
const I = 9;
const L = 12;
const VOWELS = new Uint8Array(32);
for (const vowel of "aeiou") VOWELS[vowel.charCodeAt(0) - 96] = 1;
/** One number per letter. Their sum does not depend on the order of the letters. */
const SCATTERED = Uint32Array.from(
  { length: 32 },
  (_, letter) => Math.imul(letter + 1, 0x9e3779b1) ^ Math.imul(letter + 7, 0x85ebca6b),
);
const MARKS = new Set(Array.from("*_~`·•|^\\=…‧∙⋅", (mark) => mark.charCodeAt(0)));

/** Common words that give no other word when they are reversed or in ROT13. */
const COMMON = "the and you your this with from that have will what which must they".split(" ");

const MIN_WORD = 3;
const MIN_TURNED = 6;
const MAX_SHORT = 3;

function classes(): Uint8Array {
  const table = new Uint8Array(1 << 16);
  fillWhere(table, /\p{L}+/gu, OTHER_LETTER);
  table.fill(0, 0, 0xc0);
  for (let letter = 1; letter <= 26; letter++) table[64 + letter] = table[96 + letter] = letter;
  for (const [from, to] of [...LOOKALIKES, ...Object.entries(LEET)])
    table[from.charCodeAt(0)] = (to.charCodeAt(0) - 96) | MASKED;
  return table;
}

/** The hashes of the last word that was read. */
const word = { length: 0, exact: 0, squeezed: 0, sum: 0, first: 0, last: 0, bare: 0, vowels: 0, shifted: 0 };

const BASE = 0x01000193;

/** Reads a word that consists of classified code units. */
function read(text: string, from: number, to: number): void {
  let exact = 0;
  let shifted = 0;
  let squeezed = 0;
  let bare = 0;
  let bare_last = 0;
  let sum = 0;
  let vowels = 0;
  let last = 0;
  let raw = 0;
  for (let at = from; at < to; at++) {
    const before = raw;
    raw = (CLASSES[codeAt(text, at)] as number) & LETTER;
    const letter = raw === L ? I : raw;
    exact = Math.imul(exact ^ raw, BASE);
    if (at > from) shifted = Math.imul(shifted ^ (raw < before ? raw - before + 26 : raw - before), BASE);
    if (letter !== last) squeezed = Math.imul(squeezed ^ letter, BASE);
    if (VOWELS[raw] === 1) {
      if (at > from) vowels++;
    } else {
      if (raw !== bare_last) bare = Math.imul(bare ^ raw, BASE);
      bare_last = raw;
    }
    sum = (sum + (SCATTERED[letter] as number)) | 0;
    last = letter;
  }
  const initial = (CLASSES[codeAt(text, from)] as number) & LETTER;
  word.first = initial === L ? I : initial;
  word.length = to - from;
  word.exact = exact;
  word.shifted = shifted;
  word.squeezed = squeezed;
  word.bare = bare;
  word.vowels = vowels;
  word.sum = sum;
  word.last = last;
}

/** The index in HITS. The kind of form is part of the hash. */
function place(hash: number, kind: number): number {
  const mixed = Math.imul(hash ^ Math.imul(kind, 0x27d4eb2f), 0x85ebca6b);
  return (mixed ^ (mixed >>> 15)) & 0xffff;
}

const sortedHash = (): number => word.sum ^ Math.imul(word.first * 32 + word.last, 0xc2b2ae35) ^ word.length;

const readForm = (form: string): void => read(form, 0, form.length);

function mark(hash: number, kind: number): void {
  const at = place(hash, kind);
  HITS[at] = (HITS[at] as number) | kind;
}

function fillHits(): void {
  const forms = keyForms();
  for (const key of forms.exact) {
    readForm(key);
    mark(word.exact, ORDER_WORDS.get(key) === ROLE.verb ? HIT.verb : HIT.object);
    if (key.length >= MIN_TURNED) {
      mark(word.shifted, HIT.shifted);
      readForm(Array.from(key, (letter) => String.fromCharCode(219 - letter.charCodeAt(0))).join(""));
      mark(word.shifted, HIT.shifted);
    }
    readForm([...key].reverse().join(""));
    if (key.length >= MIN_TURNED - 1) mark(word.exact, HIT.reversed);
  }
  for (const common of COMMON) {
    readForm([...common].reverse().join(""));
    mark(word.exact, HIT.reversed);
  }
  for (const common of [...COMMON, ...forms.exact]) {
    readForm(rot13(common));
    mark(word.exact, HIT.rot13);
  }
  for (const form of forms.squeezed) {
    readForm(form);
    mark(word.squeezed, HIT.squeezed);
  }
  for (const form of forms.every) {
    readForm(form);
    mark(word.squeezed, HIT.any);
  }
  for (const form of forms.sorted) {
    readForm(form);
    mark(sortedHash(), HIT.sorted);
  }
  for (const form of forms.skeletons) {
    readForm(form);
    mark(word.bare, HIT.skeleton);
  }
}
fillHits();

function rot13(letters: string): string {
  return Array.from(letters, (letter) => String.fromCharCode(97 + ((letter.charCodeAt(0) - 97 + 13) % 26))).join("");
}

const hit = (hash: number, kind: number): boolean => ((HITS[place(hash, kind)] as number) & kind) !== 0;

type Counts = { -readonly [Name in keyof Signs]: Signs[Name] };

/** @param kinds the union of the classes of its letters */
function count(signs: Counts, text: string, from: number, to: number, kinds: number, isLettered: boolean): void {
  const length = to - from;
  signs.words++;
  if (length > signs.longest) signs.longest = length;
  if ((kinds & OTHER_LETTER) !== 0) return;
  const isPlain = kinds <= LETTER;
  if (!isPlain && isLettered) signs.masked++;
  if (length < MIN_WORD) return;
  read(text, from, to);
  if (isPlain && hit(word.exact, HIT.rot13)) signs.rot13++;
  if (isPlain && hit(word.exact, HIT.verb)) signs.verbs++;
  else if (isPlain && hit(word.exact, HIT.object)) signs.objects++;
  else if (isDisguised()) signs.disguised++;
  else if (hit(word.exact, HIT.reversed)) signs.reversed++;
  else if (length >= MIN_TURNED && hit(word.shifted, HIT.shifted)) signs.shifted++;
}

function isDisguised(): boolean {
  return (
    hit(word.squeezed, HIT.squeezed) ||
    (word.length >= 5 && hit(sortedHash(), HIT.sorted)) ||
    (word.vowels === 0 && hit(word.bare, HIT.skeleton))
  );
}

/** Whether the letters a to z from `from` to `to` may mean an order word. If false, `nearestOrderWord` finds none. */
export function mayMean(text: string, from: number, to: number): boolean {
  read(text, from, to);
  return (
    hit(word.squeezed, HIT.any) ||
    hit(word.squeezed, HIT.squeezed) ||
    hit(sortedHash(), HIT.sorted) ||
    (word.vowels === 0 && hit(word.bare, HIT.skeleton))
  );
}

const SPACE = 32;
const BANG = 33;
const PLUS = 43;
/** Digits, and the leet marks except `@` and `€`, come before it. */
const COLON = 58;

/** @param folded the output of fold.ts */
export function survey(folded: string): Signs {
  const signs: Counts = {
    words: 0,
    verbs: 0,
    objects: 0,
    disguised: 0,
    reversed: 0,
    shifted: 0,
    rot13: 0,
    masked: 0,
    short_run: 0,
    longest: 0,
    joints: 0,
  };
  let run = 0;
  let from = -1;
  let kinds = 0;
  let isLettered = false;
  const { length } = folded;
  for (let at = 0; at <= length; at++) {
    const code = at < length ? codeAt(folded, at) : SPACE;
    let entry = CLASSES[code] as number;
    // At the end of a word these are punctuation.
    if ((code === BANG || code === PLUS) && (CLASSES[codeAt(folded, at + 1)] ?? 0) === 0) entry = 0;
    if (entry !== 0) {
      if (from < 0) from = at;
      kinds |= entry;
      if (code >= COLON) isLettered = true;
      continue;
    }
    if (from < 0) continue;
    count(signs, folded, from, at, kinds, isLettered);
    run = at - from <= MAX_SHORT ? run + 1 : 0;
    if (run > signs.short_run) signs.short_run = run;
    if (MARKS.has(code) && codeAt(folded, at + 1) !== SPACE) signs.joints++;
    from = -1;
    kinds = 0;
    isLettered = false;
  }
  return signs;
}
