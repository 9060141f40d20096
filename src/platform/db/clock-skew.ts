import { isDatabaseAway } from "../../kernel/sql-state.ts";
import { MAX_STEP_MS, machine_time, monotonicMs, type SteadyTime } from "../lib/clock.ts";
import type { Log } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Db, Sql } from "./db.ts";

/** A clock that stays wrong is logged again after this time. */
const LOG_MS = 60_000;
/** contract 1.10: a larger difference is logged. */
export const WARN_MS = 2_000;
/** contract 1.10: with a larger difference the node carries out no due work. */
export const STOP_MS = MAX_STEP_MS;

/** The real time of this node and of the database. Never the settable clock. */
interface Clocks {
  time: Pick<SteadyTime, "nowMs" | "wallMs" | "follow">;
  /** Null on embedded storage, which has this machine's clock. */
  databaseMs: (() => Promise<number>) | null;
}

/** The time of the database server's clock, which writes leases. */
export async function databaseNowMs(sql: Sql): Promise<number> {
  const [row] = await sql.query<{ ms: number }>({
    name: "database_now",
    text: "select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
  });
  if (row === undefined) throw new Error("a clock without a time");
  return row.ms;
}

/** The system clocks of this machine and of the database server. */
export function systemClocks(db: Db): Clocks {
  return { time: machine_time, databaseMs: db.kind === "embedded" ? null : () => databaseNowMs(db) };
}

/** How far the node's clock is ahead of the database's: from the middle of the round trip, less its uncertainty. Pure. */
export function computeSkew(measured: { node_ms: number; database_ms: number; round_trip_ms: number }): number {
  const half = measured.round_trip_ms / 2;
  const difference = measured.node_ms - half - measured.database_ms;
  return Math.sign(difference) * Math.max(0, Math.abs(difference) - half);
}

const WRONG = {
  database:
    "this node's clock is wrong: correct it (NTP). Until then the node is not ready and runs no schedules and expiries",
  embedded:
    "this machine's clock was set. Purser goes on with the time of before: correct the clock (NTP), or restart Purser if the new time is right",
};

/**
 * Compares this machine's clock with the database's, or on embedded storage with the time since the process started. Call
 * `check` before each sweep; the first comparison is made here.
 */
export async function startClockCheck(deps: { clocks: Clocks; log: Log; metrics: Pick<Metrics, "clockSkew"> }) {
  const { clocks, log, metrics } = deps;
  const { time, databaseMs } = clocks;
  let skew_ms = 0;
  let logged_at_ms = Number.NEGATIVE_INFINITY;

  async function measure(read: NonNullable<typeof databaseMs>): Promise<number> {
    const began_ms = monotonicMs();
    const database_ms = await read();
    const round_trip_ms = monotonicMs() - began_ms;
    if (round_trip_ms > STOP_MS) return skew_ms;
    return Math.round(computeSkew({ node_ms: time.wallMs(), database_ms, round_trip_ms }));
  }

  function report(was_ms: number): void {
    const gradeSkew = (ms: number) => (Math.abs(ms) > STOP_MS ? 2 : Math.abs(ms) > WARN_MS ? 1 : 0);
    const grade = gradeSkew(skew_ms);
    const now_ms = monotonicMs();
    if (grade === gradeSkew(was_ms) && (grade === 0 || now_ms - logged_at_ms < LOG_MS)) return;
    logged_at_ms = now_ms;
    if (grade === 2) log.error({ skew_ms }, WRONG[databaseMs === null ? "embedded" : "database"]);
    else if (grade === 1) log.warn({ skew_ms }, "this node's clock differs from the database's: correct it (NTP)");
    else log.warn({ skew_ms }, "this node's clock is right again");
  }

  async function compare(is_start: boolean): Promise<void> {
    const was_ms = skew_ms;
    if (databaseMs === null) skew_ms = time.wallMs() - time.nowMs();
    else {
      skew_ms = await measure(databaseMs);
      // The database confirms this machine's clock. At the start neither is known to be right: with the earlier one
      // nothing expires too soon.
      if (Math.abs(skew_ms) <= STOP_MS) time.follow(0);
      else if (is_start) time.follow(Math.max(0, skew_ms));
    }
    metrics.clockSkew(skew_ms / 1_000);
    report(was_ms);
  }
  const check = (is_start = false) =>
    compare(is_start).catch((error: unknown) => {
      if (!isDatabaseAway(error)) log.error({ error }, "the clocks could not be compared");
    });
  await check(true);
  return {
    /** Whether the node must not decide what is due. Embedded storage goes on with the steady time. */
    isExcessive: () => databaseMs !== null && Math.abs(skew_ms) > STOP_MS,
    check: () => check(),
  };
}
