import type { MeansOf } from "../../account/ledger/errors.ts";
import type { ChargingLedger } from "../../account/ledger/ledger.types.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Models } from "../models/models.service.ts";
import type { Counts, Model, ProviderRequest } from "../models/models.types.ts";
import { isProviderFailure } from "../models/provider-errors.ts";
import { newThoughts, readOnMs, type Thoughts } from "./after-hang-up.ts";
import { release } from "./charge.ts";
import type { CompletionCall, Reservation } from "./completions.types.ts";
import { reserve } from "./reservation.ts";

/** How the provider is called for a reservation. Throws PurserErrors, and the signal's reason on an abort. */
export type Send<T> = (
  reservation: Reservation,
  options: {
    signal: AbortSignal;
    hung_up: AbortSignal;
    deadline_ms: number;
    onSent(): void;
    onDisbelieved(report: Counts): void;
  },
) => Promise<T>;

/** The limits of one attempt. */
interface Limits {
  /** `monotonicMs` at which the call times out. */
  deadline_ms: number;
  /** The longest wait for the beginning of the answer; null: until the deadline. */
  wait_ms: number | null;
}

/** The result of one attempt. `reservation` is still to be settled. */
export type Attempted<T> =
  | { kind: "answered"; reservation: Reservation; thoughts: Thoughts; value: T }
  /** The caller left after the request was sent, so it pays the input. */
  | { kind: "hung_up"; reservation: Reservation; thoughts: Thoughts; thrown: unknown }
  /** Nothing is charged. `was_held`: the model was affordable, so its provider may have been asked. */
  | { kind: "failed"; was_held: boolean; thrown: unknown };

/** How a provider answered, and for whose request or run. */
export interface Attempt extends Pick<CompletionCall, "request_id" | "run_id"> {
  ms: number;
  error: PurserError | null;
  streamed: boolean;
}

export interface AttemptDeps {
  models: Models;
  ledger: ChargingLedger;
  meansOf: MeansOf;
  /** Called after each attempt at a provider. The caller may not notice a failure, because another one answers. */
  onAttempt(model: Model, attempt: Attempt): void;
  /** Called once for an attempt whose provider reports more tokens than the call can have used. */
  onDisbelieved(model: Model, report: Counts): void;
  /** Whether the model may reason in its answer. */
  mayReason(request: ProviderRequest): boolean;
  /** Aborted when the process stops: no call is read on after a hang-up. */
  stopping: AbortSignal;
}

/** Reserves `call` on `model` and sends it. Never throws. Releases the hold of a failed attempt. */
export async function attemptModel<T>(
  deps: AttemptDeps,
  { call, model }: { call: CompletionCall; model: Model },
  { deadline_ms, wait_ms }: Limits,
  send: Send<T>,
): Promise<Attempted<T>> {
  const { models, ledger, meansOf, onAttempt, onDisbelieved: noteReport } = deps;
  const thoughts = newThoughts();
  const limit = getLimit(call, { wait_ms, thoughts, stopping: deps.stopping });
  const began_ms = monotonicMs();
  const { request_id, run_id } = call;
  const note = (error: PurserError | null) =>
    onAttempt(model, {
      request_id,
      run_id,
      ms: monotonicMs() - began_ms,
      error,
      streamed: call.request.stream === true,
    });
  let reservation: Reservation | null = null;
  const onSent = () => {
    thoughts.sent_ms ??= monotonicMs();
  };
  let is_noted = false;
  const onDisbelieved = (report: Counts) => {
    if (!is_noted) noteReport(model, report);
    is_noted = true;
  };
  try {
    reservation = await reserve({ models, ledger, meansOf }, call, model);
    thoughts.are_likely = deps.mayReason(reservation.request);
    const { signal } = limit;
    const value = await send(reservation, { signal, hung_up: call.signal, deadline_ms, onSent, onDisbelieved });
    note(null);
    models.health.answered(model);
    return { kind: "answered", reservation, thoughts, value };
  } catch (thrown) {
    const is_sent = thoughts.sent_ms !== null;
    if (reservation !== null && is_sent && isHangUp(call, thrown)) {
      return { kind: "hung_up", reservation, thoughts, thrown };
    }
    if (reservation !== null) await release(ledger, call);
    if (thrown instanceof PurserError && (is_sent || isProviderFailure(thrown))) note(thrown);
    if (isProviderFailure(thrown)) models.health.failed(model, thrown.shape.retry_after_s);
    return { kind: "failed", was_held: reservation !== null, thrown };
  } finally {
    limit.end();
  }
}

/** Whether an attempt ended because its caller left. A failure of the provider itself costs nothing. */
function isHangUp({ signal, isHandedBack }: CompletionCall, error: unknown): boolean {
  return signal.aborted && !isProviderFailure(error) && isHandedBack?.() !== true;
}

/**
 * The signal of one attempt until it is answered: aborted some time after its caller hangs up, because the provider's
 * usage is still read, and, unless `wait_ms` is null, if the answer does not begin in time.
 */
function getLimit(
  call: CompletionCall,
  { wait_ms: patience_ms, thoughts, stopping }: { wait_ms: number | null; thoughts: Thoughts; stopping: AbortSignal },
): { signal: AbortSignal; end(): void } {
  const over = new AbortController();
  const leave = () => over.abort(call.signal.reason);
  let timer: NodeJS.Timeout | undefined;
  if (patience_ms !== null) timer = setTimeout(() => over.abort(errors.upstreamTimeout()), patience_ms);
  const hangUp = () => {
    clearTimeout(timer);
    const wait_ms = readOnMs(thoughts, monotonicMs(), { is_run: call.run_id !== null });
    if (wait_ms === 0 || stopping.aborted || call.isHandedBack?.() === true) return leave();
    timer = setTimeout(leave, wait_ms);
    stopping.addEventListener("abort", leave, { once: true });
  };
  if (call.signal.aborted) leave();
  else call.signal.addEventListener("abort", hangUp, { once: true });
  return {
    signal: over.signal,
    end() {
      clearTimeout(timer);
      call.signal.removeEventListener("abort", hangUp);
      stopping.removeEventListener("abort", leave);
    },
  };
}
