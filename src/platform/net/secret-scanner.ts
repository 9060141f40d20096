import { join } from "node:path";
import { createFairQueue, QueueRefused } from "../lib/fair-queue.ts";
import type { SecretValue } from "../lib/secret-value.ts";
import { createThreadPool } from "../lib/thread-pool.ts";
import { heldIn, isScrubbed, type Search, searchedText, searchFor, sieved } from "./scrub.ts";

/**
 * Only bytes that can hold a secret count. A search of 16 KB takes 10 ms at worst, and a page seldom has more: its words
 * are shorter than secrets.
 */
const MAX_INLINE_BYTES = 16_384;
/** Timeout of a search. The slowest known 5 MB take 1 s for three secrets. */
const SCAN_MS = 5_000;
/** Longer answers go to a thread at once. Even counting the bytes that can hold a secret takes 5 ms here. */
const MAX_SIEVED_BYTES = 2_000_000;
const THREADS = 2;
const QUEUE = { slots: THREADS, waiting: 128, waiting_each: 16 } as const;
/** A page built to fill memory ends its thread, not the service. */
const MEMORY_MB = 256;

/** The request to the thread. It carries secrets: it is neither logged nor kept. */
export interface ScanRequest {
  readonly pieces: readonly Uint8Array<ArrayBuffer>[];
  readonly texts: readonly string[];
}

/** Searches answers for secrets. A hostile answer is searched in a thread, within limits. */
export interface SecretScanner {
  /**
   * The indexes of the `values` that the pieces of an answer hold. null: the search took too long, or too many searches
   * wait. The answer must then be discarded.
   * @param user_id the owner of the secrets: users take turns.
   */
  search(pieces: readonly Buffer[], values: readonly SecretValue[], user_id: string): Promise<number[] | null>;
}

/**
 * Creates a scanner. Threads start with the first long search, stay alive, and do not delay the exit of the process.
 */
export function createSecretScanner({ scan_ms }: { scan_ms: number } = { scan_ms: SCAN_MS }): SecretScanner {
  const queue = createFairQueue(QUEUE);
  const threads = createThreadPool<ScanRequest>(join(import.meta.dirname, "scrub.worker.ts"), {
    memory_mb: MEMORY_MB,
    // The thread needs no setting of the service, and the master key is one.
    env: {},
  });

  /** Waits for the user's turn as long as for a search. null: the queue is full, or the wait was too long. */
  async function inTurn(user_id: string, search: () => Promise<number[] | null>): Promise<number[] | null> {
    try {
      return await queue.run(user_id, AbortSignal.timeout(scan_ms), search);
    } catch (error) {
      if (error instanceof QueueRefused) return null;
      throw error;
    }
  }

  async function inThread(pieces: readonly Buffer[], texts: readonly string[]): Promise<number[] | null> {
    const copies = pieces.map((piece) => new Uint8Array(piece));
    const buffers = copies.map(({ buffer }) => buffer);
    return await threads
      .ask<number[]>({ pieces: copies, texts }, AbortSignal.timeout(scan_ms), buffers)
      .catch(() => null);
  }

  return {
    async search(pieces, values, user_id) {
      const searched = values.flatMap((value, index) => (isScrubbed(value) ? [{ value, index }] : []));
      if (searched.length === 0) return [];
      const texts = searched.map(({ value }) => searchedText(value));
      const search = searchFor(texts);
      const short = pieces.map((piece) => shortened(piece, search)).filter((piece) => piece !== null);
      const is_inline =
        short.length === pieces.length && short.reduce((sum, { length }) => sum + length, 0) <= MAX_INLINE_BYTES;
      const found = is_inline
        ? [...new Set(short.flatMap((piece) => [...heldIn(piece, search)]))]
        : await inTurn(user_id, () => inThread(pieces, texts));
      return found === null ? null : searched.filter((_, at) => found.includes(at)).map(({ index }) => index);
    },
  };
}

/** The part of `bytes` that has to be searched; null when it is too long for this thread. */
function shortened(bytes: Buffer, search: Search): Buffer | null {
  if (bytes.length > MAX_SIEVED_BYTES) return null;
  return sieved(bytes, search, MAX_INLINE_BYTES) ?? (bytes.length <= MAX_INLINE_BYTES ? bytes : null);
}
