import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { normalise } from "../src/safety/reading/normalise.ts";
import { type ContentKind, readable } from "../src/safety/reading/readable.ts";
import { attackSentence, benignSentence, createRandom } from "./grammar.ts";
import type { Example } from "./learn.ts";
import { readPhrases } from "./phrases.ts";
import { type TaggedText, taggedTexts } from "./texts.ts";
import { webPages } from "./web-pages.ts";

const GENERATED = 2500;
/** Pairs of phrases made for each language. */
const COMBINED = 40;
const ENCODED = 150;

/**
 * Attacks written to look honest teach distrust of honest text, and quoted attacks teach the opposite: neither gets a
 * high weight. Attacks written without looking at the detector (blind) resemble other attacks.
 */
const SPECIMEN_WEIGHT = { attack: 0.15, blind: 0.5, attack_abroad: 1, honest: 1.5, on_ai: 0.6, quoting: 0.15 } as const;

function specimenWeight(is_attack: boolean, group: string): number {
  // Other languages than English have few other examples.
  if (is_attack && /languages|abroad/.test(group)) return SPECIMEN_WEIGHT.attack_abroad;
  if (is_attack) return group.startsWith("blind-") ? SPECIMEN_WEIGHT.blind : SPECIMEN_WEIGHT.attack;
  if (/^(?:discussing|long-pages)$/.test(group)) return SPECIMEN_WEIGHT.quoting;
  return /^(?:ai-topics|pages-(?:discussing|prompting|agent-files))$/.test(group)
    ? SPECIMEN_WEIGHT.on_ai
    : SPECIMEN_WEIGHT.honest;
}

/** Texts made from one line weigh at most as much as this many. */
const LINE_WEIGHT = 4;

/** One of this many attacks is also learnt backwards and in ROT13. */
const TURNED_EVERY = 8;
const TAGGED_ATTACK_WEIGHT = 0.5;
/** Orders that no honest page gives have a high weight. */
const PLAIN = "plain";
const PLAIN_WEIGHT = 2;

function reversed(text: string): string {
  return Array.from(text).reverse().join("");
}

function rot13(text: string): string {
  return text.replace(/[a-z]/gi, (letter) =>
    String.fromCharCode(letter.charCodeAt(0) + (/[a-m]/i.test(letter) ? 13 : -13)),
  );
}

/** A shorter hidden text is not judged (sanitize.ts). */
const MIN_JUDGED = 12;

/** The visible text of a page and its hidden ones, as the detector judges them (sanitize.ts). */
export function judgedTexts(content: string, kind: ContentKind): string[] {
  const { text, hidden } = readable(content, kind);
  const others = new Set(hidden.map((part) => part.text).filter(({ length }) => length >= MIN_JUDGED));
  return [text, ...[...others].map((other) => normalise(other).text)];
}

/** Parts of a page, so that more of it is learnt than a few windows. */
function sectionsOf(page: string): string[] {
  return page.match(/[\s\S]{1,1500}(?:\n|$)|[\s\S]{1,1500}/g) ?? [];
}

/** Documents of this project. */
export function ownPages(): string[] {
  const folder = join(import.meta.dirname, "pages");
  return readdirSync(folder)
    .sort()
    .map((name) => readFileSync(join(folder, name), "utf8"));
}

/** Weighted by the number of texts of its line. */
function taggedWeight({ manner, siblings, is_attack }: TaggedText): number {
  if (manner === PLAIN) return PLAIN_WEIGHT;
  return Math.min(1, LINE_WEIGHT / siblings) * (is_attack ? TAGGED_ATTACK_WEIGHT : 1);
}

/** The corpus in this folder: written by hand, and generated. */
export function ownExamples(): Example[] {
  const random = createRandom(7);
  const tagged = taggedTexts();
  const attacks = readLines("attacks.txt");
  const benign = readLines("benign.txt");
  const learnt = specimens();
  const pick = (lines: readonly string[]) => lines[Math.floor(random() * lines.length)] ?? "";
  const own = (text: string, is_attack: boolean, weight: number): Example => ({ texts: [text], is_attack, weight });
  return [
    ...attacks.map((text) => own(text, true, 1)),
    ...benign.map((text) => own(text, false, 1.5)),
    ...learnt.map(({ text, is_attack, group }) => own(text, is_attack, specimenWeight(is_attack, group))),
    ...learnt
      .filter(({ is_attack }) => is_attack)
      .map(({ text }) => own(`${pick(benign)} ${text} ${pick(benign)}`, true, 0.3 * SPECIMEN_WEIGHT.attack)),
    // Attacks occur among honest sentences.
    ...attacks.map((text) => own(`${pick(benign)} ${text} ${pick(benign)}`, true, 0.3)),
    ...[...readPhrases("languages.txt").values()].flatMap(({ override = [], ask = [], role = [], ordinary = [] }) => [
      ...[...override, ...ask, ...role].map((text) => own(text, true, 0.4)),
      ...ordinary.map((text) => own(text, false, 1)),
      ...Array.from({ length: COMBINED }, () => own(`${pick([...override, ...role])} ${pick(ask)}`, true, 0.5)),
      ...Array.from({ length: COMBINED }, () => own(`${pick(ordinary)} ${pick(ordinary)}`, false, 0.5)),
    ]),
    // Base64 is judged decoded; the encoding counts as evidence too.
    ...attacks.slice(0, ENCODED).map((text) => own(Buffer.from(text).toString("base64"), true, 0.5)),
    ...Array.from({ length: GENERATED }, () => own(attackSentence(random), true, 0.25)),
    ...Array.from({ length: GENERATED }, () => own(benignSentence(random), false, 0.25)),
    ...tagged.map((each) => own(each.text, each.is_attack, taggedWeight(each))),
    ...tagged
      .filter(({ is_attack, language }, at) => is_attack && language === "English" && at % TURNED_EVERY === 0)
      .flatMap(({ text }) => [own(reversed(text), true, 0.3), own(rot13(text), true, 0.3)]),
    ...ownPages()
      .flatMap(sectionsOf)
      .map((text) => own(text, false, 1)),
    ...webPages(benign)
      .flatMap((page) => {
        const [visible = "", ...hidden] = judgedTexts(page, "html");
        return [...sectionsOf(visible), ...hidden];
      })
      .map((text) => own(text, false, 0.5)),
  ];
}

/** A text of corpora/: an attack of a technique, or an honest text that resembles one. */
export interface Specimen {
  readonly text: string;
  readonly is_attack: boolean;
  /** The technique or kind: the name of its file. */
  readonly group: string;
}

/** The texts in corpora/, in the order of file names; blocks between lines of three dashes, each under a header. */
export function specimens(): Specimen[] {
  const folder = join(import.meta.dirname, "corpora");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".txt"))
    .sort()
    .flatMap((name) => {
      const [, kind = "", group = ""] = /^(attacks|benign)-(.*?)(?:-\d+)?\.txt$/.exec(name) ?? [];
      const blocks = readFileSync(join(folder, name), "utf8").split(/^---\n/m);
      return blocks
        .map((block) => block.replace(/^# (?:technique|kind): [^\n]*\n/, "").trim())
        .filter((text) => text !== "")
        .map((text) => ({ text, is_attack: kind === "attacks", group }));
    });
}

function readLines(name: string): string[] {
  return readFileSync(join(import.meta.dirname, name), "utf8")
    .split(/\n(?=\S)/)
    .filter((line) => !line.startsWith("# ") || line.includes("\n"))
    .map((line) => line.replace(/^# [^\n]*\n+/, "").trim())
    .filter((line) => line !== "");
}
