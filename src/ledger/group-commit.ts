import { setTimeout } from "node:timers/promises";
import { answerBatch, createBatchQueue, type Waiting } from "../platform/batch-queue.ts";
import { isRefusal } from "../platform/sql-state.ts";

/** Operations one by one, done in batches. */
export interface GroupCommit<Operation, Outcome> {
  commit(operation: Operation): Promise<Outcome>;
  /** From now on nothing waits for a database that is away. */
  beginStop(): void;
}

/**
 * Turns single operations into batches of at most `size_limit` (platform/batch-queue.ts): one call of `apply` is in
 * flight at a time.
 *
 * `apply` does a whole batch or nothing, and answers in order. When the database refuses a batch, it is tried again in
 * halves, until the operation at fault fails alone; when the database was not reached or its answer was lost, it is
 * tried again as it was, after each of the pauses `retry_ms`: a provider's answer is not to go unpaid because of a
 * restart. Those that must not be lost are queued again then, until `beginStop`: it cuts the pauses short, and what
 * fails once more fails. All of this is safe only because an operation that is repeated changes nothing.
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
        if (isRefusal(error)) throw error;
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
      if (!isRefusal(error)) return giveUp(batch, error, again);
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
