import type { Charge, ChargingLedger, Ledger, Progress } from "../ledger/ledger.types.ts";
import { monotonicMs } from "../platform/clock.ts";

const PROGRESS_MS = 1_000;
/** A lease lasts HOLD_SECONDS: three renewals may fail before one runs out. */
const RENEW_MS = 30_000;

/** A call that holds tokens and has not been charged or let go. */
interface LivingCall {
  user_id: string;
  renewed_ms: number;
  noted_tokens: number;
  /** What the call has come to: of a stream so far, null before its first output; of a call that is being charged, all. */
  sofar: (() => Charge | null) | null;
}

/** The calls of this process that hold tokens. */
export interface LivingCalls {
  /** Begins and ends calls. */
  charges: ChargingLedger;
  /** Says how to learn what a held call has come to. */
  watch(hold_id: string, sofar: () => Charge | null): void;
  /**
   * Resolves once no charge is under way: those of callers that hung up outlive their requests. One that waits for a
   * database that is away is tried a last time.
   */
  idle(): Promise<void>;
}

/**
 * Keeps the leases of all living calls, and writes each second what streams have come to, in one statement for all of
 * them: of a process that dies, their holds are settled as that. Nothing runs while no call does.
 */
export function createLivingCalls(ledger: ChargingLedger & Pick<Ledger, "progress" | "beginStop">): LivingCalls {
  const calls = new Map<string, LivingCall>();
  const ending = new Set<Promise<unknown>>();
  let timer: NodeJS.Timeout | undefined;
  let noting = false;

  async function note(): Promise<void> {
    if (noting) return;
    noting = true;
    try {
      const due = [...calls].flatMap(([hold_id, call]) => progressOf(hold_id, call));
      await ledger.progress(due);
      markNoted(calls, due);
    } catch {
      // what was not noted is due again at the next turn
    } finally {
      noting = false;
    }
  }
  function begin(hold_id: string, user_id: string): void {
    calls.set(hold_id, { user_id, renewed_ms: monotonicMs(), noted_tokens: 0, sofar: null });
    timer ??= setInterval(() => void note(), PROGRESS_MS).unref();
  }
  function watch(hold_id: string, sofar: () => Charge | null): void {
    const call = calls.get(hold_id);
    if (call !== undefined) call.sofar = sofar;
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
        // A settle lasts as long as the database is away, and the call lives on until then. With a rider, nothing is
        // charged but with it.
        if (request.rider === undefined) watch(request.hold_id, () => request);
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

/** What there is to note of a call: its charge when it has grown, its lease when that has aged. */
function progressOf(hold_id: string, { user_id, renewed_ms, noted_tokens, sofar }: LivingCall): Progress[] {
  const charge = sofar?.() ?? null;
  if (charge !== null && charge.cost_tokens > noted_tokens) return [{ user_id, hold_id, charge }];
  return monotonicMs() - renewed_ms < RENEW_MS ? [] : [{ user_id, hold_id, charge: null }];
}

function markNoted(calls: Map<string, LivingCall>, noted: Progress[]): void {
  for (const { hold_id, charge } of noted) {
    const call = calls.get(hold_id);
    if (call === undefined) continue;
    call.renewed_ms = monotonicMs();
    call.noted_tokens = charge?.cost_tokens ?? call.noted_tokens;
  }
}
