/** What is said of an item that waits for its batch. */
interface Waiting<Item, Answer> {
  item: Item;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/**
 * Makes batches of single calls: one `apply` is in flight, and whatever has queued meanwhile, at most `size_limit`, is
 * the next one's. No timer: alone, an item waits for nobody. `apply` does a whole batch or nothing, and answers in order;
 * of a batch that the database refuses, each item is tried alone, so that the one at fault fails alone.
 */
export function createBatches<Item, Answer>(
  size_limit: number,
  apply: (items: Item[]) => Promise<Answer[]>,
): (item: Item) => Promise<Answer> {
  let queue: Waiting<Item, Answer>[] = [];
  let running = false;

  const attempt = async (batch: Waiting<Item, Answer>[]): Promise<void> => {
    try {
      const answers = await apply(batch.map(({ item }) => item));
      for (const [index, waiting] of batch.entries()) waiting.resolve(answers[index] as Answer);
    } catch (error) {
      if (batch.length > 1 && isSqlState(error)) {
        for (const waiting of batch) await attempt([waiting]);
      } else {
        for (const waiting of batch) waiting.reject(error);
      }
    }
  };
  const run = async () => {
    running = true;
    await null; // what is asked for in the same turn goes into the same batch
    while (queue.length > 0) {
      const batch = queue.slice(0, size_limit);
      queue = queue.slice(size_limit);
      await attempt(batch);
    }
    running = false;
  };
  return (item) =>
    new Promise((resolve, reject) => {
      queue.push({ item, resolve, reject });
      if (!running) void run();
    });
}

/**
 * Whether the server has answered with an error: what it refuses has left nothing behind. A connection that it ends
 * (08, 57P), or that breaks (EPIPE, which looks like a state but for its digits), is no answer.
 */
function isSqlState(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(?!08|57P)(?=.*\d)[0-9A-Z]{5}$/.test(code);
}
