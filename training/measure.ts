import type { Clusters } from "../src/safety/judging/clusters.ts";
import { inContext } from "../src/safety/judging/context.ts";
import type { Weights } from "../src/safety/judging/model.ts";
import type { Piece } from "../src/safety/judging/pieces.ts";
import { piecesOf, type Window, windowsOf } from "../src/safety/judging/windows.ts";
import { normalise } from "../src/safety/reading/normalise.ts";
import { evidenceOfHiding, readable } from "../src/safety/reading/readable.ts";
import type { Page } from "./corpus.ts";
import { type Bag, bagOf, logitOf, type Sample } from "./learn.ts";

/** A text prepared for repeated judging. */
export interface JudgedText {
  readonly bag: Bag;
  readonly pieces: readonly Piece[];
  readonly windows: readonly Window[];
  /** The evidence from its form, added to its logit. */
  readonly evidence: number;
}

/** A page prepared for repeated judging. */
export interface JudgedPage {
  readonly is_attack: boolean;
  readonly source: string;
  readonly technique: string;
  readonly visible: JudgedText;
  readonly hidden: readonly JudgedText[];
}

/** A page and the logit it was given. */
export interface Measured {
  readonly is_attack: boolean;
  readonly source: string;
  readonly technique: string;
  readonly logit: number;
}

export interface Figures {
  readonly auc: number;
  readonly recall: number;
  readonly recall_at_1pct: number;
  readonly false_alarms_ordinary: number;
  readonly false_alarms_discussing: number;
  readonly recall_by_source: Readonly<Record<string, number>>;
}

/** Context cannot lift a window below this to any threshold. */
const LOWEST = -3;
const MIN_JUDGED = 12;
const MAX_JUDGED = 20_000;

export function judgedPage({ content, kind, is_attack, source, technique }: Page, clusters: Clusters): JudgedPage {
  const { text, hidden, evidence } = readable(content, kind);
  return {
    is_attack,
    source,
    technique,
    visible: judgedText(text, clusters, is_attack, evidence),
    hidden: hidden
      .filter((part) => part.text.length >= MIN_JUDGED)
      .map((part) => {
        const sample = normalise(part.text.slice(0, MAX_JUDGED)).text;
        return judgedText(sample, clusters, is_attack, evidenceOfHiding(part.technique));
      }),
  };
}

export function judgedText(text: string, clusters: Clusters, is_attack: boolean, evidence = 0): JudgedText {
  const pieces = piecesOf(text);
  const bag = bagOf(text, clusters, is_attack, 1);
  return { bag, pieces, windows: windowsOf(pieces), evidence };
}

/** Like sanitize.ts: the higher score of the visible and the hidden text. */
export function judgePage(model: Weights, page: JudgedPage): Measured {
  const logit = Math.max(...[page.visible, ...page.hidden].map((text) => judgeText(model, text)));
  return { is_attack: page.is_attack, source: page.source, technique: page.technique, logit };
}

/** Like detect.ts: the strongest window after the adjustments for context. */
export function judgeText(model: Weights, { bag, pieces, windows, evidence }: JudgedText): number {
  const judged = windows.map((window, at) => ({ ...window, logit: logitOf(model, bag.samples[at] as Sample) }));
  const { allowance, extras } = inContext(pieces, judged, LOWEST);
  return judged.reduce((most, { logit }, at) => Math.max(most, logit + (extras[at] ?? 0)), -20) - allowance + evidence;
}

/** The logit that this share of the ordinary pages exceeds: half way between two pages, so that no page equals it. */
export function thresholdAt(pages: readonly Measured[], share: number): number {
  const logits = pages
    .filter(isOrdinary)
    .map(({ logit }) => logit)
    .sort((a, b) => b - a);
  const above = Math.floor(share * logits.length);
  return ((logits[Math.max(0, above - 1)] ?? 0) + (logits[above] ?? 0)) / 2;
}

export function measure(pages: readonly Measured[], threshold: number): Figures {
  const attacks = pages.filter(({ is_attack }) => is_attack);
  const honest = pages.filter(({ is_attack }) => !is_attack);
  const flagged = (list: readonly Measured[], from = threshold) =>
    list.filter(({ logit }) => logit > from).length / Math.max(1, list.length);
  const sources = [...new Set(attacks.map(({ source }) => source))].sort();
  return {
    auc: areaUnderCurve(attacks, honest),
    recall: flagged(attacks),
    recall_at_1pct: flagged(
      attacks,
      quantileFromTop(
        honest.map(({ logit }) => logit),
        0.01,
      ),
    ),
    false_alarms_ordinary: flagged(honest.filter(isOrdinary)),
    false_alarms_discussing: flagged(honest.filter((page) => !isOrdinary(page))),
    recall_by_source: Object.fromEntries(
      sources.map((source) => [source, flagged(attacks.filter((page) => page.source === source))]),
    ),
  };
}

function isOrdinary({ is_attack, technique }: Measured): boolean {
  return !is_attack && !/discusses/.test(technique);
}

function quantileFromTop(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => b - a);
  return sorted[Math.floor(share * sorted.length)] ?? 0;
}

/** How often an attack ranks above an honest page. A tie counts half. */
function areaUnderCurve(attacks: readonly Measured[], honest: readonly Measured[]): number {
  let wins = 0;
  for (const attack of attacks) {
    for (const page of honest) wins += attack.logit > page.logit ? 1 : attack.logit === page.logit ? 0.5 : 0;
  }
  return wins / Math.max(1, attacks.length * honest.length);
}
