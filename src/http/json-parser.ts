import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { errors } from "../errors.ts";
import { createFairQueue } from "../platform/fair-queue.ts";
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
  let idle: Worker | undefined;

  async function ask(request: ParseRequest, signal: AbortSignal): Promise<ParseAnswer> {
    const thread = idle ?? startThread();
    idle = undefined;
    thread.ref();
    try {
      thread.postMessage(request, [request.bytes.buffer as ArrayBuffer]);
      const [answer] = await once(thread, "message", { signal });
      idle = thread;
      return answer;
    } catch (error) {
      await thread.terminate();
      throw error;
    } finally {
      thread.unref();
    }
  }

  return async (caller, request) => {
    const signal = AbortSignal.timeout(TIME_LIMIT_MS);
    const answer = await queue
      .run(caller, signal, () => ask(request, signal))
      .catch(() => {
        throw errors.overloaded(RETRY_AFTER_S);
      });
    if ("fault" in answer) throw new JsonError(answer.fault);
    return { value: await joinPieces(answer.pieces), digest: answer.digest };
  };
}

function startThread(): Worker {
  const thread = new Worker(join(import.meta.dirname, "json-parser.worker.ts"), {
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
  });
  // The caller that waits gets the error. A failure of an idle thread must not end the process.
  thread.on("error", () => {});
  return thread;
}
