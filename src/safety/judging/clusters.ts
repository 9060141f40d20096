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
export function readClusters(lines: readonly string[]): Clusters {
  const letters = lines.reduce((sum, { length }) => sum + length, 0);
  let size = 1 << 10;
  while (size < (letters / 6) * SLOTS_PER_WORD) size *= 2;
  const last = size - 1;
  /** Per slot a hash and its cluster, side by side, so that a lookup reads one place in memory. */
  const slots = new Int32Array(2 * size);
  /** The slot of a hash, or the free slot for it. */
  const slotOf = (hash: number): number => {
    let slot = (hash ^ (hash >>> 15)) & last;
    while (slots[2 * slot + 1] !== 0 && slots[2 * slot] !== hash) slot = (slot + 1) & last;
    return 2 * slot;
  };
  const put = (hash: number, cluster: number): void => {
    const slot = slotOf(hash);
    slots[slot] = hash;
    slots[slot + 1] = cluster;
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
  return { get: (hash) => slots[slotOf(hash) + 1] as number, lexicon: readLexicon() };
}
