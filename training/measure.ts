import { caution } from "../src/safety/discussion.ts";
import type { Clusters } from "../src/safety/features.ts";
import type { Weights } from "../src/safety/model.ts";
import { normalise } from "../src/safety/normalise.ts";
import { evidenceOfHiding, readable } from "../src/safety/readable.ts";
import { piecesOf } from "../src/safety/windows.ts";
import type { Page } from "./corpus.ts";
import { type Bag, bagOf, logitOfBag } from "./learn.ts";

/** A page made ready to be judged many times. */
export interface JudgedPage {
  readonly is_attack: boolean;
  readonly source: string;
  readonly technique: string;
  readonly visible: Bag;
  /** What is added to the logit of the visible text. */
  readonly visible_evidence: number;
  readonly hidden: readonly { readonly bag: Bag; readonly evidence: number }[];
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

const MIN_JUDGED = 12;
const MAX_JUDGED = 20_000;

export function judgedPage({ content, kind, is_attack, source, technique }: Page, clusters: Clusters): JudgedPage {
  const { text, hidden, evidence } = readable(content, kind);
  const bags = hidden
    .filter((part) => part.text.length >= MIN_JUDGED)
    .map((part) => ({
      bag: bagOf(normalise(part.text.slice(0, MAX_JUDGED)).text, clusters, is_attack, 1),
      evidence: evidenceOfHiding(part.technique),
    }));
  const visible = bagOf(text, clusters, is_attack, 1);
  return { is_attack, source, technique, visible, visible_evidence: evidence - caution(piecesOf(text)), hidden: bags };
}

/** As sanitize.ts does: the most suspicious of what is seen and what is hidden. */
export function judgePage(model: Weights, page: JudgedPage): Measured {
  const hidden = page.hidden.map(({ bag, evidence }) => logitOfBag(model, bag) + evidence);
  const logit = Math.max(logitOfBag(model, page.visible) + page.visible_evidence, ...hidden);
  return { is_attack: page.is_attack, source: page.source, technique: page.technique, logit };
}

/** The logit that this share of the ordinary pages exceeds. */
export function thresholdAt(pages: readonly Measured[], share: number): number {
  const logits = pages.filter(isOrdinary).map(({ logit }) => logit);
  return quantileFromTop(logits, share);
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

/** How often an attack is ranked above an honest page; a tie is half. */
function areaUnderCurve(attacks: readonly Measured[], honest: readonly Measured[]): number {
  let wins = 0;
  for (const attack of attacks) {
    for (const page of honest) wins += attack.logit > page.logit ? 1 : attack.logit === page.logit ? 0.5 : 0;
  }
  return wins / Math.max(1, attacks.length * honest.length);
}
