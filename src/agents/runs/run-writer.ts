import { setTimeout as delay } from "node:timers/promises";
import { PurserError } from "../../kernel/errors.ts";
import { isRefusal } from "../../kernel/sql-state.ts";
import { backoff } from "../../platform/lib/retry.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Runs } from "./runs.service.ts";

/** The first retry is immediate. A restart or a failover takes seconds. All pauses together last about as long as a lease. */
const PAUSES_MS = [0, ...backoff({ first: 100, max: 10_000, retries: 6 })];

/** The database is unavailable. The run is not failed: another worker resumes it. */
export class DatabaseUnavailableError extends Error {}

/**
 * Repeats `work`, which must be idempotent, while the database is unavailable. `isWritten` is called when a retry
 * answers false, because an earlier try may have succeeded and its answer been lost.
 */
export type RetryWhileUnavailable = <T>(work: () => Promise<T>, isWritten?: () => Promise<T>) => Promise<T>;

/**
 * Throws an error of the database about the statement itself, and a DatabaseUnavailableError after the last retry. Once
 * `stopping` is aborted, there are no pauses and one last try.
 */
export function createRetry(deps: { log: Pick<Log, "warn">; stopping: AbortSignal }): RetryWhileUnavailable {
  const { log, stopping } = deps;
  return async (work, isWritten) => {
    for (let tries = 0; ; tries += 1) {
      try {
        const answer = await work();
        return answer === false && tries > 0 && isWritten !== undefined ? await isWritten() : answer;
      } catch (error) {
        if (error instanceof PurserError || isRefusal(error)) throw error;
        const { message } = error as Error;
        const pause_ms = PAUSES_MS[tries];
        if (pause_ms === undefined || (tries > 0 && stopping.aborted)) {
          throw new DatabaseUnavailableError(message, { cause: error });
        }
        log.warn({ error }, "a query of a run failed, it is retried");
        await delay(pause_ms, undefined, { signal: stopping }).catch(() => {});
      }
    }
  };
}

/** Reads and writes of a run that a worker executes. */
export type RunWriter = Pick<
  Runs,
  "journal" | "callActions" | "budgetError" | "startStep" | "finishStep" | "finishRun" | "suspendRun"
>;

/**
 * A writer that retries while the database is unavailable. The worker renews the lease meanwhile; under a lost lease a
 * retry writes nothing. `onStep` is called after each write of a step.
 */
export function createRunWriter(
  runs: RunWriter & Pick<Runs, "getRun">,
  { retry, onStep }: { retry: RetryWhileUnavailable; onStep(run_id: string): void },
): RunWriter {
  const journal: RunWriter["journal"] = (lease) => retry(() => runs.journal(lease));
  return {
    journal,
    callActions: (lease) => retry(() => runs.callActions(lease)),
    budgetError: (lease) => retry(() => runs.budgetError(lease)),
    async startStep(lease, step) {
      const state = await retry(() => runs.startStep(lease, step));
      onStep(lease.run_id);
      return state;
    },
    async finishStep(lease, step) {
      const isWritten = async () => {
        const written = (await runs.journal(lease)).find(({ index }) => index === step.index);
        return written?.status === step.status;
      };
      const is_written = await retry(() => runs.finishStep(lease, step), isWritten);
      onStep(lease.run_id);
      return is_written;
    },
    finishRun: (lease, finish) =>
      retry(
        () => runs.finishRun(lease, finish),
        async () => (await runs.getRun(lease, lease.run_id)).status === finish.status,
      ),
    async suspendRun(lease, suspension) {
      const isSuspended = async () => (await runs.getRun(lease, lease.run_id)).status === suspension.status;
      const state = await retry(() => runs.suspendRun(lease, suspension));
      return state === "lost" && (await retry(isSuspended)) ? "suspended" : state;
    },
  };
}
