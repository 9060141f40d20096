import { setTimeout as delay } from "node:timers/promises";
import { errors, PurserError } from "../../kernel/errors.ts";
import { type Clock, monotonicMs } from "../lib/clock.ts";
import type { Instant } from "../lib/instant.ts";
import type { Log } from "../telemetry/log.ts";
import type { Db } from "./db.ts";
import type { DueSource } from "./sweeper.ts";

/** A clock that moves only when it is set, and only forward. Its time survives a restart and reaches every node. */
export interface SettableClock extends Clock {
  /**
   * Moves to `target` and stops at each instant on the way at which work falls due. There it carries out the work and
   * waits for `idle`. An expected failure, such as of a payment provider, does not stop it: a sweep tries again.
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

/** Setting the clock waits at most this long for the runs on the way. */
const IDLE_SECONDS = 900;
const RETRY_MS = 20;
const CHANNEL = "test_clock";

/** Creates a settable clock at the later of `start` and its stored time. */
export async function createSettableClock(deps: { db: Db; start: Instant; log: Log }): Promise<SettableClock> {
  const { db, start, log } = deps;
  let now = await storedTime(db, start);
  const stop = await db.listen(CHANNEL, (instant) => {
    if (instant > now) now = instant;
  });
  const moveTo = async (instant: Instant) => {
    now = await storedTime(db, instant);
    await db.notify(CHANNEL, now);
  };
  const carryOut = async (source: DueSource) => {
    try {
      await source.carryOut();
    } catch (error) {
      if (!isExpected(error)) throw error;
      log.warn({ source: source.name, error }, "work failed while the clock was set; a sweep tries again");
    }
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
      for (const source of sources) await carryOut(source);
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

/** Whether all failures of a sweep are expected ones: not of the database, and no faults of this service. */
function isExpected(error: unknown): boolean {
  const failures: unknown[] = error instanceof AggregateError ? error.errors : [error];
  return failures.every((each) => each instanceof PurserError);
}

/** Persists the later of `instant` and the clock's stored time, and returns it. */
async function storedTime(db: Db, instant: Instant): Promise<Instant> {
  const [row] = await db.query<{ now: Instant }>({
    text: `insert into test_clock (now) values ($1) on conflict (id) do update set now = greatest(test_clock.now, excluded.now)
      returning now`,
    values: [instant],
  });
  if (row === undefined) throw new Error("the test clock has no row");
  return row.now;
}
