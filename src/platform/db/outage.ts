import { exceededLimit, isDiskFull, isOutage } from "../../kernel/sql-state.ts";
import { monotonicMs } from "../lib/clock.ts";
import type { Log } from "../telemetry/log.ts";
import type { DatabaseState } from "../telemetry/operation-metrics.ts";
import { NODE_CONNECTIONS } from "./sql-connection.ts";

/** Statements that succeed when a database in that state works again. On a full disk they take new space. */
export const PROBES: Record<DatabaseState, string> = {
  up: "select 1",
  away: "select 1",
  disk_full:
    "create table purser_space_probe as select repeat('x', 2000) from generate_series(1, 64); drop table purser_space_probe",
};
const PROBE_MS = 500;
/** An outage ends after this time without a failure, so that one that comes and goes is reported once. */
const QUIET_MS = 1_000;

const LINES: Record<Exclude<DatabaseState, "up">, string> = {
  away: "the database is unavailable: statements fail until it is back",
  disk_full: "the disk of the database is full: free space. Until then writes fail, and reads go on",
};

const LIMITS = {
  shared_memory:
    "a query needs more shared memory than the database has: enlarge its /dev/shm (of a container: shm_size, --shm-size)",
  temporary_files: "a query needs larger temporary files than temp_file_limit of the database allows: raise it",
};

/** What the operator can do while the database is away. */
function advise(code = ""): string {
  if (code === "53300") {
    return `It has no free connection, and a node needs ${NODE_CONNECTIONS}: raise max_connections or the limit of the user, or stop a node`;
  }
  if (/^(28|3D)/.test(code)) return "It rejects the login: look at the user, the password and the name in DATABASE_URL";
  if (/CERT|UNABLE_TO_VERIFY/.test(code)) return "Its certificate is not trusted: renew it, or correct sslrootcert";
  return "Look at its server and the network";
}

/**
 * The state of the database as this node sees it. Logs one line when the database becomes unavailable, one when its disk
 * is the cause, and one when it is back. A failed statement is logged only if it exceeded a limit of the server. `probe`
 * resolves when the database works again.
 */
export function createOutage({ log, probe }: { log: Log; probe(state: DatabaseState): Promise<unknown> }) {
  let state: DatabaseState = "up";
  let since_ms = 0;
  let failed_ms = 0;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  let is_disk_told = false;

  const end = () => {
    log.warn({ ms: Math.round(monotonicMs() - since_ms), failures }, "the database is back");
    state = "up";
    timer = undefined;
  };
  const check = async () => {
    const works = await probe(state).then(
      () => true,
      () => false,
    );
    if (timer === undefined) return;
    if (works && monotonicMs() - failed_ms >= QUIET_MS) end();
    else timer = setTimeout(check, PROBE_MS).unref();
  };
  return {
    state: () => state,
    /** Counts a failed statement or connection. Errors of the statement itself are no outage. */
    failed(error: unknown): void {
      const limit = exceededLimit(error);
      if (limit !== null) log.error({ code: (error as { code?: string }).code }, LIMITS[limit]);
      if (!isOutage(error)) return;
      failed_ms = monotonicMs();
      failures += 1;
      const was_up = state === "up";
      state = isDiskFull(error) ? "disk_full" : "away";
      if (was_up) {
        since_ms = failed_ms;
        failures = 1;
        is_disk_told = false;
        timer = setTimeout(check, PROBE_MS).unref();
      }
      if (!was_up && (state !== "disk_full" || is_disk_told)) return;
      is_disk_told = state === "disk_full";
      const { code } = error as Error & { code?: string };
      log.error({ state, code }, state === "away" ? `${LINES.away}. ${advise(code)}` : LINES[state]);
    },
    close(): void {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
