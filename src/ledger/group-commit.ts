import { setTimeout } from "node:timers/promises";

/** What is said of an operation that has to wait for the next batch. */
interface Waiting<Operation, Outcome> {
  operation: Operation;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** Operations one by one, done in batches. */
export interface GroupCommit<Operation, Outcome> {
  commit(operation: Operation): Promise<Outcome>;
  /** From now on nothing waits for a database that is away. */
  beginStop(): void;
}

/**
 * Turns single operations into batches: one call of `apply` is in flight, and whatever has queued meanwhile, at most
 * `size_limit`, is the next batch. No timer: alone, an operation waits for nobody.
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
  let queue: Waiting<Operation, Outcome>[] = [];
  let running = false;
  const stopping = new AbortController();

  const attempt = async (batch: Waiting<Operation, Outcome>[]) => {
    const outcomes = await options.apply(batch.map(({ operation }) => operation));
    for (const [index, waiting] of batch.entries()) waiting.resolve(outcomes[index] as Outcome);
  };
  const persist = async (batch: Waiting<Operation, Outcome>[]) => {
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
  const giveUp = (batch: Waiting<Operation, Outcome>[], error: unknown) => {
    for (const waiting of batch) {
      if (options.isLasting(waiting.operation) && !stopping.signal.aborted) queue.push(waiting);
      else waiting.reject(error);
    }
  };
  const commit = async (batch: Waiting<Operation, Outcome>[]): Promise<void> => {
    try {
      await persist(batch);
    } catch (error) {
      if (!isRefusal(error)) return giveUp(batch, error);
      if (batch.length === 1) return batch[0]?.reject(error);
      const half = Math.ceil(batch.length / 2);
      await commit(batch.slice(0, half));
      await commit(batch.slice(half));
    }
  };
  const run = async () => {
    running = true;
    await null; // what is asked for in the same turn goes into the same batch
    while (queue.length > 0) {
      const batch = queue.slice(0, options.size_limit);
      queue = queue.slice(options.size_limit);
      await commit(batch);
    }
    running = false;
  };
  return {
    commit: (operation) =>
      new Promise((resolve, reject) => {
        queue.push({ operation, resolve, reject });
        if (!running) void run();
      }),
    beginStop: () => stopping.abort(),
  };
}

/**
 * Whether the database judged the statement (an SQLSTATE), rather than a deadlock, being out of reach or full, letting
 * nobody in, or being a standby that has not taken over yet. The system's own errors may look alike (EPIPE).
 */
function isRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(?!08|25006|28|3D|40|53|55000|57|58|E)[0-9A-Z]{5}$/.test(code);
}
