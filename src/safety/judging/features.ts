import type { Clusters } from "./clusters.ts";
import { hashOf } from "./lexicon.ts";
import { NO_WORD, tokensOf } from "./tokens.ts";

/**
 * The features of a text for the detector's model: its words, the clusters of its words, and their order. A word never
 * seen in training counts like its cluster. Each feature is a hash below TABLE_SIZE, so no list of features exists.
 */

export const TABLE_SIZE = 1 << 17;

/** Kinds of feature. The same word in two kinds gives two features. */
const KIND = { word: 1, pair: 2, cluster: 3, cluster_pair: 4, cluster_skip: 5, first: 7, cue: 8 };

/** The most features per token. */
const MOST_FEATURES = 6;

/**
 * The features of a folded piece of text (fold.ts), with repetitions. The result is a buffer that the next call
 * overwrites.
 */
export function textFeatures(folded: string, clusters: Clusters): Int32Array {
  const { words, stems, meanings, count: tokens } = tokensOf(folded, clusters.lexicon);
  if (found.length < tokens * MOST_FEATURES) found = new Int32Array(tokens * MOST_FEATURES * 2);
  let count = 0;
  let beforeWord = 0;
  /** The clusters of the previous words, the latest first. */
  let last = 0;
  let second = 0;
  let third = 0;
  for (let at = 0; at < tokens; at++) {
    const own = words[at] as number;
    const known = clusters.get(own);
    // A common English word has its own meaning, even if it is a word of another language too.
    const meaning = known === 0 ? meanings[at] : undefined;
    const word = meaning?.word ?? own;
    const stem = meaning?.stem ?? (stems[at] as number);
    found[count++] = slot(KIND.word, word, 0);
    found[count++] = slot(KIND.pair, beforeWord, word);
    beforeWord = word;
    if (stem === NO_WORD) continue;
    const cluster = (meaning === undefined ? known : clusters.get(word)) || stem;
    found[count++] = slot(KIND.cluster, cluster, 0);
    found[count++] = slot(KIND.cluster_pair, last, cluster);
    if (last === 0) found[count++] = slot(KIND.first, cluster, word);
    else if (second === 0) found[count++] = slot(KIND.first, last, cluster);
    if (second !== 0) found[count++] = slot(KIND.cluster_skip, second, cluster);
    if (third !== 0) found[count++] = slot(KIND.cluster_skip, third, cluster);
    third = second;
    second = last;
    last = cluster;
  }
  return found.subarray(0, count);
}

let found = new Int32Array(1 << 12);

/**
 * The features of the cues in a folded window: one per cue, one per pair of cues, and one per number of cues reached.
 */
export function cueFeatures(cues: readonly string[]): number[] {
  const hashes = cues.map(hashOf);
  const features = hashes.map((cue) => slot(KIND.cue, cue, 0));
  hashes.forEach((cue, index) => {
    for (const other of hashes.slice(index + 1)) features.push(slot(KIND.cue, cue, other));
  });
  for (let count = 1; count <= cues.length; count++) features.push(slot(KIND.cue, 0, count));
  return features;
}

function slot(kind: number, first: number, second: number): number {
  let hash = Math.imul(first ^ Math.imul(kind, 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13) ^ Math.imul(second, 0xc2b2ae35), 0x27d4eb2f);
  return (hash ^ (hash >>> 15)) & (TABLE_SIZE - 1);
}
