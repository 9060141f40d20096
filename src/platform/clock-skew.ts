import { monotonicMs, realNowMs } from "./clock.ts";
import type { Db, Sql } from "./db.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { isDatabaseAway } from "./sql-state.ts";

const CHECK_MS = 60_000;
/** contract 1.10: a larger difference is logged. */
export const WARN_MS = 2_000;
/** contract 1.10: with a larger difference the node carries out no due work. */
export const STOP_MS = 60_000;

/** The real time of this node and of the database. Never the settable clock. */
interface Clocks {
  nodeMs(): number;
  databaseMs(): Promise<number>;
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
  return { nodeMs: realNowMs, databaseMs: () => databaseNowMs(db) };
}

/** How far the node's clock is ahead of the database's: from the middle of the round trip, less its uncertainty. Pure. */
export function skewOf(measured: { node_ms: number; database_ms: number; round_trip_ms: number }): number {
  const half = measured.round_trip_ms / 2;
  const difference = measured.node_ms - half - measured.database_ms;
  return Math.sign(difference) * Math.max(0, Math.abs(difference) - half);
}

/** Compares this node's clock with the database's at the start and each minute. */
export async function startClockCheck(deps: { clocks: Clocks; log: Log; metrics: Pick<Metrics, "clockSkew"> }) {
  const { clocks, log, metrics } = deps;
  let skew_ms = 0;
  const check = async () => {
    const began_ms = monotonicMs();
    const database_ms = await clocks.databaseMs();
    const was_ms = skew_ms;
    const measured = { node_ms: clocks.nodeMs(), database_ms, round_trip_ms: monotonicMs() - began_ms };
    skew_ms = Math.round(skewOf(measured));
    metrics.clockSkew(skew_ms / 1_000);
    const size = Math.abs(skew_ms);
    if (size > STOP_MS) {
      log.error(
        { skew_ms },
        "this node's clock is wrong: correct it (NTP). Until then the node is not ready and runs no schedules and expiries",
      );
    } else if (size > WARN_MS) log.warn({ skew_ms }, "this node's clock differs from the database's: correct it (NTP)");
    else if (Math.abs(was_ms) > WARN_MS) log.warn({ skew_ms }, "this node's clock is right again");
  };
  const checkAgain = () =>
    check().catch((error: unknown) => {
      if (!isDatabaseAway(error)) log.error({ error }, "the clocks could not be compared");
    });
  await checkAgain();
  const timer = setInterval(checkAgain, CHECK_MS).unref();
  return {
    /** Whether the node must not decide what is due. */
    isExcessive: () => Math.abs(skew_ms) > STOP_MS,
    check: checkAgain,
    stop: () => clearInterval(timer),
  };
}
