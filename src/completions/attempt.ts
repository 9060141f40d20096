import { errors, type MeansOf, PurserError } from "../errors.ts";
import type { ChargingLedger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Counts, Model } from "../models/models.types.ts";
import { isProviderFailure } from "../models/provider-errors.ts";
import { monotonicMs } from "../platform/clock.ts";
import { release } from "./charge.ts";
import type { CompletionCall, Reservation } from "./completions.types.ts";
import { reserve } from "./reservation.ts";

/** How the provider is called for a reservation. Throws PurserErrors, and the signal's reason on an abort. */
export type Send<T> = (
  reservation: Reservation,
  options: { signal: AbortSignal; deadline_ms: number; onSent(): void; onDisbelieved(report: Counts): void },
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
  | { kind: "answered"; reservation: Reservation; value: T }
  /** The caller left after the request was sent, so it pays the input. */
  | { kind: "hung_up"; reservation: Reservation; thrown: unknown }
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
}

/** Reserves `call` on `model` and sends it. Never throws. Releases the hold of a failed attempt. */
export async function attemptModel<T>(
  { models, ledger, meansOf, onAttempt, onDisbelieved: noteReport }: AttemptDeps,
  { call, model }: { call: CompletionCall; model: Model },
  { deadline_ms, wait_ms }: Limits,
  send: Send<T>,
): Promise<Attempted<T>> {
  const patience = patienceOf(call.signal, wait_ms);
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
  let is_sent = false;
  const onSent = () => {
    is_sent = true;
  };
  let is_noted = false;
  const onDisbelieved = (report: Counts) => {
    if (!is_noted) noteReport(model, report);
    is_noted = true;
  };
  try {
    reservation = await reserve({ models, ledger, meansOf }, call, model);
    const value = await send(reservation, { signal: patience.signal, deadline_ms, onSent, onDisbelieved });
    note(null);
    models.health.answered(model);
    return { kind: "answered", reservation, value };
  } catch (thrown) {
    if (reservation !== null && is_sent && isHangUp(call, thrown)) return { kind: "hung_up", reservation, thrown };
    if (reservation !== null) await release(ledger, call);
    if (thrown instanceof PurserError && (is_sent || isProviderFailure(thrown))) note(thrown);
    if (isProviderFailure(thrown)) models.health.failed(model, thrown.shape.retry_after_s);
    return { kind: "failed", was_held: reservation !== null, thrown };
  } finally {
    patience.end();
  }
}

/** Whether an attempt ended because its caller left. A failure of the provider itself costs nothing. */
function isHangUp({ signal, isHandedBack }: CompletionCall, error: unknown): boolean {
  return signal.aborted && !isProviderFailure(error) && isHandedBack?.() !== true;
}

/** The signal of one attempt: the caller's and, unless `wait_ms` is null, a timeout for the beginning of the answer. */
function patienceOf(signal: AbortSignal, wait_ms: number | null): { signal: AbortSignal; end(): void } {
  if (wait_ms === null) return { signal, end: () => {} };
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(errors.upstreamTimeout()), wait_ms);
  return { signal: AbortSignal.any([signal, over.signal]), end: () => clearTimeout(timer) };
}
