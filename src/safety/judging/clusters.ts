import { hashed, hashOf } from "./tokens.ts";

/**
 * Cluster of a word, from 1 up (training/clusters.ts), by the hash of the word; 0 for none. One unknown word in 180,000
 * shares the hash of a known one and counts as that.
 */
export interface Clusters {
  get(hash: number): number;
}

const SPACE = 32;
/** Places for each word: most words are found, or not, at the first one looked at. */
const ROOM = 3;

/** @param lines the words of a cluster each, with spaces between them; of a word's clusters the last counts */
export function readClusters(lines: readonly string[]): Clusters {
  const letters = lines.reduce((sum, { length }) => sum + length, 0);
  let size = 1 << 10;
  while (size < (letters / 6) * ROOM) size *= 2;
  const last = size - 1;
  const hashes = new Int32Array(size);
  const clusters = new Uint16Array(size);
  /** Where a hash stands, or is to stand. */
  const placeOf = (hash: number): number => {
    let place = (hash ^ (hash >>> 15)) & last;
    while (clusters[place] !== 0 && hashes[place] !== hash) place = (place + 1) & last;
    return place;
  };
  const put = (hash: number, cluster: number): void => {
    const place = placeOf(hash);
    hashes[place] = hash;
    clusters[place] = cluster;
  };
  const nothing = hashOf("");
  lines.forEach((line, index) => {
    let hash = nothing;
    for (let at = 0; at < line.length; at++) {
      const code = line.charCodeAt(at);
      if (code !== SPACE) hash = hashed(hash, code);
      else {
        put(hash, index + 1);
        hash = nothing;
      }
    }
    put(hash, index + 1);
  });
  return { get: (hash) => clusters[placeOf(hash)] as number };
}
