import { answerBatch, createBatchQueue, type Waiting } from "./batch-queue.ts";
import { isAnswered } from "./sql-state.ts";

/**
 * Makes batches of single calls (batch-queue.ts). `apply` does a whole batch or nothing, and answers in order; of a batch
 * that the database refuses, each item is tried alone, so that the one at fault fails alone.
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
