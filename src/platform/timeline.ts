import { setTimeout as delay } from "node:timers/promises";
import { errors } from "../errors.ts";
import { type Clock, monotonicMs, realNowMs } from "./clock.ts";
import type { Db, Instant } from "./db.ts";
import type { Log } from "./log.ts";

/** Something that falls due at instants of the domain's time: expiries, renewals, schedules. */
export interface DueSource {
  readonly name: string;
  /** The next instant up to `until` at which there is something to carry out; null when there is none. */
  nextDueAt(until: Instant): Promise<Instant | null>;
  /** Carries out all that is due at the clock's present instant. Idempotent, safe on several nodes at once. */
  carryOut(): Promise<void>;
}

const SWEEP_MS = 1_000;
/** A timer may fire a little before the clock is there: it aims a little later. */
const TIMER_MARGIN_MS = 5;
/** Setting the clock waits this long for the runs on the way before it gives up. */
const IDLE_SECONDS = 900;

/**
 * Carries out what is due at every whole second of real time, since that is when things fall due; each source apart: one
 * that fails or hangs holds up no other.
 */
export function startSweeper(deps: { sources: readonly DueSource[]; log: Log }) {
  const { sources, log } = deps;
  const busy = new Map<string, Promise<void>>();
  const sweep = (source: DueSource) => {
    if (busy.has(source.name)) return;
    const work = source
      .carryOut()
      .catch((error: Error) =>
        log.error({ source: source.name, error: error.message }, "a sweep failed; the next one retries"),
      )
      .finally(() => busy.delete(source.name));
    busy.set(source.name, work);
  };
  const afterNextSecond = (): NodeJS.Timeout =>
    setTimeout(
      () => {
        timer = afterNextSecond();
        sources.forEach(sweep);
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

/** A clock that stands still until it is set, forward only; where it stands survives a restart and reaches every node. */
export interface SettableClock extends Clock {
  /**
   * Moves to `target`, stopping at each instant on the way at which something falls due, carrying it out there and
   * waiting for `idle` before going on. 400 when `target` lies before now.
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

/** A settable clock at the later of `start` and where it stood before. */
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
        `The clock stands at ${now} and goes forward only. Give that instant or a later one.`,
      );
    const deadline_ms = monotonicMs() + IDLE_SECONDS * 1000;
    const firstDue = async () => {
      const due = await Promise.all(sources.map((source) => source.nextDueAt(target)));
      return due.filter((at) => at !== null).sort()[0] ?? null;
    };
    for (;;) {
      for (const source of sources) await source.carryOut();
      // What a sweep or another node is at, carryOut passes over: only once nothing more has come due are all runs queued
      // that `idle` is to wait for.
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

/** Persists the later of `instant` and where the clock stood; answers where it stands. */
async function stand(db: Db, instant: Instant): Promise<Instant> {
  const [row] = await db.query<{ now: Instant }>({
    text: `insert into test_clock (now) values ($1) on conflict (id) do update set now = greatest(test_clock.now, excluded.now)
      returning now`,
    values: [instant],
  });
  if (row === undefined) throw new Error("the test clock has no row");
  return row.now;
}
