import type { ChargingLedger } from "../../account/ledger/ledger.types.ts";
import type { Routing } from "../../api/contract/completions.ts";
import { READ_ON } from "../../kernel/constants.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { AnswerPart } from "../models/answer-events.ts";
import type { Counts, Model, ProviderStream } from "../models/models.types.ts";
import { isSpeech, readOnMs, type Thoughts, withLikelyThoughts } from "./after-hang-up.ts";
import { release, settle } from "./charge.ts";
import type { CompletionCall, CompletionOutcome, CompletionStream, Reservation } from "./completions.types.ts";

const DONE = { done: true, value: undefined } as const;

/** A reserved call whose first part has arrived. */
export interface OpenStream {
  reservation: Reservation;
  stream: ProviderStream;
  first: IteratorResult<AnswerPart>;
  routing: Routing | undefined;
  /** `monotonicMs` at which the call ends, also if its reader has stalled. */
  deadline_ms: number;
  thoughts: Thoughts;
  noteCounts(model: Model, counts: Counts): void;
  /** Aborted when the process stops. */
  stopping: AbortSignal;
  /** Called with the charge of a reader that has left, for which the provider is read on. */
  onLeaving(charged: Promise<unknown>): void;
}

/** How a stream ended. */
type StreamEnd =
  | "complete"
  /** By the provider or by the time limit. */
  | "broken"
  /** The reader left before the provider failed. The provider bills the input, also without any output. */
  | "left"
  /** The reader left, and the provider's stream was read to its end. */
  | "read_on";

/** Charges or releases a streamed call once: its first end decides. */
function createCharge(ledger: ChargingLedger, call: CompletionCall, open: OpenStream) {
  const { reservation, stream, routing, thoughts } = open;
  let charging: Promise<CompletionOutcome | null> | null = null;
  let outcome: CompletionOutcome | null = null;
  /** The error that kept the charge from being computed. */
  let uncounted: unknown = null;

  /** Null if the counts cannot be computed. That is our fault, so the hold is released. */
  function countsOrNull(end: StreamEnd): Counts | null {
    try {
      const counts = stream.counts();
      open.noteCounts(reservation.model, counts);
      if (end !== "left") return counts;
      return withLikelyThoughts(counts, reservation.request, { thoughts, now_ms: monotonicMs() });
    } catch (error) {
      uncounted = error;
      return null;
    }
  }

  async function charge(end: StreamEnd, thrown: unknown): Promise<CompletionOutcome | null> {
    if (end !== "complete") stream.cancel();
    const counts = countsOrNull(end);
    if (counts === null || (end === "broken" && counts.output_tokens === 0)) {
      await release(ledger, call);
      return null;
    }
    const complete = end === "complete";
    const { spoke_ms } = thoughts;
    const answered = { reservation, counts, routing, response: null, complete, thrown, spoke_ms };
    outcome = await settle(ledger, call, answered);
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
 * The events of a call until its charge. Leaving must read the provider's stream on and charge, also before the first
 * event and while a reader waits for one. A generator cannot do that.
 */
export function createCompletionStream(
  ledger: ChargingLedger,
  call: CompletionCall,
  open: OpenStream,
): CompletionStream {
  const { reservation, stream, thoughts, deadline_ms } = open;
  const charge = createCharge(ledger, call, open);
  let ahead: IteratorResult<AnswerPart> | null = open.first;
  /** The next events of the provider, which the reader and the reading after a hang-up share. */
  let pulled: Promise<IteratorResult<AnswerPart>> | null = null;
  /** The reader waits for an event. */
  let is_waiting = false;
  /** When the reader asked for an event or got one. */
  let asked_ms = monotonicMs();
  /** The reader has left, and the provider is read on for its usage. */
  let leaving: Promise<CompletionOutcome | null> | null = null;
  /** The time is up, and the reader has not got the error yet. */
  let is_overdue = false;

  /** The first call decides how the stream ended. */
  function close(end: StreamEnd, thrown?: unknown): Promise<CompletionOutcome | null> {
    call.signal.removeEventListener("abort", hangUp);
    clearTimeout(deadline);
    return charge.make(end, thrown);
  }

  function pull(): Promise<IteratorResult<AnswerPart>> {
    pulled ??= stream.parts.next().finally(() => {
      pulled = null;
    });
    return pulled;
  }

  function note({ value }: IteratorResult<AnswerPart>): void {
    if (thoughts.spoke_ms !== null || value === undefined || !isSpeech(value.events, reservation)) return;
    thoughts.spoke_ms = monotonicMs();
    thoughts.shown_tokens = stream.counts().output_tokens;
  }

  /** Reads the provider's stream on for its usage. Returns whether it has ended. */
  async function readOn(): Promise<boolean> {
    const now_ms = monotonicMs();
    const wait_ms = Math.min(deadline_ms - now_ms, readOnMs(thoughts, now_ms, { is_run: call.run_id !== null }));
    if (wait_ms <= 0 || open.stopping.aborted) return false;
    if (ahead !== null) note(ahead);
    if (ahead?.done === true) return true;
    const { promise: over, resolve } = Promise.withResolvers<null>();
    const stop = () => resolve(null);
    const timer = setTimeout(stop, wait_ms);
    open.stopping.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const step = await Promise.race([pull(), over]);
        if (step === null || step.done === true) return step !== null;
        note(step);
      }
    } catch {
      return false; // the provider failed after the reader had left
    } finally {
      clearTimeout(timer);
      open.stopping.removeEventListener("abort", stop);
    }
  }

  /** Charges a reader that has left. A call that the service itself will repeat was not left by its reader. */
  function leave(): Promise<CompletionOutcome | null> {
    if (call.isHandedBack?.() === true) return close("broken");
    if (charge.hasBegun()) return close("left");
    if (leaving === null) {
      leaving = readOn().then((has_ended) => close(has_ended ? "read_on" : "left"));
      open.onLeaving(leaving);
    }
    return leaving;
  }

  /** Leaves while no reader waits for the charge. */
  function hangUp(): void {
    // A reader that continues gets the error of a failed charge. Without a reader, the hold expires and the audit shows
    // it.
    leave().catch(() => {});
  }

  async function end(): Promise<AnswerPart> {
    const charged = await close("complete");
    if (charge.uncounted() !== null) throw charge.uncounted();
    return { events: [{ type: "end", usage: charged?.usage ?? null, routing: charged?.routing ?? null }] };
  }

  /** The error event; null for a caller that has hung up. */
  async function failed(error: unknown): Promise<AnswerPart | null> {
    const charged = await (leaving ?? close("broken", error));
    if (call.signal.aborted) return null;
    return { events: [{ type: "error", error: shownError(error, charged !== null) }] };
  }

  async function next(): Promise<IteratorResult<AnswerPart, undefined>> {
    asked_ms = monotonicMs();
    if ((leaving !== null || charge.hasBegun()) && !is_overdue) return DONE;
    try {
      if (is_overdue) throw errors.upstreamTimeout();
      is_waiting = true;
      const step = ahead ?? (await pull());
      is_waiting = false;
      asked_ms = monotonicMs();
      ahead = null;
      if (leaving !== null) return DONE;
      note(step);
      return { done: false, value: step.done === true ? await end() : step.value };
    } catch (error) {
      if (leaving !== null && !is_overdue) return DONE;
      is_overdue = false;
      const value = await failed(error);
      return value === null ? DONE : { done: false, value };
    }
  }

  /** A stalled reader requests no event, so only a timer notices that the time is up. */
  function isStalled(): boolean {
    return !is_waiting && monotonicMs() - asked_ms >= READ_ON.thinking_ms;
  }
  function endOverdue(): void {
    if (leaving !== null) return;
    is_overdue = true;
    // A reader that waits has not left: its provider sent no event in time.
    if (is_waiting) close("broken").catch(() => {});
    else hangUp();
  }
  const in_ms = (at_ms: number) => Math.max(0, at_ms - monotonicMs());
  const lookForStall = () => {
    // The rest of the time is for reading on.
    if (isStalled()) endOverdue();
    else deadline = setTimeout(endOverdue, in_ms(deadline_ms)).unref();
  };
  let deadline = setTimeout(lookForStall, in_ms(deadline_ms - READ_ON.thinking_ms)).unref();
  if (call.signal.aborted) hangUp();
  else call.signal.addEventListener("abort", hangUp, { once: true });
  return {
    next,
    async return() {
      is_overdue = false; // a reader that has left is no longer owed the error
      await leave();
      return DONE;
    },
    outcome: charge.outcome,
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

/** The error that a caller is shown for a failure after the first part. */
function shownError(error: unknown, charged: boolean): PurserError {
  const broken = errors.upstream(
    "The model's provider broke off. What it had generated is charged; retry, or use another model.",
  );
  if (!(error instanceof PurserError)) return errors.internal();
  return charged ? broken.with({ metadata: error.shape.metadata }) : error;
}
