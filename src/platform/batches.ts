import { answerBatch, createBatchQueue, type Waiting } from "./batch-queue.ts";
import { isAnswered } from "./sql-state.ts";

/**
 * Groups single calls into batches (batch-queue.ts). `apply` applies a whole batch or nothing, and returns the answers
 * in order.
 *
 * If the database rejects a batch, each item is retried alone, so that only the faulty item fails.
 */
export function createBatches<Item, Answer>(
  size_limit: number,
  apply: (items: Item[]) => Promise<Answer[]>,
): (item: Item) => Promise<Answer> {
  const attempt = async (batch: Waiting<Item, Answer>[]): Promise<void> => {
    try {
      await answerBatch(batch, apply);
    } catch (error) {
      if (batch.length > 1 && isAnswered(error)) {
        for (const waiting of batch) await attempt([waiting]);
      } else {
        for (const waiting of batch) waiting.reject(error);
      }
    }
  };
  return createBatchQueue(size_limit, attempt);
}
