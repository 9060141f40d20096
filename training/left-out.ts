import { createHash } from "node:crypto";
import type { Clusters } from "../src/safety/judging/clusters.ts";
import type { Model } from "../src/safety/judging/model.ts";
import { isDiscussing, type Page } from "./data.ts";
import { type Bag, learn } from "./learn.ts";
import { marginOf } from "./outcome.ts";

/**
 * Models that have learnt neither a page nor its source. The sources of a folder of data are in six groups, its pages in
 * three folds. The model of a lot, a group and a fold together, has learnt nothing of either.
 */

/** Collections of the same authors or topics are in one group. Web pages have none: each is a source of its own. */
const GROUPS = [
  /^agent-threat-rules/,
  /^bipia/,
  /^cyberseceval|purplellama$/,
  /^injecagent|owasp-cheatsheets$/,
  /^payloadsallthethings|prompt-engineering-guide$/,
  /spikee$/,
];
export const FOLDS = 3;
/** The logit from which a window counts as an instruction. The constants of judging/context.ts are made for it. */
export const THRESHOLD = 1;
/** The share of ordinary pages above the threshold. On pages of other collections it is about twice as large. */
const ORDINARY_ABOVE = 0.002;
/** The rules for the whole page depend on the offset too, so it is found in a few steps. */
const STEPS = 4;

/** The lot of the model that judges the page. */
function lotOf({ source, carrier, id }: Page): number {
  const group = groupOf(source);
  // A web page is judged by the models of one group, so that each page counts once.
  return (group < 0 ? hashOf(id) % GROUPS.length : group) * FOLDS + foldOf(carrier);
}

export function foldOf(carrier: string): number {
  return hashOf(carrier) % FOLDS;
}

function groupOf(source: string): number {
  return GROUPS.findIndex((group) => group.test(source));
}

function hashOf(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32LE(0);
}

/** Returns for a page the model that has not learnt it, with `offset` added to its logits. */
export type Judges = (page: Page, offset: number) => Model;

/** Learns the model of each lot. */
export function leftOutJudges(bags: readonly Bag[], clusters: Clusters): Judges {
  const models = Array.from({ length: GROUPS.length * FOLDS }, (_, lot): Model => {
    console.error(
      `learning without group ${Math.floor(lot / FOLDS) + 1} of ${GROUPS.length}, fold ${(lot % FOLDS) + 1}`,
    );
    return { ...learn(bags.filter((bag) => !isInLot(bag, lot))), threshold: THRESHOLD, clusters };
  });
  return (page, offset) => {
    const model = models[lotOf(page)] as Model;
    return { ...model, bias: model.bias + offset };
  };
}

function isInLot({ source, carrier }: Bag, lot: number): boolean {
  const group = Math.floor(lot / FOLDS);
  const isOfGroup = source !== undefined && groupOf(source) === group;
  return isOfGroup || (carrier !== undefined && foldOf(carrier) === lot % FOLDS);
}

/** A page and how far its strongest window is above the threshold, in logits. */
interface Placed {
  readonly page: Page;
  readonly margin: number;
}

/**
 * The offset of the logits with which few ordinary pages are above the threshold, when each is judged by a model that has
 * not learnt it.
 */
export function chooseOffset(judges: Judges, pages: readonly Page[]): { offset: number; ordinary: readonly Placed[] } {
  const honest = pages.filter((page) => !page.is_attack && !isDiscussing(page));
  let offset = 0;
  for (let step = 1; ; step++) {
    const ordinary = honest.map((page) => ({ page, margin: marginOf(judges(page, offset), page) }));
    const excess = marginToKeep(ordinary);
    console.error(`offset ${offset.toFixed(2)}: ${excess.toFixed(2)} logits too high`);
    if (Math.abs(excess) < 0.01 || step === STEPS) return { offset, ordinary };
    offset -= excess;
  }
}

/** The margin that ORDINARY_ABOVE of the pages exceed, interpolated. */
export function marginToKeep(ordinary: readonly Placed[]): number {
  const margins = ordinary.map(({ margin }) => margin).sort((a, b) => b - a);
  const place = Math.max(0, ORDINARY_ABOVE * margins.length - 0.5);
  const [above = 0, below = above] = margins.slice(Math.floor(place));
  return above + (below - above) * (place % 1);
}
