import { CUES } from "./cues.ts";

/**
 * What the detector's model sees of a text: its words, the clusters that its words belong to (so that a word never
 * seen in training counts as its neighbours do), and how these follow one another. Each feature is a number below
 * TABLE_SIZE, found by hashing; there is no list of features to keep.
 */

export const TABLE_SIZE = 1 << 17;

/** Cluster of a word, from 1 up (training/clusters.ts). */
export type Clusters = ReadonlyMap<string, number>;

/** Kinds of feature, so that the same word in two of them is two features. */
const KIND = { word: 1, pair: 2, cluster: 3, cluster_pair: 4, cluster_skip: 5, cluster_triple: 6, first: 7, cue: 8 };

const ADDRESS = /https?:\/\/\S+|\bwww\.\S+/g;
const MAIL = /[\w.+-]{1,40}@[\w-]{1,40}\.\w[\w.]{1,30}/g;
const TOKEN = /[\p{L}\p{M}]+|\d+|[!?:"{}<>#*=[\]()]/gu;
const LETTER = /^[\p{L}\p{M}]/u;
/** Scripts whose words are short or stand without spaces: each character is a token. */
const UNSPACED = /[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
/** Words without a cluster count by their beginning, which most languages inflect least. */
const STEM_LENGTH = 5;

/** Features of a folded piece of text (fold.ts), with repetitions. */
export function textFeatures(folded: string, clusters: Clusters): number[] {
  const tokens = tokensOf(folded);
  const features: number[] = [];
  let beforeWord = 0;
  /** Clusters of the last words, the latest first. */
  let last = 0;
  let second = 0;
  let third = 0;
  for (const token of tokens) {
    const word = hashOf(token);
    features.push(slot(KIND.word, word, 0), slot(KIND.pair, beforeWord, word));
    beforeWord = word;
    if (!LETTER.test(token)) continue;
    const cluster = clusters.get(token) ?? hashOf(token.slice(0, STEM_LENGTH));
    features.push(slot(KIND.cluster, cluster, 0), slot(KIND.cluster_pair, last, cluster));
    if (last === 0) features.push(slot(KIND.first, cluster, word));
    else if (second === 0) features.push(slot(KIND.first, last, cluster));
    if (second !== 0) {
      features.push(slot(KIND.cluster_skip, second, cluster), slot(KIND.cluster_triple, mixed(second, last), cluster));
    }
    if (third !== 0) features.push(slot(KIND.cluster_skip, third, cluster));
    third = second;
    second = last;
    last = cluster;
  }
  return features;
}

function tokensOf(folded: string): string[] {
  let plain = folded;
  if (/:\/\/|www\./.test(plain)) plain = plain.replace(ADDRESS, " xaddress ");
  if (plain.includes("@")) plain = plain.replace(MAIL, " xmail ");
  const tokens: string[] = [];
  for (const token of plain.match(TOKEN) ?? []) {
    if (UNSPACED.test(token)) tokens.push(...token);
    else tokens.push(/^\d/.test(token) ? "0" : token);
  }
  return tokens;
}

/** Features of the cues that speak in a folded window: each, every two together, and how much they weigh in all. */
export function cueFeatures(cues: readonly string[]): number[] {
  const hashes = cues.map(hashOf);
  const features = hashes.map((cue) => slot(KIND.cue, cue, 0));
  hashes.forEach((cue, index) => {
    for (const other of hashes.slice(index + 1)) features.push(slot(KIND.cue, cue, other));
  });
  for (let count = 1; count <= cues.length; count++) features.push(slot(KIND.cue, 0, count));
  return features;
}

/** Names of the cues that speak in a folded text, each once, in the order of the list. */
export function cuesIn(folded: string): string[] {
  const names = new Set<string>();
  for (const { name, pattern } of CUES) {
    if (!names.has(name) && folded.search(pattern) >= 0) names.add(name);
  }
  return [...names];
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

function mixed(first: number, second: number): number {
  return Math.imul(first ^ (second * 0x9e3779b1), 0x85ebca6b) ^ (second >>> 13);
}

function slot(kind: number, first: number, second: number): number {
  let hash = Math.imul(first ^ Math.imul(kind, 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13) ^ Math.imul(second, 0xc2b2ae35), 0x27d4eb2f);
  return (hash ^ (hash >>> 15)) & (TABLE_SIZE - 1);
}
