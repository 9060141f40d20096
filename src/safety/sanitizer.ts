import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { type Sanitized, type SanitizeRequest, sanitize } from "./sanitize.ts";
import type { ThreadRequest } from "./sanitizer.worker.ts";

/** Up to this length the worst page takes some 50 ms, which is less than a thread is worth. */
const MAX_INLINE_CHARS = 16_384;
const THREADS = 2;
/** Pages that wait for a thread; one more is given up. */
const MAX_WAITING = 64;
/** The worst 5 MB that we know of take this long; ordinary ones less than a second. */
const TIME_LIMIT_MS = 10_000;
/** A page built to fill memory ends its thread, not the service. */
const MEMORY_MB = 512;

/** The safety layer as the service uses it: what a hostile page costs is paid in a thread, within limits. */
export interface Sanitizer {
  /** null: the content took too long or too much memory, so that nothing of it may be used. */
  sanitize(request: SanitizeRequest): Promise<Sanitized | null>;
  /** The text of a PDF, to be sanitized as text; null: it is none, or took too long or too much memory. */
  pdfText(bytes: Uint8Array): Promise<string | null>;
}

/** Threads start with the first long page, and are kept. They hold up no exit of the process. */
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
  // Who waits for an answer hears of it; a thread that fails after that has nobody, and must not end the process.
  thread.on("error", () => {});
  return thread;
}
