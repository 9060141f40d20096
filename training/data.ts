import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import { type Clusters, readClusters } from "../src/safety/judging/clusters.ts";
import type { ContentKind } from "../src/safety/reading/readable.ts";
import { judgedTexts, ownExamples } from "./corpus.ts";
import { type Bag, bagOf, type Example } from "./learn.ts";

/** A page or document of a folder of data, as the sanitizer receives it. */
export interface Page {
  readonly id: string;
  readonly kind: ContentKind;
  readonly content: string;
  readonly is_attack: boolean;
  readonly source: string;
  readonly technique: string;
  /** The page that an attack was put into. An honest page is its own carrier. */
  readonly carrier: string;
  /** For an attack: its words, and their form in the page if it differs. */
  readonly injected?: string | null;
  readonly injected_raw?: string | null;
  /** The sentences of the page that must remain. */
  readonly keep?: readonly string[] | null;
}

/** A text of dev_strings.jsonl: an attack, or an honest one that resembles it. */
interface ShortText {
  readonly text: string;
  readonly is_attack: boolean;
  readonly source: string;
}

/** The weight of a text of each kind. Texts of training/ have their own weights. */
const WEIGHT = { string: 1, honest: 4, discussing: 2, injected: 1, attacked: 2 };

/** What the detector is trained on. */
export interface Material {
  /** The pages of the folder of data. */
  readonly pages: readonly Page[];
  readonly bags: readonly Bag[];
  readonly clusters: Clusters;
  /** The words of a cluster in each line. */
  readonly cluster_lines: readonly string[];
}

/** Reads this folder and the one named by `--data`. */
export function readMaterial(): Material {
  const { data } = parseArgs({ options: { data: { type: "string" } } }).values;
  if (data === undefined) throw new Error("--data DIR is missing: a folder with dev.jsonl and dev_strings.jsonl");
  const cluster_lines = readFileSync(join(import.meta.dirname, "clusters.txt"), "utf8")
    .trimEnd()
    .split("\n");
  const clusters = readClusters(cluster_lines);
  const pages = readRows<Page>(join(data, "dev.jsonl"));
  const examples = [...ownExamples(), ...dataExamples(pages, readRows<ShortText>(join(data, "dev_strings.jsonl")))];
  console.error(`reading ${examples.length} texts and pages`);
  return { pages, bags: examples.map((example) => bagOf(example, clusters)), clusters, cluster_lines };
}

/** Reads a file of JSON lines, or its gzipped form. */
function readRows<Row extends { is_attack: boolean }>(file: string): Row[] {
  const text = existsSync(file) ? readFileSync(file, "utf8") : gunzipSync(readFileSync(`${file}.gz`)).toString("utf8");
  // Split only on line feeds, because a line may contain U+2028.
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line))
    .map((row) => ({
      ...row,
      source: row.source.replace("discusses-injection:", ""),
      is_attack: row.label === "attack",
    }));
}

export function isDiscussing({ technique }: Page): boolean {
  return /discusses/.test(technique);
}

function dataExamples(pages: readonly Page[], strings: readonly ShortText[]): Example[] {
  const known = new Set(strings.map(({ text }) => text));
  return [
    ...strings.map(({ text, is_attack, source }) => ({ texts: [text], is_attack, source, weight: WEIGHT.string })),
    ...pages.flatMap((page) => [pageExample(page), ...injectedExample(page, known)]),
  ];
}

function pageExample(page: Page): Example {
  const { is_attack, source, carrier, injected } = page;
  const honest = isDiscussing(page) ? WEIGHT.discussing : WEIGHT.honest;
  const texts = judgedTexts(page.content, page.kind);
  if (is_attack) return { texts, is_attack, source, carrier, weight: WEIGHT.attacked, injected: injected ?? "" };
  return { texts, is_attack, source, carrier, weight: honest };
}

/** The words of an attack alone, once. */
function injectedExample({ injected, source }: Page, known: Set<string>): Example[] {
  if (injected === undefined || injected === null || known.has(injected)) return [];
  known.add(injected);
  return [{ texts: [injected], is_attack: true, source, weight: WEIGHT.injected }];
}
