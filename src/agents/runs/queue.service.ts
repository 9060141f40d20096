import type { AgentKey } from "../../api/contract/agents.ts";
import type { RunError, RunRecord } from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { runErrors } from "./errors.ts";
import * as history from "./history.store.ts";
import * as runStore from "./run.store.ts";
import { toClaimedRun, toRunRecord } from "./run-record.ts";
import type { WorkerOffer } from "./run-signals.ts";
import {
  BATCH_LIMIT,
  type CancelledRun,
  type ClaimedRun,
  type NewRun,
  type StartedRun,
  type StartStatements,
} from "./runs.types.ts";

/** Limit of queued run-nows per user. Due runs and chats are never rejected. */
const MAX_QUEUED_MANUAL = 1_000;
/** A reserved run-now that its worker does not begin within this time is cancelled. */
const RESERVED_MS = 3_600_000;
/** Retry-After for a user whose queue is full. */
const QUEUE_FULL_RETRY_S = 10;

const KEY_REVOKED: RunError = {
  code: "key_revoked",
  message: "The API key that this run counted against was revoked. Run the agent again with another key.",
};

/** A run that is about to be inserted. */
type RunToStart = NewRun & { id: string };

/** Starts run-nows, due runs and chats. */
export function createStart(deps: {
  db: Db;
  clock: Clock;
  lease_ms: number;
  offer(): WorkerOffer | null;
  statements: StartStatements;
  /** The worker that alone executes the run-nows of this node; null: any worker does. */
  reserve_for: string | null;
}) {
  const { db, clock, lease_ms, statements, reserve_for } = deps;
  const reserved = reserve_for === null ? undefined : { worker_id: reserve_for, for_ms: RESERVED_MS };

  /** Inserts the runs that their agents and the queue accept, and returns the answer of each. */
  const insertAccepted = async (tx: Tx, runs: readonly RunToStart[], now: Instant): Promise<(StartedRun | Error)[]> => {
    const refusals = await runStore.checkRuns(tx, { check: statements.check, runs, now });
    const accepted = runs.filter((_, nth) => refusals[nth] === null);
    const inserted = await runStore.insertRuns(tx, accepted, { max_queued_manual: MAX_QUEUED_MANUAL, now });
    return runs.map((run, nth) => {
      const refusal = refusals[nth] ?? null;
      if (refusal !== null) return { refusal };
      return inserted.has(run.id) ? { refusal, run: toQueuedRecord(run, now), has_begun: false } : queueFullError();
    });
  };
  /**
   * Begins the whole batch with this node's worker. null: the worker has too few free places, and nothing was written.
   */
  const beginAll = async (runs: RunToStart[], offer: WorkerOffer): Promise<StartedRun[] | null> => {
    const now = clock.now();
    // null: it is unknown whether the runs have begun
    let begun: ClaimedRun[] | null = null;
    try {
      const { worker_id, most, limits } = offer;
      const beginning = { begin: statements.begin, worker_id, most, limits, lease_ms, now };
      const refusals = await runStore.beginRuns(db, runs, beginning);
      begun = runs.filter((_, nth) => refusals?.[nth] === null).map((run) => toBegunRun(run, now));
      if (refusals === null) return null;
      return runs.map((run, nth) => {
        const refusal = refusals[nth] ?? null;
        return refusal === null ? { refusal, run: toQueuedRecord(run, now), has_begun: true } : { refusal };
      });
    } finally {
      offer.begin(begun);
    }
  };
  /** Queues a batch, and claims as many runs as this node's worker has places for. */
  const queueAll = async (runs: RunToStart[], offer: WorkerOffer | null): Promise<(StartedRun | Error)[]> => {
    const now = clock.now();
    let claimed: runStore.ClaimedRow[] | null = [];
    try {
      return await db.transaction(async (tx) => {
        const answers = await insertAccepted(tx, runs, now);
        const queued = answers.flatMap((answer) => ("run" in answer ? answer.run.id : []));
        let taken: runStore.ClaimedRow[] = [];
        if (offer !== null && queued.length > 0) {
          const { worker_id, most, limits } = offer;
          taken = await runStore.claimRuns(tx, { worker_id, most, limits, reserved_only: false, lease_ms, now });
        }
        claimed = taken;
        const at_work = new Set(taken.map(({ id }) => id));
        if (queued.some((id) => !at_work.has(id))) await runStore.notifyQueued(tx);
        return answers;
      });
    } catch (error) {
      claimed = null;
      throw error;
    } finally {
      offer?.begin(claimed?.map(toClaimedRun) ?? null);
    }
  };
  const startManual = createBatches(BATCH_LIMIT, async (given: NewRun[]): Promise<(StartedRun | Error)[]> => {
    const runs = given.map((run) => ({ ...run, id: run.id ?? newId(), reserved }));
    const offer = deps.offer();
    const begun = offer === null ? null : await beginAll(runs, offer);
    return begun ?? queueAll(runs, deps.offer());
  });
  /** Queues a chat, a test or the run of a trigger, with `alongside` in the same transaction. */
  const startOne = (given: NewRun, alongside: (tx: Tx) => Promise<void>): Promise<StartedRun | Error> =>
    db.transaction(async (tx) => {
      const run = { ...given, id: given.id ?? newId() };
      if (run.trigger !== "chat" && reserved !== undefined) run.reserved = reserved;
      const [answer] = await insertAccepted(tx, [run], clock.now());
      if (answer === undefined || !("run" in answer)) return answer ?? queueFullError();
      await alongside(tx);
      await runStore.notifyQueued(tx);
      return answer;
    });

  return {
    /**
     * Starts a run for any caller: it is queued, and a run-now begins at once if this node's worker has a free place.
     * Resolves to the reason if its agent may not run; 429 when the user has too many queued run-nows. `alongside`: writes
     * of a chat in the transaction that queues it.
     */
    async startRun(run: NewRun, alongside: (tx: Tx) => Promise<void> = async () => {}): Promise<StartedRun> {
      const answer = await (run.trigger === "manual" ? startManual(run) : startOne(run, alongside));
      if (answer instanceof Error) throw answer;
      return answer;
    },
    /** The same for the due runs of a tick, in its transaction, which has already asked whether their agents may run. */
    async startRuns(tx: Tx, runs: readonly (NewRun & { id: string })[]): Promise<void> {
      await runStore.insertRuns(tx, runs, { max_queued_manual: MAX_QUEUED_MANUAL, now: clock.now() });
      await runStore.notifyQueued(tx);
    },
  };
}

/** The row of a queued run. It is the first answer to the caller, even if the run has begun since. */
function newQueuedRow(run: RunToStart, now: Instant): runStore.RunRow {
  return {
    user_id: run.user_id,
    id: run.id,
    agent_id: run.agent_id,
    agent_version: run.agent_version,
    trigger: run.trigger,
    status: "queued",
    schedule_id: run.schedule_id ?? null,
    trigger_id: run.trigger_id ?? null,
    trigger_name: run.trigger_name ?? null,
    scheduled_for: run.scheduled_for ?? null,
    queued_at: now,
    started_at: null,
    finished_at: null,
    attempt: 1,
    model_id: run.model_id,
    routing: null,
    input_tokens: 0,
    output_tokens: 0,
    cost_tokens: 0,
    steps_count: 0,
    failed_steps: 0,
    failed_calls: 0,
    error: null,
    metadata: run.metadata ?? null,
    required_actions: [],
  };
}

function toQueuedRecord(run: RunToStart, now: Instant): RunRecord {
  return toRunRecord(newQueuedRow(run, now));
}

/** The same run as the worker receives it. */
function toBegunRun(run: RunToStart, now: Instant): ClaimedRun {
  const claimed = toClaimedRun({
    ...newQueuedRow(run, now),
    started_at: now,
    epoch: 1,
    worked_ms: 0,
    has_caller: false,
    input: run.input ?? null,
    run_prompt: run.run_prompt ?? null,
    engine_input: run.engine_input,
  });
  return { ...claimed, begun_step: run.first_step ?? null };
}

function queueFullError(): Error {
  return errors.rateLimited(
    QUEUE_FULL_RETRY_S,
    `${MAX_QUEUED_MANUAL} of your runs are queued already. Retry when some have been carried out, or cancel some.`,
  );
}

/** Queues waiting runs again, and cancels one run, or all runs of an agent, a key or a user. */
export function createResumeAndCancel(deps: { db: Db; clock: Clock; onCancelled(run: CancelledRun): void }) {
  const { db, clock, onCancelled } = deps;
  /** Runs without a worker have ended. A worker ends the others. */
  const notifyCancelled = (rows: readonly runStore.RunRow[]) => {
    for (const { id: run_id, user_id, agent_id, trigger, status, error } of rows) {
      if (status === "cancelled") onCancelled({ run_id, user_id, agent_id, trigger, error });
    }
  };
  const cancelIn = async (tx: Tx, which: runStore.RunSelection) => {
    const rows = await runStore.cancelRuns(tx, which, clock.now());
    tx.afterCommit(() => notifyCancelled(rows));
  };
  return {
    /**
     * Queues a waiting run again, so that any worker resumes it from its recorded steps. False: it does not wait. `sql`: the
     * transaction of what it waited for.
     */
    resumeRun: (run: { user_id: string; run_id: string }, sql: Sql = db): Promise<boolean> =>
      runStore.resumeRun(sql, run),
    /**
     * Requests the run's cancellation. A run without a worker is `cancelled` at once; a running one is `cancelling` until
     * its worker has stopped. 404, 409.
     */
    async requestCancel({ user_id, agent_id }: AgentKey, run_id: string): Promise<RunRecord> {
      if (!isUuid(run_id)) throw errors.notFound("This run");
      const [row] = await runStore.cancelRuns(db, { user_id, agent_id, run_id }, clock.now());
      if (row !== undefined) {
        notifyCancelled([row]);
        return toRunRecord(row);
      }
      const found = await history.selectRun(db, user_id, run_id);
      throw found?.agent_id === agent_id ? runErrors.runAlreadyFinished() : errors.notFound("This run");
    },
    /** Cancels the agent's runs that no worker executes. */
    cancelIdle: (tx: Tx, { user_id, agent_id }: AgentKey): Promise<void> =>
      cancelIn(tx, { user_id, agent_id, idle_only: true }),
    /** Requests the cancellation of the user's runs that count against this API key, because it was revoked. */
    cancelOfKey: (tx: Tx, user_id: string, api_key_id: string): Promise<void> =>
      cancelIn(tx, { user_id, with_input: { api_key_id }, error: KEY_REVOKED }),
    /** Requests the cancellation of all runs of an agent that is deleted, and forgets the settings that its tests have. */
    async cancelAgent(tx: Tx, { user_id, agent_id }: AgentKey): Promise<void> {
      await cancelIn(tx, { user_id, agent_id });
      await runStore.forgetDrafts(tx, { user_id, agent_id });
    },
    /** Deletes all runs of a user. A worker that executes one is notified and finds its lease lost. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      const rows = await runStore.cancelRuns(tx, { user_id }, clock.now());
      await runStore.deleteRunsOfUser(tx, user_id);
      tx.afterCommit(() => notifyCancelled(rows.map((row) => ({ ...row, status: "cancelled" }))));
    },
    /** Requests the cancellation of all runs of the user. */
    async cancelAll(user_id: string): Promise<void> {
      notifyCancelled(await runStore.cancelRuns(db, { user_id }, clock.now()));
    },
  };
}
