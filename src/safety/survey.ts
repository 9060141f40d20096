import { LEET, LOOKALIKES } from "./letters.ts";
import { keyForms, ORDER_WORDS, ROLE } from "./order-words.ts";

/** What one quick pass over a folded text tells of the words in it, to know where a second look is worth its time. */
export interface Signs {
  readonly words: number;
  /** Key words of orders (order-words.ts) as they are written. */
  readonly verbs: number;
  readonly objects: number;
  /** Key words misspelt, or in look-alikes or leet. */
  readonly disguised: number;
  /** Key words written backwards, and with each letter moved along the alphabet. */
  readonly reversed: number;
  readonly shifted: number;
  /** Words in which something only stands for a letter, numbers apart. */
  readonly masked: number;
  /** Most words of up to three letters in a row. */
  readonly short_run: number;
  readonly longest: number;
  /** Places where a mark that is no space, and no ordinary joint of words, stands inside a word. */
  readonly joints: number;
}

const OTHER_LETTER = 64;
const MASKED = 32;
const LETTER = 31;
/** Of each code unit: 1 to 26 for a letter and what stands for one, and whether it only stands for it. */
const CLASSES = classes();
/** Of each hash of a word's form: which forms have it. A wrong hit costs a second look, no more. */
const HITS = new Uint8Array(1 << 16);
const HIT = { verb: 1, object: 2, squeezed: 4, sorted: 8, skeleton: 16, reversed: 32, shifted: 64 } as const;
/** The letters `i` and `l`, which count as one. */
const I = 9;
const L = 12;
const VOWELS = new Uint8Array(32);
for (const vowel of "aeiou") VOWELS[vowel.charCodeAt(0) - 96] = 1;
/** A number for each letter, the sum of which does not tell their order. */
const SCATTERED = Uint32Array.from(
  { length: 32 },
  (_, letter) => Math.imul(letter + 1, 0x9e3779b1) ^ Math.imul(letter + 7, 0x85ebca6b),
);
const MARKS = new Set(Array.from("*_~`·•|^\\=…‧∙⋅", (mark) => mark.charCodeAt(0)));

const MIN_WORD = 3;
const MIN_TURNED = 6;
const MAX_SHORT = 3;

function classes(): Uint8Array {
  const table = new Uint8Array(1 << 16);
  for (let code = 0x80; code < 0x10000; code++) {
    if (code > 0xbf && /\p{L}/u.test(String.fromCharCode(code))) table[code] = OTHER_LETTER;
  }
  for (let letter = 1; letter <= 26; letter++) table[64 + letter] = table[96 + letter] = letter;
  for (const [from, to] of [...LOOKALIKES, ...Object.entries(LEET)])
    table[from.charCodeAt(0)] = (to.charCodeAt(0) - 96) | MASKED;
  return table;
}

/** Hashes of one word, letter by letter. */
const word = {
  length: 0,
  masked: false,
  lettered: false,
  foreign: false,
  exact: 0,
  squeezed: 0,
  sum: 0,
  first: 0,
  last: 0,
  bare: 0,
  bare_last: 0,
  vowels: 0,
  shifted: 0,
  raw: 0,
};

function begin(): void {
  word.length = word.exact = word.squeezed = word.sum = word.last = word.bare = word.bare_last = word.vowels = 0;
  word.shifted = word.raw = 0;
  word.masked = word.foreign = word.lettered = false;
}

const BASE = 0x01000193;

function add(entry: number, isDigit: boolean): void {
  if (!isDigit) word.lettered = true;
  const raw = entry & LETTER;
  const letter = raw === L ? I : raw;
  if (entry > LETTER) {
    if (entry === OTHER_LETTER) word.foreign = true;
    word.masked = true;
  }
  word.exact = Math.imul(word.exact ^ raw, BASE);
  if (word.length === 0) word.first = letter;
  else word.shifted = Math.imul(word.shifted ^ ((raw - word.raw + 26) % 26), BASE);
  word.raw = raw;
  if (letter !== word.last) word.squeezed = Math.imul(word.squeezed ^ letter, BASE);
  if (VOWELS[raw] === 1) {
    if (word.length > 0) word.vowels++;
  } else {
    if (raw !== word.bare_last) word.bare = Math.imul(word.bare ^ raw, BASE);
    word.bare_last = raw;
  }
  word.sum = (word.sum + (SCATTERED[letter] as number)) | 0;
  word.last = letter;
  word.length++;
}

/** A place in HITS; the kind of the form is part of it. */
function place(hash: number, kind: number): number {
  const mixed = Math.imul(hash ^ Math.imul(kind, 0x27d4eb2f), 0x85ebca6b);
  return (mixed ^ (mixed >>> 15)) & 0xffff;
}

const sortedHash = (): number => word.sum ^ Math.imul(word.first * 32 + word.last, 0xc2b2ae35) ^ word.length;

function read(form: string): void {
  begin();
  for (let at = 0; at < form.length; at++) add(CLASSES[form.charCodeAt(at)] as number, false);
}

function mark(hash: number, kind: number): void {
  const at = place(hash, kind);
  HITS[at] = (HITS[at] as number) | kind;
}

function fillHits(): void {
  const forms = keyForms();
  for (const key of forms.exact) {
    read(key);
    mark(word.exact, ORDER_WORDS.get(key) === ROLE.verb ? HIT.verb : HIT.object);
    if (key.length >= MIN_TURNED) {
      mark(word.shifted, HIT.shifted);
      read(Array.from(key, (letter) => String.fromCharCode(219 - letter.charCodeAt(0))).join(""));
      mark(word.shifted, HIT.shifted);
    }
    read([...key].reverse().join(""));
    if (key.length >= MIN_TURNED - 1) mark(word.exact, HIT.reversed);
  }
  for (const form of forms.squeezed) {
    read(form);
    mark(word.squeezed, HIT.squeezed);
  }
  for (const form of forms.sorted) {
    read(form);
    mark(sortedHash(), HIT.sorted);
  }
  for (const form of forms.skeletons) {
    read(form);
    mark(word.bare, HIT.skeleton);
  }
}
fillHits();

const hit = (hash: number, kind: number): boolean => ((HITS[place(hash, kind)] as number) & kind) !== 0;

type Counts = { -readonly [Name in keyof Signs]: Signs[Name] };

function count(signs: Counts): void {
  signs.words++;
  if (word.length > signs.longest) signs.longest = word.length;
  if (word.foreign) return;
  if (word.masked && word.lettered) signs.masked++;
  if (word.length < MIN_WORD) return;
  const isPlain = !word.masked;
  if (isPlain && hit(word.exact, HIT.verb)) signs.verbs++;
  else if (isPlain && hit(word.exact, HIT.object)) signs.objects++;
  else if (isDisguised()) signs.disguised++;
  else if (word.length >= MIN_TURNED - 1 && hit(word.exact, HIT.reversed)) signs.reversed++;
  else if (word.length >= MIN_TURNED && hit(word.shifted, HIT.shifted)) signs.shifted++;
}

function isDisguised(): boolean {
  return (
    hit(word.squeezed, HIT.squeezed) ||
    (word.length >= 5 && hit(sortedHash(), HIT.sorted)) ||
    (word.vowels === 0 && hit(word.bare, HIT.skeleton))
  );
}

const SPACE = 32;
const BANG = 33;
const PLUS = 43;
/** Digits, and the marks of leet but `@` and `€`, come before it. */
const COLON = 58;

/** @param folded a text as fold.ts gives it */
export function survey(folded: string): Signs {
  const signs: Counts = {
    words: 0,
    verbs: 0,
    objects: 0,
    disguised: 0,
    reversed: 0,
    shifted: 0,
    masked: 0,
    short_run: 0,
    longest: 0,
    joints: 0,
  };
  let run = 0;
  begin();
  for (let at = 0; at <= folded.length; at++) {
    const code = at < folded.length ? folded.charCodeAt(at) : SPACE;
    let entry = CLASSES[code] as number;
    // At a word's end these are what they look like.
    if ((code === BANG || code === PLUS) && (CLASSES[folded.charCodeAt(at + 1)] ?? 0) === 0) entry = 0;
    if (entry !== 0) {
      add(entry, code < COLON);
      continue;
    }
    if (word.length === 0) continue;
    count(signs);
    run = word.length <= MAX_SHORT ? run + 1 : 0;
    if (run > signs.short_run) signs.short_run = run;
    if (MARKS.has(code) && folded.charCodeAt(at + 1) !== SPACE) signs.joints++;
    begin();
  }
  return signs;
}
