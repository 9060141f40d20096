import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { type Sanitized, type SanitizeRequest, sanitize } from "./sanitize.ts";
import type { ThreadRequest } from "./sanitizer.worker.ts";

/** The worst content of this length takes about 50 ms, so a thread is not worth its cost. */
const MAX_INLINE_CHARS = 16_384;
const THREADS = 2;
/** The most pages that wait for a thread. Further pages are rejected. */
const MAX_WAITING = 64;
/** The worst known 5 MB take this long; ordinary ones take less than a second. */
const TIME_LIMIT_MS = 10_000;
/** The memory limit of a thread. A page that exceeds it ends the thread, not the service. */
const MEMORY_MB = 512;

/** The safety layer with limits: long pages are checked in a thread. */
export interface Sanitizer {
  /** Returns null when the content exceeded the time or memory limit. None of it may be used then. */
  sanitize(request: SanitizeRequest): Promise<Sanitized | null>;
  /** Returns the text of a PDF, still to be sanitized. Returns null when it is not a PDF or exceeded a limit. */
  pdfText(bytes: Uint8Array): Promise<string | null>;
}

/** Threads start with the first long page and are reused. They do not keep the process alive. */
export function createSanitizer(limits: { time_limit_ms: number } = { time_limit_ms: TIME_LIMIT_MS }): Sanitizer {
  const idle: Worker[] = [];
  const waiting: (() => void)[] = [];
  let busy = 0;

  async function ask<Answer>(request: ThreadRequest): Promise<Answer | null> {
    const thread = idle.pop() ?? startThread();
    thread.ref();
    try {
      thread.postMessage(request);
      const [answer] = await once(thread, "message", { signal: AbortSignal.timeout(limits.time_limit_ms) });
      idle.push(thread);
      return answer;
    } catch {
      await thread.terminate();
      return null;
    } finally {
      thread.unref();
    }
  }

  async function inThread<Answer>(request: ThreadRequest): Promise<Answer | null> {
    if (busy < THREADS) busy += 1;
    else if (waiting.length >= MAX_WAITING) return null;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await ask<Answer>(request);
    } finally {
      const next = waiting.shift();
      if (next === undefined) busy -= 1;
      else next();
    }
  }

  return {
    async sanitize(request) {
      return request.content.length <= MAX_INLINE_CHARS ? sanitize(request) : inThread<Sanitized>(request);
    },
    pdfText: (bytes) => inThread<string>({ pdf: bytes }),
  };
}

function startThread(): Worker {
  const thread = new Worker(join(import.meta.dirname, "sanitizer.worker.ts"), {
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
  });
  // The caller that waits gets the error through `once`. This listener keeps a later error from ending the process.
  thread.on("error", () => {});
  return thread;
}
