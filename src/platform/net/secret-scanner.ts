import { createFairQueue, QueueRefused } from "../lib/fair-queue.ts";
import type { SecretValue } from "../lib/secret-value.ts";
import { createThreadPool, threadFile } from "../lib/thread-pool.ts";
import { findHeld, isScrubbed, searchedText } from "./scrub.ts";

/** Longer answers are searched in a thread. This many bytes take 10 ms at worst. */
const MAX_INLINE_BYTES = 16_384;
/** Timeout of a search. The slowest known 5 MB take 2 s for three secrets. */
const SCAN_MS = 5_000;
const THREADS = 2;
const QUEUE = { slots: THREADS, waiting: 128, waiting_each: 16 } as const;
/** A page built to fill memory ends its thread, not the service. */
const MEMORY_MB = 256;

/** The request to the thread. It carries secrets: it is neither logged nor kept. */
export interface ScanRequest {
  readonly pieces: readonly Uint8Array<ArrayBuffer>[];
  readonly texts: readonly string[];
}

/** Searches answers for secrets, long ones in a thread and within limits. */
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
  const threads = createThreadPool<ScanRequest>(threadFile(import.meta.dirname, "scrub.worker"), {
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
      const is_short = pieces.reduce((sum, { length }) => sum + length, 0) <= MAX_INLINE_BYTES;
      const found = is_short
        ? pieces.flatMap((piece) => [...findHeld(piece, texts)])
        : await inTurn(user_id, () => inThread(pieces, texts));
      return found === null ? null : searched.filter((_, at) => found.includes(at)).map(({ index }) => index);
    },
  };
}
