import { setTimeout } from "node:timers/promises";
import { isRefusal } from "../../kernel/sql-state.ts";
import { answerBatch, createBatchQueue, type Waiting } from "../../platform/db/batch-queue.ts";

/** Whether an operation of the batch is at fault. A RangeError: it is too deep or too long to be written as JSON. */
const isFault = (error: unknown) => isRefusal(error) || error instanceof RangeError;

/** Accepts single operations and does them in batches. */
export interface GroupCommit<Operation, Outcome> {
  commit(operation: Operation): Promise<Outcome>;
  /** After this call, no operation waits for an unavailable database. */
  beginStop(): void;
}

/**
 * Turns single operations into batches of at most `size_limit` (platform/db/batch-queue.ts): one call of `apply` is in
 * flight at a time.
 *
 * - `apply` does a whole batch or nothing, and returns the outcomes in order.
 * - If the database refuses a batch, or it cannot be written, its halves are tried, until the faulty operation fails alone.
 * - If the database is unavailable or its answer is lost, the same batch is retried after each pause of `retry_ms`. A
 *   restart must not leave a provider's answer unpaid.
 * - After the last retry, lasting operations are queued again. `beginStop` ends the pauses; the next failure is final.
 * - Retries are safe only because a repeated operation changes nothing.
 */
export function createGroupCommit<Operation, Outcome>(options: {
  apply(operations: Operation[]): Promise<Outcome[]>;
  size_limit: number;
  retry_ms: readonly number[];
  /** Whether an operation waits for the database as long as the process lives. */
  isLasting(operation: Operation): boolean;
}): GroupCommit<Operation, Outcome> {
  type Batch = Waiting<Operation, Outcome>[];
  const stopping = new AbortController();

  const attempt = (batch: Batch) => answerBatch(batch, options.apply);
  const persist = async (batch: Batch) => {
    for (const pause_ms of options.retry_ms) {
      try {
        return await attempt(batch);
      } catch (error) {
        if (isFault(error)) throw error;
        if (stopping.signal.aborted) break;
        await setTimeout(pause_ms, undefined, { signal: stopping.signal }).catch(() => {});
      }
    }
    return attempt(batch);
  };
  const giveUp = (batch: Batch, error: unknown, again: (waiting: Batch[number]) => void) => {
    for (const waiting of batch) {
      if (options.isLasting(waiting.item) && !stopping.signal.aborted) again(waiting);
      else waiting.reject(error);
    }
  };
  const commit = async (batch: Batch, again: (waiting: Batch[number]) => void): Promise<void> => {
    try {
      await persist(batch);
    } catch (error) {
      if (!isFault(error)) return giveUp(batch, error, again);
      if (batch.length === 1) return batch[0]?.reject(error);
      const half = Math.ceil(batch.length / 2);
      await commit(batch.slice(0, half), again);
      await commit(batch.slice(half), again);
    }
  };
  return {
    commit: createBatchQueue(options.size_limit, commit),
    beginStop: () => stopping.abort(),
  };
}
