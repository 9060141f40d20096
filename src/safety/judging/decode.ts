import { isUtf8 } from "node:buffer";
import { codeAt, UPRIGHT } from "./letters.ts";

/** Decodes runs of code in a text: base64, numbers for letters, escapes, references, Morse, upside-down letters. */

/** A stretch of a text and its decoded text. */
export interface Decoded {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** true: people cannot read it as written (base64, hexadecimal), unlike a space written `%20`. */
  readonly is_opaque: boolean;
}

/** The deepest nesting of code within code that is decoded. */
const MAX_DEPTH = 3;
/** The most runs that are decoded per text. */
const MAX_RUNS = 200;
const MAX_TEXT = 20_000;

interface Code {
  /** Every text with such a run contains one of these. This is the fastest check. */
  readonly signs?: readonly string[];
  /** A cheap pattern that matches every text with such a run. */
  readonly gate?: RegExp;
  /** Finds the runs. */
  readonly run: RegExp | ((text: string) => Iterable<{ index: number; 0: string }>);
  /** Whether a word may continue directly into the run. */
  readonly has_head?: boolean;
  readonly read: (run: string) => string;
}

const utf8 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");
/** Decodes UTF-8. Returns "\ufffd", which counts as unreadable, for invalid bytes. */
const wellFormed = (bytes: Buffer): string => (isUtf8(bytes) ? bytes.toString("utf8") : "\ufffd");
const fromBase64 = (run: string): string => {
  const plain = run.replace(/[^A-Za-z0-9+/_-]/g, "");
  const text = wellFormed(Buffer.from(plain, "base64"));
  if (readableText(text) !== undefined) return text;
  const bare = /[_-]/.test(plain) ? wellFormed(Buffer.from(plain.replace(/[_-]/g, ""), "base64")) : text;
  return readableText(bare) !== undefined
    ? bare
    : wellFormed(Buffer.from(Buffer.from(plain, "latin1").reverse().toString("latin1"), "base64"));
};
const fromHex = (run: string): string => utf8(Buffer.from(run.replace(/0x|[^0-9a-f]/gi, ""), "hex"));
const fromNumbers =
  (radix: number) =>
  (run: string): string =>
    (run.match(/\w+/g) ?? []).map((number) => String.fromCharCode(Number.parseInt(number, radix))).join("");
const codePoint = (code: number): string => (code > 0 && code < 0x110000 ? String.fromCodePoint(code) : " ");
const NAMED: Record<string, string> = {
  nbsp: " ",
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  shy: "",
  ensp: " ",
  emsp: " ",
};

/** The shortest run that is decoded, in characters: 24 of base64, or 12 bytes in hexadecimal. */
const MIN_RUN = 24;
const IS_BASE64 = oneOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-");
const IS_HEX = oneOf("0123456789abcdefABCDEF:,\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff");
IS_HEX.fill(1, 0x2000, 0x200b);
const SOME_HEX = /[2-7][0-9a-f]{5}|[2-7][0-9a-f][\s:,][2-7][0-9a-f][\s:,][2-7]/i;
const HEX = /(?<![0-9a-f])(?:[0-9a-f]{2}[\s:,]?){12,10000}/gi;

function oneOf(chars: string): Uint8Array {
  const table = new Uint8Array(1 << 16);
  for (const char of chars) table[char.charCodeAt(0)] = 1;
  return table;
}

/**
 * Finds runs of at least MIN_RUN characters. It tests every MIN_RUN-th position, because a pattern would start at every
 * letter.
 */
function longRuns(text: string, isPart: Uint8Array): { index: number; 0: string }[] {
  const runs: { index: number; 0: string }[] = [];
  const { length } = text;
  for (let at = MIN_RUN - 1; at < length; at += MIN_RUN) {
    if (isPart[codeAt(text, at)] === 0) continue;
    let index = at;
    while (index > 0 && isPart[codeAt(text, index - 1)] === 1) index--;
    while (at < length && isPart[codeAt(text, at)] === 1) at++;
    if (at - index >= MIN_RUN) runs.push({ index, 0: text.slice(index, at) });
  }
  return runs;
}

function hexRuns(text: string): { index: number; 0: string }[] {
  const stretches = longRuns(text, IS_HEX);
  if (stretches.length === 0 || !SOME_HEX.test(text)) return [];
  return stretches.flatMap((stretch) =>
    Array.from(stretch[0].matchAll(HEX), (run) => ({ index: stretch.index + run.index, 0: run[0] })),
  );
}

const CODES: readonly Code[] = [
  {
    run: (text) => longRuns(text, IS_BASE64),
    read: fromBase64,
  },
  {
    // Base64 in short lines or groups: two neighbouring words with a capital or digit after a small letter.
    gate: /[a-z0-9][A-Z]\S{0,80}\s{1,3}\S{0,80}?[a-z0-9][A-Z]/,
    run: /(?<![A-Za-z0-9+/])(?:(?=[a-z+/]{0,40}[A-Z0-9])[A-Za-z0-9+/]{4,80}["' \n,+]{1,6}){2,400}[A-Za-z0-9+/]{2,80}={0,2}/g,
    read: fromBase64,
  },
  {
    run: hexRuns,
    read: fromHex,
  },
  {
    signs: ["0x", "0X"],
    gate: /0x[0-9a-f]{2}/i,
    run: /(?:0x[0-9a-f]{2}[\s,;]{1,3}){8,5000}/gi,
    read: fromHex,
  },
  {
    signs: ["%"],
    gate: /%[0-9a-f]{2}/i,
    run: /(?:%[0-9a-f]{2}[^\s%]{0,40}){3,4000}/gi,
    has_head: true,
    read: (run) =>
      utf8(
        Buffer.from(
          run.replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
          "latin1",
        ),
      ),
  },
  {
    signs: ["&"],
    gate: /&(?:#|nbsp;)/,
    run: /(?:&(?:#x?[0-9a-f]{1,6}|[a-z]{2,6});[^&\n]{0,40}){3,4000}/gi,
    has_head: true,
    read: (run) =>
      run.replace(
        /&(?:#(x?)([0-9a-f]{1,6})|([a-z]{2,6}));/gi,
        (all, hex: string | undefined, code: string, name: string) =>
          name === undefined ? codePoint(Number.parseInt(code, hex ? 16 : 10)) : (NAMED[name.toLowerCase()] ?? all),
      ),
  },
  {
    signs: ["\\", "+"],
    gate: /\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|u\{|[01]\d\d)|U\+00/i,
    run: /(?:(?:\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\u\{[0-9a-f]{1,6}\}|\\[0-7]{2,3}|U\+[0-9a-f]{4,5})[\s,]{0,2}){8,5000}/gi,
    read: (run) =>
      run.replace(
        /(?:\\x|\\u\{?|U\+)([0-9a-f]{2,6})\}?[\s,]{0,2}|\\([0-7]{2,3})[\s,]{0,2}/gi,
        (_all, hex: string | undefined, octal: string) =>
          codePoint(hex === undefined ? Number.parseInt(octal, 8) : Number.parseInt(hex, 16)),
      ),
  },
  {
    gate: /\d{2,3}[\s,;]{1,3}\d{2,3}[\s,;]{1,3}\d{2,3}[\s,;]{1,3}\d{2,3}/,
    run: /(?<!\d)(?:(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])[\s,;]{1,3}){11,5000}(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])(?!\d)/g,
    read: fromNumbers(10),
  },
  {
    // The position of each letter in the alphabet.
    gate: /\d[-.,/|\s]{1,3}\d{1,2}[-.,/|\s]{1,3}\d{1,2}[-.,/|\s]{1,3}\d{1,2}[-.,/|\s]{1,3}\d/,
    run: /(?<![\d.])(?:(?:1\d|2[0-6]|[1-9])[-.,/|\s]{1,3}){15,2000}(?:1\d|2[0-6]|[1-9])(?!\d)/g,
    read: fromPlaces,
  },
  {
    gate: /[01]{7}/,
    run: /(?<![\d])(?:0?1[01]{6}|00[01]{6})(?:[\s,]{0,2}(?:0?1[01]{6}|00[01]{6})){7,5000}(?!\d)/g,
    read: (run) =>
      fromNumbers(2)(
        run.replace(/[\s,]/g, "").length % 8 === 0 ? run.replace(/[\s,]/g, "").replace(/.{8}/g, "$& ") : run,
      ),
  },
  {
    gate: /[.\-−–·]{1,5} [.\-−–·]{1,5} [.\-−–·]{1,5}/,
    run: /(?:[.\-−–·]{1,5}[ /|]{1,3}){12,5000}[.\-−–·]{0,5}/g,
    read: fromMorse,
  },
  {
    gate: /[ɐǝɹʇ]/,
    run: turnedLines,
    read: fromTurned,
  },
  {
    // `ignore`, `prompt`, `instruct`, `reveal`, `system` in ROT47.
    signs: ["?@", "@>", "F4", "f4", "62=", "6>"],
    gate: /:8\?@C6|AC@>AE|:?DECF4E|C6G62=|DJDE6>/i,
    run: /[^\n]{20,2000}/g,
    read: (run) => run.replace(/[!-~]/g, (char) => String.fromCharCode(33 + ((char.charCodeAt(0) + 14) % 94))),
  },
];

const MORSE = new Map(
  "a.- b-... c-.-. d-.. e. f..-. g--. h.... i.. j.--- k-.- l.-.. m-- n-. o--- p.--. q--.- r.-. s... t- u..- v...- w.-- x-..- y-.-- z--.. 0----- 1.---- 2..--- 3...-- 4....- 5..... 6-.... 7--... 8---.. 9----."
    .split(" ")
    .map((entry) => [entry.slice(1), entry.slice(0, 1)]),
);

function fromMorse(run: string): string {
  const words = run
    .replace(/[−–]/g, "-")
    .replace(/·/g, ".")
    .split(/ *[/|] *| {2,3}/);
  return words
    .map((word) =>
      word
        .split(" ")
        .map((sign) => MORSE.get(sign) ?? "")
        .join(""),
    )
    .join(" ");
}

/**
 * The most common separator separates letters, the others separate words. If there is only one, pairs of it separate
 * words.
 */
function fromPlaces(run: string): string {
  const joints = Map.groupBy(run.match(/\D+/g) ?? [], (joint) => joint);
  const [joint = ""] = [...joints].toSorted(([, some], [, others]) => others.length - some.length)[0] ?? [];
  const text = run.replace(/(\d+)(\D*)/g, (_all, place: string, next: string) => {
    return String.fromCharCode(96 + Number(place)) + (next === joint ? "" : " ");
  });
  return joints.size > 1 ? text : text.replace(/../g, "$& ");
}

const MIN_TURNED = 8;
const TURNED_LETTER = /[ɐɔǝɟƃɥᴉıɾʞɯɹʇʌʍʎ]/g;

function turnedLines(text: string): RegExpExecArray[] {
  return [...text.matchAll(/[^\n]{20,2000}/g)].filter(
    ([line]) => (line.match(TURNED_LETTER)?.length ?? 0) >= MIN_TURNED,
  );
}

/** Decodes upside-down text, reversed or letter by letter. */
function fromTurned(run: string): string {
  const letters = Array.from(run, (letter) => UPRIGHT.get(letter) ?? letter);
  return `${letters.toReversed().join("")}\n${letters.join("")}`;
}

const CONTROLS = /[\p{Cc}\p{Cf}]/gu;
/**
 * A text with a larger share of control characters is not decoded. A few are ignored: they only disturb the detector.
 */
const MAX_CONTROLS_SHARE = 0.6;

/** Returns the text if it consists of letters and marks only and contains words. */
function readableText(text: string): string | undefined {
  if (text.includes("\ufffd")) return undefined;
  const plain = text.replace(CONTROLS, (char) => (char === "\n" || char === "\t" ? char : ""));
  if (plain.length < text.length * (1 - MAX_CONTROLS_SHARE) || plain.length < 8) return undefined;
  return /^[\p{L}\p{N}\p{P}\p{S}\p{M}\s]+$/u.test(plain) ? plain : undefined;
}

/** Finds all runs of code that decode to text. Linear: each pattern is bounded and runs only after its gate. */
export function decodedRuns(text: string, depth = MAX_DEPTH): Decoded[] {
  const found: Decoded[] = [];
  for (const { signs, gate, run, read, has_head } of CODES) {
    if (signs?.some((sign) => text.includes(sign)) === false || gate?.test(text) === false) continue;
    let left = MAX_RUNS;
    for (const match of run instanceof RegExp ? text.matchAll(run) : run(text)) {
      if (left-- === 0) break;
      const head =
        has_head === true ? (/\S{0,40}$/.exec(text.slice(Math.max(0, match.index - 40), match.index))?.[0] ?? "") : "";
      const code = head + match[0].slice(0, MAX_TEXT);
      const said = readableText(read(code));
      if (said === undefined || said === code) continue;
      const is_opaque = read === fromBase64 || read === fromHex;
      const span = { start: match.index - head.length, end: match.index + match[0].length };
      if (/\p{L}{2}[^\p{L}]+\p{L}{2}/u.test(said)) found.push({ ...span, text: said, is_opaque });
      if (depth > 1)
        found.push(...decodedRuns(said, depth - 1).map((inner) => ({ ...span, text: inner.text, is_opaque })));
    }
  }
  return found;
}
