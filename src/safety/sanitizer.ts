import { once } from "node:events";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { monotonicMs } from "../platform/clock.ts";
import { createFairQueue, QueueRefused } from "../platform/fair-queue.ts";
import { type Sanitized, type SanitizeRequest, sanitize } from "./sanitize.ts";
import type { ThreadRequest } from "./sanitizer.worker.ts";

/** Up to this length the worst page takes some 25 ms, which is less than a thread is worth. */
const MAX_INLINE_CHARS = 8_192;
/** Pages that wait for a thread, of all users and of one; one more is refused. */
const MAX_WAITING = 64;
const MAX_WAITING_EACH = 8;
/** For one page, its wait included. The worst 5 MB that we know of take this long; ordinary ones less than a second. */
const TIME_LIMIT_MS = 10_000;
/** A page gives its thread up after this time when another user's page waits. */
const FAIR_SHARE_MS = 3_000;
const SHARE_CHECK_MS = 100;
/** A page built to fill memory ends its thread, not the service. */
const MEMORY_MB = 512;

/** Too many pages waited, or this one waited too long: the same page may be judged later. */
export const BUSY = Symbol("the safety layer is busy");

/** The safety layer for one user: what a hostile page costs is paid in a thread, within limits. */
export interface Sanitizer {
  /** null: the content took too long or too much memory, so that nothing of it may be used. */
  sanitize(request: SanitizeRequest): Promise<Sanitized | null | typeof BUSY>;
  /** The text of a PDF, to be sanitized as text; null: it is none, or took too long or too much memory. */
  pdfText(bytes: Uint8Array): Promise<string | null | typeof BUSY>;
}

/** The safety layer as the service uses it: threads of their own, one page at a time per user, users in turn. */
export interface Sanitizers {
  of(user_id: string): Sanitizer;
}

interface SanitizerLimits {
  threads?: number;
  time_limit_ms?: number;
  fair_share_ms?: number;
}

/** Threads start with the first long page, and are kept. They hold up no exit of the process. */
export function createSanitizer(limits: SanitizerLimits = {}): Sanitizers {
  const { threads = 2, time_limit_ms = TIME_LIMIT_MS, fair_share_ms = FAIR_SHARE_MS } = limits;
  const idle: Worker[] = [];
  const queue = createFairQueue({ slots: threads, waiting: MAX_WAITING, waiting_each: MAX_WAITING_EACH });

  /** The thread's answer; null when `signal` ended it or it failed. */
  async function ask<Answer>(request: ThreadRequest, signal: AbortSignal): Promise<Answer | null> {
    const thread = idle.pop() ?? startThread();
    thread.ref();
    try {
      thread.postMessage(request);
      const [answer] = await once(thread, "message", { signal });
      idle.push(thread);
      return answer;
    } catch {
      await thread.terminate();
      return null;
    } finally {
      thread.unref();
    }
  }

  async function inThread<Answer>(user_id: string, request: ThreadRequest): Promise<Answer | null | typeof BUSY> {
    const deadline = AbortSignal.timeout(time_limit_ms);
    const asked_ms = monotonicMs();
    const inTurn = async () => {
      const began_ms = monotonicMs();
      const others_turn = new AbortController();
      const check = setInterval(() => {
        if (monotonicMs() - began_ms >= fair_share_ms && queue.isWanted()) others_turn.abort();
      }, SHARE_CHECK_MS);
      const answer = await ask<Answer>(request, AbortSignal.any([deadline, others_turn.signal]));
      clearInterval(check);
      const was_cut_short = others_turn.signal.aborted || (deadline.aborted && began_ms - asked_ms > SHARE_CHECK_MS);
      return answer === null && was_cut_short ? BUSY : answer;
    };
    return await queue.run(user_id, deadline, inTurn).catch((error: unknown) => {
      if (error instanceof QueueRefused) return BUSY;
      throw error;
    });
  }

  return {
    of: (user_id) => ({
      async sanitize(request) {
        if (request.content.length > MAX_INLINE_CHARS) return inThread<Sanitized>(user_id, request);
        // Many short pages in a row let other requests in between.
        await setImmediate();
        return sanitize(request);
      },
      pdfText: (bytes) => inThread<string>(user_id, { pdf: bytes }),
    }),
  };
}

function startThread(): Worker {
  const thread = new Worker(join(import.meta.dirname, "sanitizer.worker.ts"), {
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
  });
  // The caller that waits gets the error; a failure while the thread is idle must not end the process.
  thread.on("error", () => {});
  return thread;
}
