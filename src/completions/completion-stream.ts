import type { Routing } from "../contract/completions.ts";
import { errors, PurserError } from "../errors.ts";
import type { ChargingLedger } from "../ledger/ledger.types.ts";
import type { Counts, ProviderStream } from "../models/models.types.ts";
import { monotonicMs } from "../platform/clock.ts";
import { errorEvent } from "../platform/event-stream.ts";
import { release, settle } from "./charge.ts";
import type { CompletionCall, CompletionOutcome, CompletionStream, Reservation } from "./completions.types.ts";
import { createLastChunk } from "./last-chunk.ts";

const DONE = { done: true, value: undefined } as const;

/** A reserved call whose first events have arrived. */
export interface OpenStream {
  reservation: Reservation;
  stream: ProviderStream;
  first: IteratorResult<string>;
  routing: Routing | undefined;
  /** `monotonicMs` at which the call ends, also if its reader has stalled. */
  deadline_ms: number;
}

/** How a stream ended. */
type StreamEnd =
  | "complete"
  /** By the provider or by the time limit. */
  | "broken"
  /** The reader left before the provider failed. The provider bills the input, also without any output. */
  | "left";

/** Charges or releases a streamed call once: its first end decides. */
function createCharge(ledger: ChargingLedger, call: CompletionCall, { reservation, stream, routing }: OpenStream) {
  let charging: Promise<CompletionOutcome | null> | null = null;
  let outcome: CompletionOutcome | null = null;
  /** The error that kept the charge from being computed. */
  let uncounted: unknown = null;

  /** Null if the counts cannot be computed. That is our fault, so the hold is released. */
  function countsOrNull(): Counts | null {
    try {
      return stream.counts();
    } catch (error) {
      uncounted = error;
      return null;
    }
  }

  async function charge(end: StreamEnd, thrown: unknown): Promise<CompletionOutcome | null> {
    if (end !== "complete") stream.cancel();
    const counts = countsOrNull();
    if (counts === null || (end === "broken" && counts.output_tokens === 0)) {
      await release(ledger, call);
      return null;
    }
    const complete = end === "complete";
    outcome = await settle(ledger, call, { reservation, counts, routing, response: null, complete, thrown });
    return outcome;
  }

  return {
    /** Resolves to null if nothing is charged. */
    make(end: StreamEnd, thrown?: unknown): Promise<CompletionOutcome | null> {
      charging ??= charge(end, thrown);
      return charging;
    },
    hasBegun: () => charging !== null,
    outcome: () => outcome,
    uncounted: () => uncounted,
  };
}

/**
 * The events of a call until its charge. Leaving must close the provider's connection and charge at once. A generator
 * cannot do that before its start or while it waits for the provider.
 */
export function createCompletionStream(
  ledger: ChargingLedger,
  call: CompletionCall,
  open: OpenStream,
): CompletionStream {
  const { reservation, stream } = open;
  const charge = createCharge(ledger, call, open);
  // A run's step is recorded with the charge, so the run must have the whole answer before.
  const is_step = call.run_id !== null;
  const { n, stream_options } = call.request;
  const last = createLastChunk(is_step || stream_options?.include_usage === true, n ?? 1);
  let ahead: IteratorResult<string> | null = open.first;
  /** The reader waits for an event. */
  let is_waiting = false;
  /** The time is up, and the reader has not got the error yet. */
  let is_overdue = false;
  let failure: string | null = null;

  /** The first call decides how the stream ended. */
  function close(end: StreamEnd, thrown?: unknown): Promise<CompletionOutcome | null> {
    call.signal.removeEventListener("abort", leave);
    clearTimeout(deadline);
    return charge.make(end, thrown);
  }

  /** A call that the service itself will repeat was not left by its reader. */
  function endByReader(): StreamEnd {
    return call.isHandedBack?.() === true ? "broken" : "left";
  }

  /** Closes while no reader waits for the charge. */
  function closeUnread(end: StreamEnd): void {
    // A reader that continues gets the error of a failed charge. Without a reader, the hold expires and the audit shows
    // it.
    close(end).catch(() => {});
  }

  function leave(): void {
    closeUnread(endByReader());
  }

  async function lastEvents(): Promise<string> {
    const charged = await close("complete");
    if (charge.uncounted() !== null) throw charge.uncounted();
    return last.withUsage(charged, { ...stream.identity(), model: reservation.model.id });
  }

  /** The error event; null for a caller that has hung up. */
  async function failed(error: unknown): Promise<string | null> {
    const charged = await close("broken", error);
    if (call.signal.aborted) return null;
    const shown = shownError(error, charged !== null);
    failure = shown.code;
    return last.held() + errorEvent(shown, { request_id: call.request_id });
  }

  async function next(): Promise<IteratorResult<string, undefined>> {
    if (charge.hasBegun() && !is_overdue) return DONE;
    try {
      if (is_overdue) throw errors.upstreamTimeout();
      for (;;) {
        is_waiting = true;
        const step = ahead ?? (await stream.blocks.next());
        is_waiting = false;
        ahead = null;
        if (step.done === true) return { done: false, value: await lastEvents() };
        const value = last.pass(step.value);
        if (value !== "") return { done: false, value };
      }
    } catch (error) {
      is_overdue = false;
      const value = await failed(error);
      return value === null ? DONE : { done: false, value };
    }
  }

  // A stalled reader requests no event, so only this timer notices that the time is up.
  const deadline = setTimeout(() => {
    is_overdue = true;
    // A reader that waits has not left: its provider sent no event in time.
    if (is_waiting) closeUnread("broken");
    else leave();
  }, open.deadline_ms - monotonicMs()).unref();
  if (call.signal.aborted) leave();
  else call.signal.addEventListener("abort", leave, { once: true });
  return {
    next,
    async return() {
      await close(endByReader());
      return DONE;
    },
    outcome: charge.outcome,
    failure: () => failure,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** A stream that ended before its first event, for a caller that hung up. */
export function endedStream(outcome: CompletionOutcome): CompletionStream {
  return {
    next: async () => DONE,
    return: async () => DONE,
    outcome: () => outcome,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** The error of the event for a failure after the first byte, in the shape that OpenAI's clients throw as an error. */
function shownError(error: unknown, charged: boolean): PurserError {
  const broken = errors.upstream(
    "The model's provider broke off. What it had generated is charged; retry, or use another model.",
  );
  if (!(error instanceof PurserError)) return errors.internal();
  return charged ? broken.with({ metadata: error.shape.metadata }) : error;
}
