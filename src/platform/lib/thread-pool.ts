import { once } from "node:events";
import { dirname, join } from "node:path";
import { type Transferable, Worker } from "node:worker_threads";

/** Threads of one program. Each carries out one request at a time; the caller limits how many run at once. */
export interface ThreadPool<Request> {
  /**
   * The thread's answer. Rejects when the thread fails or `signal` is aborted, and ends that thread. `transfer` lists
   * buffers of the request that move to the thread instead of being copied.
   */
  ask<Answer>(request: Request, signal: AbortSignal, transfer?: readonly Transferable[]): Promise<Answer>;
}

/** The program of a thread: beside the module in `folder` that starts it, or in a build beside all other programs. */
export function threadFile(folder: string, name: string): string {
  const { filename } = import.meta;
  return filename.endsWith(".ts") ? join(folder, `${name}.ts`) : join(dirname(filename), `${name}.js`);
}

const MB = 1_048_576;
/** Interval of the check of a working thread's buffers. */
const CHECK_MS = 250;

/**
 * Creates a pool for the program `file`. Threads start with the first request, stay alive, and do not delay the exit of
 * the process. A request that fills `memory_mb` ends its thread, not the service. `env`: the process's own by default.
 */
export function createThreadPool<Request>(
  file: string,
  { memory_mb, env }: { memory_mb: number; env?: Record<string, string> },
): ThreadPool<Request> {
  const idle: Worker[] = [];

  function start(): Worker {
    const resourceLimits = { maxOldGenerationSizeMb: memory_mb };
    const thread = new Worker(file, env === undefined ? { resourceLimits } : { resourceLimits, env });
    // The caller that waits gets the error. A failure of an idle thread must not end the process.
    thread.on("error", () => {});
    return thread;
  }

  /** Buffers are outside of the heap, so its limit does not end a thread that fills the memory with them. */
  function watchBuffers(thread: Worker, filled: () => void): NodeJS.Timeout {
    const check = ({ external_memory }: { external_memory: number }) => {
      if (external_memory > memory_mb * MB) filled();
    };
    return setInterval(() => void thread.getHeapStatistics().then(check, () => {}), CHECK_MS).unref();
  }

  return {
    async ask(request, signal, transfer = []) {
      const thread = idle.pop() ?? start();
      thread.ref();
      const full = new AbortController();
      const watch = watchBuffers(thread, () => full.abort());
      try {
        thread.postMessage(request, transfer);
        const [answer] = await once(thread, "message", { signal: AbortSignal.any([signal, full.signal]) });
        idle.push(thread);
        return answer;
      } catch (error) {
        await thread.terminate();
        throw error;
      } finally {
        clearInterval(watch);
        thread.unref();
      }
    },
  };
}
