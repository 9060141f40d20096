import type { Routing } from "../contract/completions.ts";
import { errors, PurserError } from "../errors.ts";
import type { ChargingLedger } from "../ledger/ledger.types.ts";
import { FINISH_REASON } from "../models/event-relay.ts";
import type { Counts, ProviderStream } from "../models/models.types.ts";
import { monotonicMs } from "../platform/clock.ts";
import type { CompletionCall, CompletionOutcome, CompletionStream } from "./completions.types.ts";
import { type Reservation, release, settle } from "./reservation.ts";

const DONE = { done: true, value: undefined } as const;
const EVENT_END = "\n\n";

/** A reserved call whose first events have arrived. */
export interface OpenStream {
  reservation: Reservation;
  stream: ProviderStream;
  first: IteratorResult<string>;
  routing: Routing | undefined;
  /** `monotonicMs` at which the call ends, read or not: its hold must not expire before its charge. */
  deadline_ms: number;
}

/**
 * The events of a call until its charge. Leaving must close the provider's connection and settle at once. A generator
 * cannot do that before its start or while it waits for the provider.
 */
export function createCompletionStream(
  ledger: ChargingLedger,
  call: CompletionCall,
  open: OpenStream,
): CompletionStream {
  const { reservation, stream, routing } = open;
  // A run's step is recorded with the charge, so the run must have the whole answer before.
  const is_step = call.run_id !== null;
  const last = createLastChunk(is_step || call.request.stream_options?.include_usage === true);
  let ahead: IteratorResult<string> | null = open.first;
  let closed = false;
  let overdue = false;
  /** The reader waits for an event. */
  let is_waiting = false;
  /** The reader left before the provider failed: the provider bills the input, also without any output. */
  let has_left = false;
  let settling: Promise<CompletionOutcome | null> | null = null;
  let outcome: CompletionOutcome | null = null;
  let failure: string | null = null;
  /** The error that kept the charge from being computed. */
  let uncounted: unknown = null;

  /** Charges once, on the first of these: the end, a failure, the reader's leaving or the signal. */
  function close(complete: boolean): Promise<CompletionOutcome | null> {
    closed = true;
    settling ??= charge(complete);
    return settling;
  }

  async function charge(complete: boolean): Promise<CompletionOutcome | null> {
    call.signal.removeEventListener("abort", leave);
    clearTimeout(deadline);
    if (!complete) stream.cancel();
    const counts = countsOrNull();
    if (counts === null || (!complete && counts.output_tokens === 0 && !has_left)) {
      await release(ledger, call);
      return null;
    }
    outcome = await settle(ledger, call, { reservation, counts, routing, response: null, complete });
    return outcome;
  }

  /** Null if the counts cannot be computed. That is our fault, so the hold is released. */
  function countsOrNull(): Counts | null {
    try {
      return stream.counts();
    } catch (error) {
      uncounted = error;
      return null;
    }
  }

  function leave(): void {
    has_left ||= call.isHandedBack?.() !== true;
    // A reader that continues gets the error of a failed charge. Without a reader, the hold expires and the audit shows
    // it.
    close(false).catch(() => {});
  }

  async function next(): Promise<IteratorResult<string, undefined>> {
    if (closed && !overdue) return DONE;
    try {
      if (overdue) throw errors.upstreamTimeout();
      for (;;) {
        is_waiting = true;
        const step = ahead ?? (await stream.blocks.next());
        is_waiting = false;
        ahead = null;
        if (step.done === true) break;
        const value = last.pass(step.value);
        if (value !== "") return { done: false, value };
      }
      const charged = await close(true);
      if (uncounted !== null) throw uncounted;
      return { done: false, value: last.withUsage(charged, { ...stream.identity(), model: reservation.model.id }) };
    } catch (error) {
      overdue = false;
      const charged = await close(false);
      if (call.signal.aborted) return DONE;
      const { type, code, message } = shownError(error, charged !== null);
      failure = code;
      const event = { error: { type, code, message, param: null, request_id: call.request_id } };
      return { done: false, value: `${last.held()}data: ${JSON.stringify(event)}\n\n` };
    }
  }

  // A stalled reader requests no event, so only this timer notices that the time is up.
  const deadline = setTimeout(() => {
    overdue = true;
    // A reader that waits has not left: its provider sent no event in time.
    if (is_waiting) close(false).catch(() => {});
    else leave();
  }, open.deadline_ms - monotonicMs()).unref();
  if (call.signal.aborted) leave();
  else call.signal.addEventListener("abort", leave, { once: true });
  return {
    next,
    async return() {
      if (!closed) leave();
      await close(false);
      return DONE;
    },
    outcome: () => outcome,
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

/**
 * The end of a stream. The usage has a chunk of its own if the caller asked for it with `include_usage`. Otherwise the
 * chunk with the finish reason carries it, because many clients read `choices[0]` of every chunk.
 */
function createLastChunk(has_own_chunk: boolean) {
  let held = "";
  return {
    /** The events of a block that can be written now. */
    pass(block: string): string {
      if (has_own_chunk) return block;
      let out = "";
      let rest = block;
      for (let at = rest.search(FINISH_REASON); at !== -1; at = rest.search(FINISH_REASON)) {
        const before = rest.lastIndexOf(EVENT_END, at);
        const start = before === -1 ? 0 : before + EVENT_END.length;
        const end = rest.indexOf(EVENT_END, at);
        out += rest.slice(0, start) + held;
        held = end === -1 ? rest.slice(start) : rest.slice(start, end + EVENT_END.length);
        rest = rest.slice(start + held.length);
      }
      return out + rest;
    },
    held: () => held,
    withUsage(outcome: CompletionOutcome | null, identity: { id: string; created: number; model: string }): string {
      const added = { usage: outcome?.usage, routing: outcome?.routing };
      const choices = has_own_chunk ? [] : [{ index: 0, delta: {}, finish_reason: "stop" }];
      const own = { ...identity, object: "chat.completion.chunk", choices };
      const data = held.split("\n").filter((line) => line.startsWith("data:"));
      const chunk = held === "" ? own : (JSON.parse(data.map((line) => line.slice(5)).join("\n")) as object);
      return `data: ${JSON.stringify({ ...chunk, ...added })}\n\ndata: [DONE]\n\n`;
    },
  };
}

/** The error of the event for a failure after the first byte, in the shape that OpenAI's clients throw as an error. */
function shownError(error: unknown, charged: boolean): PurserError["shape"] {
  const broken = errors.upstream(
    "The model's provider broke off. What it had generated is charged; retry, or use another model.",
  );
  return (error instanceof PurserError ? (charged ? broken : error) : errors.internal()).shape;
}
