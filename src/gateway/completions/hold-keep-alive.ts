import type { Charge, ChargingLedger, Ledger, Progress } from "../../account/ledger/ledger.types.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";

const PROGRESS_MS = 1_000;
/** A lease lasts HOLD_SECONDS: three renewals may fail before one runs out. */
const RENEW_MS = 30_000;

/** A call whose hold is neither settled nor released. */
interface LiveCall {
  user_id: string;
  renewed_ms: number;
  noted_tokens: number;
  /**
   * The charge so far. For a stream: null before its first output. For a call that is being settled: the whole charge.
   */
  chargeNow: (() => Charge | null) | null;
}

/** The calls of this process that hold tokens. */
export interface HoldKeepAlive {
  /** The ledger through which calls begin and end. */
  charges: ChargingLedger;
  /** Sets the function that returns the charge so far of a held call. */
  watch(hold_id: string, chargeNow: () => Charge | null): void;
  /**
   * Resolves when no charge is pending; a charge can outlive the request of a caller that hung up. A charge that waits
   * for an unavailable database is tried one last time.
   */
  idle(): Promise<void>;
}

/**
 * Renews the leases of all held calls, and records the progress of streams every second, in one statement. The recorded
 * progress settles the holds of a process that died. The timer runs only while calls are held.
 *
 * `onUncounted` is called once for a call whose charge so far cannot be computed. Its lease is renewed without a charge.
 */
export function createHoldKeepAlive(
  ledger: ChargingLedger & Pick<Ledger, "progress" | "beginStop">,
  onUncounted: (hold_id: string, error: unknown) => void = () => {},
): HoldKeepAlive {
  const calls = new Map<string, LiveCall>();
  const ending = new Set<Promise<unknown>>();
  let timer: NodeJS.Timeout | undefined;
  let noting = false;

  async function note(): Promise<void> {
    if (noting) return;
    noting = true;
    try {
      const due = [...calls].flatMap(([hold_id, call]) => getProgress(hold_id, call, chargeSoFar(hold_id, call)));
      await ledger.progress(due);
      markNoted(calls, due);
    } catch {
      // The next turn tries again.
    } finally {
      noting = false;
    }
  }
  /** One call's error must not end the renewal of the other calls. */
  function chargeSoFar(hold_id: string, call: LiveCall): Charge | null {
    try {
      return call.chargeNow?.() ?? null;
    } catch (error) {
      call.chargeNow = null;
      onUncounted(hold_id, error);
      return null;
    }
  }
  function begin(hold_id: string, user_id: string): void {
    calls.set(hold_id, { user_id, renewed_ms: monotonicMs(), noted_tokens: 0, chargeNow: null });
    timer ??= setInterval(() => void note(), PROGRESS_MS).unref();
  }
  function watch(hold_id: string, chargeNow: () => Charge | null): void {
    const call = calls.get(hold_id);
    if (call !== undefined) call.chargeNow = chargeNow;
  }
  function end<T>(hold_id: string, done: Promise<T>): Promise<T> {
    ending.add(done);
    const ended = () => {
      ending.delete(done);
      calls.delete(hold_id);
      if (calls.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
    done.then(ended, ended);
    return done;
  }

  return {
    charges: {
      async hold(request) {
        const outcome = await ledger.hold(request);
        if (outcome.status === "held") begin(request.hold_id, request.user_id);
        return outcome;
      },
      settle(request) {
        // While a settle waits for an unavailable database, the hold is renewed. With a hook, only the hook's
        // transaction may charge.
        if (request.hook === undefined) watch(request.hold_id, () => request);
        return end(request.hold_id, ledger.settle(request));
      },
      release: (hold) => end(hold.hold_id, ledger.release(hold)),
    },
    watch,
    async idle() {
      ledger.beginStop();
      while (ending.size > 0) await Promise.allSettled(ending);
    },
  };
}

/** The progress to record of a call: a charge that has grown, or a lease that is due for renewal. */
function getProgress(
  hold_id: string,
  { user_id, renewed_ms, noted_tokens }: LiveCall,
  charge: Charge | null,
): Progress[] {
  if (charge !== null && charge.cost_tokens > noted_tokens) return [{ user_id, hold_id, charge }];
  return monotonicMs() - renewed_ms < RENEW_MS ? [] : [{ user_id, hold_id, charge: null }];
}

function markNoted(calls: Map<string, LiveCall>, noted: Progress[]): void {
  for (const { hold_id, charge } of noted) {
    const call = calls.get(hold_id);
    if (call === undefined) continue;
    call.renewed_ms = monotonicMs();
    call.noted_tokens = charge?.cost_tokens ?? call.noted_tokens;
  }
}
