import { answerBatch, createBatchQueue, type Waiting } from "./batch-queue.ts";

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
      if (batch.length > 1 && isSqlState(error)) {
        for (const waiting of batch) await attempt([waiting]);
      } else {
        for (const waiting of batch) waiting.reject(error);
      }
    }
  };
  return createBatchQueue(size_limit, attempt);
}

/**
 * Whether the server has answered with an error: what it refuses has left nothing behind. A connection that it ends
 * (08, 57P), or that breaks (EPIPE, which looks like a state but for its digits), is no answer.
 */
function isSqlState(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(?!08|57P)(?=.*\d)[0-9A-Z]{5}$/.test(code);
}
