import { join } from "node:path";
import { errors } from "../../kernel/errors.ts";
import { createFairQueue } from "../../platform/lib/fair-queue.ts";
import { createThreadPool } from "../../platform/lib/thread-pool.ts";
import type { ParseAnswer, ParseRequest } from "./json-parser.worker.ts";
import { joinPieces } from "./json-pieces.ts";
import { JsonError } from "./json-text.ts";

/** The limit equals the number that one caller may upload at one time. Memory is limited in body-budget.ts. */
const QUEUE = { slots: 1, waiting: 1_024, waiting_each: 64 };
/** Includes the wait. The largest body takes half a second. */
const TIME_LIMIT_MS = 10_000;
const MEMORY_MB = 1_024;
const RETRY_AFTER_S = 2;

export interface ParsedBody {
  value: unknown;
  digest: string | undefined;
}

/**
 * Parses large JSON bodies in a thread, and callers take turns. 32 MB take over 100 ms, too long for the event loop.
 * The thread starts with the first large body. The bytes are transferred to it.
 */
export function createJsonParser(): (caller: string, request: ParseRequest) => Promise<ParsedBody> {
  const queue = createFairQueue(QUEUE);
  const threads = createThreadPool<ParseRequest>(join(import.meta.dirname, "json-parser.worker.ts"), {
    memory_mb: MEMORY_MB,
  });

  return async (caller, request) => {
    const signal = AbortSignal.timeout(TIME_LIMIT_MS);
    const answer = await queue
      .run(caller, signal, () => {
        const buffers = request.blocks.map(({ buffer }) => buffer);
        return threads.ask<ParseAnswer>(request, signal, buffers);
      })
      .catch(() => {
        throw errors.overloaded(RETRY_AFTER_S);
      });
    if ("fault" in answer) throw new JsonError(answer.fault);
    return { value: await joinPieces(answer.pieces), digest: answer.digest };
  };
}
