import { setTimeout as delay } from "node:timers/promises";
import { PurserError } from "../errors.ts";
import type { Log } from "../platform/log.ts";
import { isRefusal } from "../platform/sql-state.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";

/** Pauses while the database is away: a restart or a failover takes seconds. Together they are as long as a lease. */
const PAUSES_MS = [0, 100, 400, 1_500, 3_000, 5_000, 10_000, 10_000];

/** The database stayed away, which is nothing that a run fails for: it is left to whoever takes it up again. */
export class DatabaseAwayError extends Error {}

/** Does something that may be done twice, again when it fails. Throws what the database refuses, and a DatabaseAwayError at the end. */
export type Insist = <T>(work: () => Promise<T>, landed?: () => Promise<T>) => Promise<T>;

/**
 * Repeats what fails because the database is away; what it has judged, it would judge again. `landed` is asked when a repeat answers false: the try before may have been carried out
 * and its answer lost. Once `stopping` is aborted nothing waits any more: each is tried once more.
 */
export function createInsist({ log, stopping }: { log: Pick<Log, "warn">; stopping: AbortSignal }): Insist {
  return async (work, landed) => {
    for (let tries = 0; ; tries += 1) {
      try {
        const answer = await work();
        return answer === false && tries > 0 && landed !== undefined ? await landed() : answer;
      } catch (error) {
        if (error instanceof PurserError || isRefusal(error)) throw error;
        const { message } = error as Error;
        const pause_ms = PAUSES_MS[tries];
        if (pause_ms === undefined || (tries > 0 && stopping.aborted)) {
          throw new DatabaseAwayError(message, { cause: error });
        }
        log.warn({ error: message }, "the database failed a run at work; it is asked again");
        await delay(pause_ms, undefined, { signal: stopping }).catch(() => {});
      }
    }
  };
}

/**
 * The same scheduling, which does not give up a run at work because the database was away for some seconds. The worker
 * keeps the lease meanwhile; under one that is lost, repeats write nothing.
 */
export function insistent(scheduling: Scheduling, insist: Insist): Scheduling {
  return {
    ...scheduling,
    journal: (lease) => insist(() => scheduling.journal(lease)),
    startStep: (lease, step) => insist(() => scheduling.startStep(lease, step)),
    finishStep: (lease, step) =>
      insist(
        () => scheduling.finishStep(lease, step),
        async () => {
          const written = (await scheduling.journal(lease)).find(({ index }) => index === step.index);
          return written?.status === step.status;
        },
      ),
    finishRun: (lease, finish) =>
      insist(
        () => scheduling.finishRun(lease, finish),
        async () => (await scheduling.getRun(lease, lease.run_id)).status === finish.status,
      ),
  };
}
