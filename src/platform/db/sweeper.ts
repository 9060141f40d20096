import { realNowMs } from "../lib/clock.ts";
import { coalesced } from "../lib/coalesced.ts";
import type { Instant } from "../lib/instant.ts";
import type { Log } from "../telemetry/log.ts";

/** A source of work that falls due at instants of the domain's time: expiries, renewals, schedules. */
export interface DueSource {
  readonly name: string;
  /**
   * The next instant up to `until` at which work falls due, in the past if it is due already; null when there is none. A
   * source of work that has no due instants (a repeated check) always returns null: a settable clock does not stop for it.
   */
  nextDueAt(until: Instant): Promise<Instant | null>;
  /** Carries out all work that is due at the clock's present instant. Idempotent, and safe on several nodes at once. */
  carryOut(): Promise<void>;
}

/**
 * The failures of a sweep that goes on after each. `attempt` does one part of the work and keeps its failure, and
 * `throwAny` reports what was kept, as `2 renewals failed: Error: …`.
 */
export function createSweepFailures(what: string) {
  const failures: unknown[] = [];
  return {
    async attempt(work: Promise<unknown>): Promise<void> {
      await work.catch((error: unknown) => failures.push(error));
    },
    throwAny(): void {
      if (failures.length > 0) throw new AggregateError(failures, `${failures.length} ${what} failed: ${failures[0]}`);
    },
  };
}

const SWEEP_MS = 1_000;
/** A timer may fire slightly early, so it aims slightly late. */
const TIMER_MARGIN_MS = 5;

/**
 * Carries out due work at every whole second of real time, because work falls due then. Each source runs separately:
 * one that fails or hangs does not delay the others. `isPaused` is asked before each turn; then nothing is carried out.
 */
export function startSweeper(deps: {
  sources: readonly DueSource[];
  log: Log;
  isPaused?: () => Promise<boolean>;
  /** Called for each source at the start and at each success: one that never succeeds has an age too. */
  onSwept?: (source: string) => void;
}) {
  const { sources, log, isPaused = async () => false, onSwept } = deps;
  const busy = new Map<string, Promise<void>>();
  for (const { name } of sources) onSwept?.(name);
  const sweep = (source: DueSource) => {
    if (busy.has(source.name)) return;
    const work = source
      .carryOut()
      .then(() => onSwept?.(source.name))
      .catch((error: Error) => log.error({ source: source.name, error }, "a sweep failed; the next one retries"))
      .finally(() => busy.delete(source.name));
    busy.set(source.name, work);
  };
  let is_stopped = false;
  const turn = coalesced(async () => {
    if (!(await isPaused()) && !is_stopped) sources.forEach(sweep);
  });
  const afterNextSecond = (): NodeJS.Timeout =>
    setTimeout(
      () => {
        timer = afterNextSecond();
        turn.run();
      },
      SWEEP_MS - (realNowMs() % SWEEP_MS) + TIMER_MARGIN_MS,
    );
  let timer = afterNextSecond();
  return {
    async stop() {
      is_stopped = true;
      clearTimeout(timer);
      await turn.done();
      await Promise.all(busy.values());
    },
  };
}
