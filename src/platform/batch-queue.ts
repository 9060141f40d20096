/** What is said of an item that waits for its batch. */
export interface Waiting<Item, Answer> {
  readonly item: Item;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/**
 * Queues single items: one batch is being carried out, and whatever has queued meanwhile, at most `size_limit`, is the
 * next. No timer: alone, an item waits for nobody. `carryOut` answers each item of its batch or puts it back with
 * `again`; it never throws.
 */
export function createBatchQueue<Item, Answer>(
  size_limit: number,
  carryOut: (batch: Waiting<Item, Answer>[], again: (waiting: Waiting<Item, Answer>) => void) => Promise<void>,
): (item: Item) => Promise<Answer> {
  let queue: Waiting<Item, Answer>[] = [];
  let running = false;

  const run = async () => {
    running = true;
    await null; // what is asked for in the same turn goes into the same batch
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
      if (!running) void run();
    });
}

/** Has `apply` do the batch whole and hands each item its answer. Throws what `apply` throws, with nobody answered. */
export async function answerBatch<Item, Answer>(
  batch: readonly Waiting<Item, Answer>[],
  apply: (items: Item[]) => Promise<Answer[]>,
): Promise<void> {
  const answers = await apply(batch.map(({ item }) => item));
  for (const [index, waiting] of batch.entries()) waiting.resolve(answers[index] as Answer);
}
