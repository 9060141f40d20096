/** Characters that people read as Latin letters. */

/** Look-alikes of each letter: from other scripts, small capitals, with bars and hooks, or turned. */
const LIKE: Record<string, string> = {
  a: "аαաꭺⲁᴀɐⱥąɑ",
  b: "вьβᏼⲃʙƀɓƅ",
  c: "сϲꮯⲥᴄɔȼƈꞓς",
  d: "ԁδժꭰⲇᴅđɗ",
  e: "езεեꭼⲉᴇǝɇęɛξ",
  f: "ꜰɟƒφ",
  g: "ɡցꮐɢƃǥɠ",
  h: "нһհꮋⲏʜɥħɦη",
  i: "іιիꭵⲓɪᴉɩıɨį",
  j: "јϳյꭻᴊɾɉʝ",
  k: "кκկꮶⲕᴋʞꝁƙ",
  l: "ӏլꮮⲗⳑʟłɭλ",
  m: "мμꮇⲙᴍɯɱ",
  n: "пողռⲛɴɲπ",
  o: "оοσθօꮎⲟᴏøơ",
  p: "рρքꮲⲣᴘꝑƥ",
  q: "ԛգǫʠ",
  r: "гяրꮢⲅʀɹɍɽɼ",
  s: "ѕտꮪⲋꜱʂ",
  t: "тτէꭲⲧᴛʇŧƭ",
  u: "цսնꮜⲩᴜʉųυ",
  v: "ѵվꮩᴠʌʋν",
  w: "ԝшщωպϣꮤꮃⲱᴡʍⱳ",
  x: "хχⲭ",
  y: "уγꮍʏʎɏƴ",
  z: "ζꮓⲍᴢƶȥ",
};
export const LOOKALIKES: ReadonlyMap<string, string> = new Map(
  Object.entries(LIKE).flatMap(([letter, others]) => Array.from(others, (other) => [other, letter] as const)),
);
/** Upside-down letters a to z, and variants of them. */
const TURNED = "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz";
export const UPRIGHT: ReadonlyMap<string, string> = new Map([
  ...Array.from(TURNED, (letter, at) => [letter, String.fromCharCode(97 + at)] as const),
  ...Array.from("ıᵷɓſן˙", (letter, at) => [letter, "iggjl."[at] as string] as const),
]);
export const LEET: Record<string, string> = {
  "0": "o",
  "1": "i",
  "2": "z",
  "3": "e",
  "4": "a",
  "5": "s",
  "6": "g",
  "7": "t",
  "8": "b",
  "9": "g",
  "@": "a",
  $: "s",
  "€": "e",
  "!": "i",
  "+": "t",
  "£": "l",
};

const { charCodeAt } = String.prototype;

/**
 * The code unit of a text at a place, as `text.charCodeAt(at)`, several times as fast in loops over many texts: V8 stores
 * texts in many ways and looks the method up for each.
 */
export function codeAt(text: string, at: number): number {
  return charCodeAt.call(text, at);
}

/** Every code unit, in order. */
let every = "";
for (let from = 0; from < 0x10000; from += 0x1000) {
  every += String.fromCharCode(...Uint16Array.from({ length: 0x1000 }, (_code, at) => from + at));
}

/** Writes `value` for each code unit that matches a pattern of one repeated character. */
export function fillWhere(table: Uint8Array, pattern: RegExp, value: number): void {
  for (const { index, 0: run } of every.matchAll(pattern)) table.fill(value, index, index + run.length);
}

/** Letters without a letter as compatibility form: in brackets, in dark squares and circles, and flag letters. */
const ENCLOSED = /[\u{1f150}-\u{1f169}\u{1f170}-\u{1f189}]/gu;
const BRACKETED = /[\u249c-\u24b5]{2,}/g;
const FLAGS = /(?:[\u{1f1e6}-\u{1f1ff}][\u2000-\u200a]?){5,}/gu;

/** Replaces framed letters by plain letters. */
export function unframed(text: string): string {
  const plain = text
    .replace(BRACKETED, (run) => Array.from(run, (char) => latin(char.charCodeAt(0) - 0x249c)).join(""))
    .replace(/[\u20d0-\u20ff]/g, "");
  if (!plain.includes("\ud83c")) return plain;
  return plain
    .replace(ENCLOSED, (char) => latin(((char.codePointAt(0) ?? 0) - 0x1f150) % 32))
    .replace(FLAGS, (run) =>
      Array.from(run, (char) =>
        (char.codePointAt(0) ?? 0) < 0x1f1e6 ? "" : latin((char.codePointAt(0) ?? 0) - 0x1f1e6),
      ).join(""),
    );
}

function latin(index: number): string {
  return String.fromCharCode(97 + index);
}
