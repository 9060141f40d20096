import { createRandom } from "./grammar.ts";

/** Measures of a classifier, with intervals, and the picture of its ROC. */

export interface Scored {
  readonly is_attack: boolean;
  readonly score: number;
}

/** A figure with its 95% interval. */
export interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

const RESAMPLES = 400;

/** Resamples the items with replacement. The seed is fixed. */
export function bootstrap<Item>(items: readonly Item[], figure: (items: readonly Item[]) => number): Interval {
  const random = createRandom(5);
  const values = Array.from({ length: RESAMPLES }, () => {
    return figure(Array.from(items, () => items[Math.floor(random() * items.length)] as Item));
  }).sort((a, b) => a - b);
  const at = (share: number) => values[Math.floor(share * RESAMPLES)] ?? Number.NaN;
  return { value: figure(items), low: at(0.025), high: at(0.975) };
}

/** How often an attack has a higher score than an honest text. A tie counts half. */
export function areaUnderCurve(items: readonly Scored[]): number {
  const sorted = items.toSorted((a, b) => a.score - b.score);
  const attacks = items.filter(({ is_attack }) => is_attack).length;
  let ranks = 0;
  for (let from = 0; from < sorted.length; ) {
    let to = from;
    while (to < sorted.length && sorted[to]?.score === sorted[from]?.score) to++;
    for (let at = from; at < to; at++) if (sorted[at]?.is_attack) ranks += (from + to + 1) / 2;
    from = to;
  }
  return (ranks - (attacks * (attacks + 1)) / 2) / Math.max(1, attacks * (items.length - attacks));
}

/** The share of attacks above the score that this share of the honest texts exceeds. */
export function recallAt(items: readonly Scored[], share: number): number {
  const honest = scores(items, false).sort((a, b) => b - a);
  const threshold = honest[Math.floor(share * honest.length)] ?? 1;
  const attacks = scores(items, true);
  return attacks.filter((score) => score > threshold).length / Math.max(1, attacks.length);
}

function scores(items: readonly Scored[], is_attack: boolean): number[] {
  return items.filter((item) => item.is_attack === is_attack).map(({ score }) => score);
}

const SIZE = 360;
const LEFT = 50;

/** An SVG of recall by false positives, up to 10%. */
export function rocPicture(items: readonly Scored[]): string {
  const most = 0.1;
  const points = Array.from({ length: 101 }, (_, at) => {
    const share = (at / 100) * most;
    return `${(LEFT + (share / most) * SIZE).toFixed(1)},${(SIZE + 20 - recallAt(items, share) * SIZE).toFixed(1)}`;
  });
  const across = [0, 2, 4, 6, 8, 10].map(
    (tick) => `<text x="${LEFT + (tick / 10) * SIZE}" y="${SIZE + 38}" text-anchor="middle">${tick}%</text>`,
  );
  const up = [0, 20, 40, 60, 80, 100].map(
    (tick) =>
      `<path d="M${LEFT} ${SIZE + 20 - (tick / 100) * SIZE}h${SIZE}" stroke="#ddd"/><text x="${LEFT - 6}" y="${SIZE + 24 - (tick / 100) * SIZE}" text-anchor="end">${tick}%</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE + 80} ${SIZE + 70}" font-family="sans-serif" font-size="12" fill="#333">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    ...up,
    ...across,
    `<polyline points="${points.join(" ")}" fill="none" stroke="#1565c0" stroke-width="2"/>`,
    `<text x="${LEFT + SIZE / 2}" y="${SIZE + 60}" text-anchor="middle">honest pages above the threshold</text>`,
    `<text x="${LEFT}" y="12">attacks above the threshold</text>`,
    "</svg>",
    "",
  ].join("\n");
}
