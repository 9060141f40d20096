import { setImmediate } from "node:timers/promises";
import { monotonicMs } from "../platform/lib/clock.ts";
import { createFairQueue, QueueRefused } from "../platform/lib/fair-queue.ts";
import { createThreadPool, threadFile } from "../platform/lib/thread-pool.ts";
import type { AskModel } from "./judge-kinds.ts";
import type { Judges } from "./judges.ts";
import type { PdfText } from "./reading/pdf-text.ts";
import type { Examined, Sanitized, SanitizeRequest } from "./sanitize.ts";
import type { ThreadRequest } from "./sanitizer.worker.ts";

/** The worst content of this length takes about 25 ms, so a thread is not worth its cost. */
const MAX_INLINE_CHARS = 8_192;
/** The most pages that wait for a thread, of all users and of one user. Further pages are rejected. */
const MAX_WAITING = 64;
const MAX_WAITING_EACH = 8;
/** The limit for one page, with its wait. The worst known 5 MB take this long; ordinary ones take less than a second. */
const TIME_LIMIT_MS = 10_000;
/** A page gives up its thread after this time when a page of another user waits. */
const FAIR_SHARE_MS = 3_000;
const SHARE_CHECK_MS = 100;
/** The memory limit of a thread. A page that exceeds it ends the thread, not the service. */
const MEMORY_MB = 512;

/**
 * Too many pages waited, this one waited too long, or a judge without which no page may be used did not answer. The
 * caller may submit the same page again.
 */
export const BUSY = Symbol("the safety layer is busy");

/** The safety layer for one user, with limits: long pages are checked in a thread. */
export interface Sanitizer {
  /** Returns null when the content exceeded the time or memory limit. None of it may be used then. */
  sanitize(request: SanitizeRequest): Promise<Sanitized | null | typeof BUSY>;
  /** Returns the text of a PDF, still to be sanitized. Returns null when it is not a PDF or exceeded a limit. */
  pdfText(bytes: Uint8Array): Promise<PdfText | null | typeof BUSY>;
}

/** The safety layer of the service. It has its own threads, checks one page at a time per user, and users take turns. */
export interface Sanitizers {
  /** With `run`, the operator's judges are asked too. The wait for them ends, and throws, when its signal is aborted. */
  of(user_id: string, run?: { readonly askModel: AskModel; readonly signal: AbortSignal }): Sanitizer;
}

interface SanitizerOptions {
  /** The judges now; absent: none. */
  judges?: () => Judges;
  threads?: number;
  time_limit_ms?: number;
  fair_share_ms?: number;
}

function lengthOf({ content, pdf }: SanitizeRequest): number {
  return (pdf?.hidden ?? []).reduce((sum, { text }) => sum + text.length, content.length);
}

/** Threads start with the first long page and are reused. They do not keep the process alive. */
export function createSanitizer(options: SanitizerOptions = {}): Sanitizers {
  const { threads = 2, time_limit_ms = TIME_LIMIT_MS, fair_share_ms = FAIR_SHARE_MS } = options;
  const pool = createThreadPool<ThreadRequest>(threadFile(import.meta.dirname, "sanitizer.worker"), {
    memory_mb: MEMORY_MB,
  });
  const queue = createFairQueue({ slots: threads, waiting: MAX_WAITING, waiting_each: MAX_WAITING_EACH });

  async function inThread<Answer>(user_id: string, request: ThreadRequest): Promise<Answer | null | typeof BUSY> {
    const deadline = AbortSignal.timeout(time_limit_ms);
    const asked_ms = monotonicMs();
    const inTurn = async () => {
      const began_ms = monotonicMs();
      const others_turn = new AbortController();
      const check = setInterval(() => {
        if (monotonicMs() - began_ms >= fair_share_ms && queue.isWanted()) others_turn.abort();
      }, SHARE_CHECK_MS);
      const answer = await pool.ask<Answer>(request, AbortSignal.any([deadline, others_turn.signal])).catch(() => null);
      clearInterval(check);
      const was_cut_short = others_turn.signal.aborted || (deadline.aborted && began_ms - asked_ms > SHARE_CHECK_MS);
      return answer === null && was_cut_short ? BUSY : answer;
    };
    return await queue.run(user_id, deadline, inTurn).catch((error: unknown) => {
      if (error instanceof QueueRefused) return BUSY;
      throw error;
    });
  }

  /** Short pages are checked one in each turn of the event loop, so that other work runs in between. */
  let turn = Promise.resolve();
  async function examined(user_id: string, request: SanitizeRequest): Promise<Examined | null | typeof BUSY> {
    if (lengthOf(request) > MAX_INLINE_CHARS) return inThread<Examined>(user_id, request);
    // Loaded with the first page: a sixth of a start, which a node without agents never needs.
    const { examine } = await import("./sanitize.ts");
    turn = turn.then(() => setImmediate());
    await turn;
    return examine(request);
  }

  return {
    of: (user_id, run) => ({
      async sanitize(request) {
        const judges = run === undefined ? undefined : options.judges?.();
        const for_judges = judges?.wanted ?? [];
        const found = await examined(user_id, { ...request, for_judges });
        if (found === null || found === BUSY) return found;
        const { present } = await import("./sanitize.ts");
        const parts = found.found.for_judges;
        if (run === undefined || judges === undefined || parts === undefined) return present(found);
        const opinion = await judges.ask(parts, { user_id, askModel: run.askModel, signal: run.signal });
        return opinion === null ? BUSY : present(found, opinion);
      },
      pdfText: (bytes) => inThread<PdfText>(user_id, { pdf_bytes: bytes }),
    }),
  };
}
