import { isAnswered } from "../../kernel/sql-state.ts";
import { within } from "../telemetry/tracing.ts";

/** A queued item, with the functions that answer it. */
export interface Waiting<Item, Answer> {
  readonly item: Item;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/**
 * Queues single items. While one batch runs, new items wait; at most `size_limit` of them form the next batch.
 *
 * There is no timer, so a single item does not wait for others. `carryOut` answers each item of its batch or puts it
 * back with `again`; it never throws.
 */
export function createBatchQueue<Item, Answer>(
  size_limit: number,
  carryOut: (batch: Waiting<Item, Answer>[], again: (waiting: Waiting<Item, Answer>) => void) => Promise<void>,
): (item: Item) => Promise<Answer> {
  let queue: Waiting<Item, Answer>[] = [];
  let running = false;

  const run = async () => {
    running = true;
    await null; // items that are queued in the same turn go into the same batch
    while (queue.length > 0) {
      const batch = queue.slice(0, size_limit);
      queue = queue.slice(size_limit);
      await carryOut(batch, (waiting) => queue.push(waiting));
    }
    running = false;
  };
  return (item) =>
    new Promise((resolve, reject) => {
      queue.push({ item, resolve, reject });
      // A batch belongs to no trace, because it has items of several.
      if (!running) void within(null, run);
    });
}

/**
 * Applies the whole batch with `apply` and gives each item its answer. If `apply` throws, rethrows its error and
 * answers no item.
 */
export async function answerBatch<Item, Answer>(
  batch: readonly Waiting<Item, Answer>[],
  apply: (items: Item[]) => Promise<Answer[]>,
): Promise<void> {
  const answers = await apply(batch.map(({ item }) => item));
  for (const [index, waiting] of batch.entries()) waiting.resolve(answers[index] as Answer);
}

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
      // A RangeError: an item is too deep or too long to be written as JSON.
      if (batch.length > 1 && (isAnswered(error) || error instanceof RangeError)) {
        for (const waiting of batch) await attempt([waiting]);
      } else {
        for (const waiting of batch) waiting.reject(error);
      }
    }
  };
  return createBatchQueue(size_limit, attempt);
}
