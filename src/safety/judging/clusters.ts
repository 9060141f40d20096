import { hashed, hashOf, type Lexicon, readLexicon } from "./lexicon.ts";

/**
 * Looks up the cluster of a word by its hash: from 1 up (training/clusters.ts), or 0 for none. About one unknown word
 * in 180,000 has the hash of a known word and gets its cluster.
 */
export interface Clusters {
  get(hash: number): number;
  /** Words of other languages, read before the clusters. */
  readonly lexicon: Lexicon;
}

const SPACE = 32;
/** Slots per word in the hash table. Most lookups end at the first slot. */
const SLOTS_PER_WORD = 3;

/**
 * @param lines the words of one cluster per line, separated by spaces; a word in several clusters belongs to the last
 */
export function readClusters(lines: readonly string[], lexicon = readLexicon()): Clusters {
  const letters = lines.reduce((sum, { length }) => sum + length, 0);
  let size = 1 << 10;
  while (size < (letters / 6) * SLOTS_PER_WORD) size *= 2;
  const last = size - 1;
  const hashes = new Int32Array(size);
  const clusters = new Uint16Array(size);
  /** The slot of a hash, or the free slot for it. */
  const slotOf = (hash: number): number => {
    let slot = (hash ^ (hash >>> 15)) & last;
    while (clusters[slot] !== 0 && hashes[slot] !== hash) slot = (slot + 1) & last;
    return slot;
  };
  const put = (hash: number, cluster: number): void => {
    const slot = slotOf(hash);
    hashes[slot] = hash;
    clusters[slot] = cluster;
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
  return { get: (hash) => clusters[slotOf(hash)] as number, lexicon };
}
