import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../platform/log.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";

/** Pauses while the database is away: a restart or a failover takes seconds. Together they are as long as a lease. */
const PAUSES_MS = [0, 100, 400, 1_500, 3_000, 5_000, 10_000, 10_000];

/** Does something that may be done twice, again when it fails; the last failure is thrown. */
export type Insist = <T>(work: () => Promise<T>, landed?: () => Promise<T>) => Promise<T>;

/**
 * Repeats what the database fails. `landed` is asked when a repeat answers false: the try before may have been carried out
 * and its answer lost. Once `stopping` is aborted nothing waits any more: each is tried once more.
 */
export function createInsist({ log, stopping }: { log: Pick<Log, "warn">; stopping: AbortSignal }): Insist {
  return async (work, landed) => {
    for (let tries = 0; ; tries += 1) {
      try {
        const answer = await work();
        return answer === false && tries > 0 && landed !== undefined ? await landed() : answer;
      } catch (error) {
        const pause_ms = PAUSES_MS[tries];
        if (pause_ms === undefined || (tries > 0 && stopping.aborted)) throw error;
        log.warn({ error: (error as Error).message }, "the database failed a run at work; it is asked again");
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
