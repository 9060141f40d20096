import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createRandom } from "./grammar.ts";

/** A text of texts/, with its tags. */
export interface TaggedText {
  readonly text: string;
  readonly is_attack: boolean;
  readonly manner: string;
  readonly language: string;
  /** The number of texts made from the same line. */
  readonly siblings: number;
}

const FOLDER = join(import.meta.dirname, "texts");
/** The most texts made from one line. */
const MAX_SAMPLES = 24;
/** Samples per alternative in the line, at most. */
const SAMPLES_PER_CHOICE = 1.5;

/**
 * Reads the files of texts/: `# manner: …; language: …`, then one text per line. `{a|b}` chooses one, `<slot>` takes a value of
 * slots.txt. The same lines give the same texts.
 */
export function taggedTexts(): TaggedText[] {
  const slots = readSlots();
  return readdirSync(FOLDER)
    .filter((name) => /^(attacks|benign)-.*\.txt$/.test(name))
    .sort()
    .flatMap((name) => textsOf(name, slots));
}

function textsOf(name: string, slots: ReadonlyMap<string, readonly string[]>): TaggedText[] {
  const is_attack = name.startsWith("attacks-");
  let tags = { manner: "", language: "" };
  return readFileSync(join(FOLDER, name), "utf8")
    .trimEnd()
    .split("\n")
    .flatMap((line) => {
      const [, manner = "", language = ""] = /^# manner: (.*); language: (.*)$/.exec(line) ?? [];
      if (manner !== "") {
        tags = { manner, language };
        return [];
      }
      const made = samplesOf(line, slots);
      return made.map((text) => ({ text, is_attack, ...tags, siblings: made.length }));
    });
}

/** Different texts of a line. The seed is the line, so that a new line changes no other text. */
function samplesOf(line: string, slots: ReadonlyMap<string, readonly string[]>): string[] {
  const choices = (line.match(/[|<]/g) ?? []).length;
  const random = createRandom(hashOf(line).readUInt32LE(0));
  const wanted = Math.min(MAX_SAMPLES, 1 + Math.ceil(choices * SAMPLES_PER_CHOICE));
  return [...new Set(Array.from({ length: wanted }, () => filled(chosen(line, random), slots, random)))];
}

function hashOf(line: string): Buffer {
  return createHash("sha256").update(line).digest();
}

const INNERMOST = /\{([^{}]*\|[^{}]*)\}/;

function chosen(line: string, random: () => number): string {
  let text = line;
  for (let group = INNERMOST.exec(text); group !== null; group = INNERMOST.exec(text)) {
    const options = (group[1] ?? "").split("|");
    const option = options[Math.floor(random() * options.length)] ?? "";
    text = text.slice(0, group.index) + option + text.slice(group.index + group[0].length);
  }
  return text;
}

function filled(text: string, slots: ReadonlyMap<string, readonly string[]>, random: () => number): string {
  return text.replace(/<([a-z]+\d?)>/g, (slot, name: string) => {
    const values = slots.get(name);
    return values?.[Math.floor(random() * values.length)] ?? slot;
  });
}

function readSlots(): ReadonlyMap<string, readonly string[]> {
  const lines = readFileSync(join(FOLDER, "slots.txt"), "utf8").trimEnd().split("\n");
  return new Map(
    lines.map((line) => {
      const [, name = "", values = ""] = /^@(\w+): (.*)$/.exec(line) ?? [];
      return [name, values.split(" | ")] as const;
    }),
  );
}
