import { setTimeout as delay } from "node:timers/promises";
import { errors } from "../errors.ts";
import { type Clock, monotonicMs, realNowMs } from "./clock.ts";
import type { Db, Instant } from "./db.ts";
import type { Log } from "./log.ts";

/** A source of work that falls due at instants of the domain's time: expiries, renewals, schedules. */
export interface DueSource {
  readonly name: string;
  /**
   * The next instant up to `until` at which work falls due; null when there is none. A source of work that has no due
   * instants (a repeated check) always returns null: a settable clock then does not stop for it.
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
/** Setting the clock waits at most this long for the runs on the way. */
const IDLE_SECONDS = 900;

/**
 * Carries out due work at every whole second of real time, because work falls due then. Each source runs separately:
 * one that fails or hangs does not delay the others. Nothing is carried out while `isPaused`.
 */
export function startSweeper(deps: {
  sources: readonly DueSource[];
  log: Log;
  isPaused?: () => boolean;
  /** Called for each source at the start and at each success: one that never succeeds has an age too. */
  onSwept?: (source: string) => void;
}) {
  const { sources, log, isPaused = () => false, onSwept } = deps;
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
  const afterNextSecond = (): NodeJS.Timeout =>
    setTimeout(
      () => {
        timer = afterNextSecond();
        if (!isPaused()) sources.forEach(sweep);
      },
      SWEEP_MS - (realNowMs() % SWEEP_MS) + TIMER_MARGIN_MS,
    );
  let timer = afterNextSecond();
  return {
    async stop() {
      clearTimeout(timer);
      await Promise.all(busy.values());
    },
  };
}

/** A clock that moves only when it is set, and only forward. Its time survives a restart and reaches every node. */
export interface SettableClock extends Clock {
  /**
   * Moves to `target` and stops at each instant on the way at which work falls due. There it carries out the work and
   * waits for `idle`.
   *
   * Fails with 400 when `target` is before now.
   */
  advanceTo(
    target: Instant,
    sources: readonly DueSource[],
    idle: (timeout_ms: number) => Promise<boolean>,
  ): Promise<void>;
  stop(): Promise<void>;
}

const RETRY_MS = 20;
const CHANNEL = "test_clock";

/** Creates a settable clock at the later of `start` and its stored time. */
export async function createSettableClock(deps: { db: Db; start: Instant }): Promise<SettableClock> {
  const { db, start } = deps;
  let now = await stand(db, start);
  const stop = await db.listen(CHANNEL, (instant) => {
    if (instant > now) now = instant;
  });
  const moveTo = async (instant: Instant) => {
    now = await stand(db, instant);
    await db.notify(CHANNEL, now);
  };
  let last: Promise<void> = Promise.resolve();

  const advance: SettableClock["advanceTo"] = async (target, sources, idle) => {
    if (target < now)
      throw errors.invalidValue(
        "now",
        `The clock is at ${now} and only goes forward. Give that instant or a later one.`,
      );
    const deadline_ms = monotonicMs() + IDLE_SECONDS * 1000;
    const firstDue = async () => {
      const due = await Promise.all(sources.map((source) => source.nextDueAt(target)));
      return due.filter((at) => at !== null).sort()[0] ?? null;
    };
    for (;;) {
      for (const source of sources) await source.carryOut();
      // carryOut skips work that a sweep or another node is doing. All runs that `idle` must wait for are queued only
      // when no more work is due.
      let next = await firstDue();
      if (next === null || next > now) {
        if (!(await idle(deadline_ms - monotonicMs()))) throw errors.overloaded();
        next = await firstDue();
        if (next === null && now >= target) return;
        if (next === null || next > now) {
          await moveTo(next ?? target);
          continue;
        }
      }
      if (monotonicMs() > deadline_ms) throw errors.overloaded();
      await delay(RETRY_MS);
    }
  };
  return {
    now: () => now,
    advanceTo(target, sources, idle) {
      const mine = last.then(() => advance(target, sources, idle));
      last = mine.catch(() => {});
      return mine;
    },
    stop,
  };
}

/** Persists the later of `instant` and the clock's stored time, and returns it. */
async function stand(db: Db, instant: Instant): Promise<Instant> {
  const [row] = await db.query<{ now: Instant }>({
    text: `insert into test_clock (now) values ($1) on conflict (id) do update set now = greatest(test_clock.now, excluded.now)
      returning now`,
    values: [instant],
  });
  if (row === undefined) throw new Error("the test clock has no row");
  return row.now;
}
