import type { RunRecord, RunTrigger } from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import * as runStore from "./run.store.ts";
import { claimedOf, recordOf } from "./run-record.ts";
import type { WorkerOffer } from "./run-signals.ts";
import { BATCH_LIMIT, type ClaimedRun, type Enqueued, type NewRun, type RunNowStatements } from "./runs.types.ts";

/** Limit of queued run-nows per user. Due runs are never rejected. */
const MAX_QUEUED_MANUAL = 1_000;
/** A reserved run-now that its worker does not begin within this time is cancelled. */
const RESERVED_MS = 3_600_000;
/** Retry-After for a user whose queue is full. */
const QUEUE_FULL_RETRY_S = 10;

/** A due run with its id. */
type DueRun = NewRun & { id: string; scheduled_for: Instant };
/** A run-now with its id. */
type Asked = NewRun & { id: string };

/** Queues run-nows, due runs and chats. */
export function createEnqueue(deps: {
  db: Db;
  clock: Clock;
  lease_ms: number;
  offer(): WorkerOffer | null;
  statements: RunNowStatements | null;
  reserve_for: string | null;
}) {
  const { db, clock, lease_ms, statements, reserve_for } = deps;

  /** Queues run-nows for the worker of this node only. Returns their ids. */
  const insertReserved = async (tx: Tx, asked: readonly Asked[], worker_id: string, now: Instant) => {
    const reserved = { worker_id, for_ms: RESERVED_MS };
    const rows = asked.map((run) => ({ ...run, trigger: "manual" as const, scheduled_for: null, reserved }));
    await runStore.insertRuns(tx, rows, now);
    return rows;
  };

  /**
   * Begins the whole batch with this node's worker. null: the worker has too few free places, and nothing was written.
   */
  const beginAll = async (asked: Asked[], offer: WorkerOffer): Promise<Enqueued[] | null> => {
    const now = clock.now();
    // null: it is unknown whether the runs have begun
    let begun: ClaimedRun[] | null = null;
    try {
      const refusals = await runStore.beginRunNows(db, asked, { ...offer, statements, lease_ms, now });
      begun = asked.filter((_, nth) => refusals?.[nth] === null).map((run) => begunRun(run, now));
      return (
        refusals?.map((refusal, nth) => {
          const run = asked[nth] as Asked;
          return refusal === null ? { refusal, run: queuedRecord(run, now), has_begun: true } : { refusal };
        }) ?? null
      );
    } finally {
      offer.begin(begun);
    }
  };
  /** Queues a batch, and claims as many runs as this node's worker has places for. */
  const queueAll = async (asked: Asked[], offer: WorkerOffer | null): Promise<(Enqueued | Error)[]> => {
    const now = clock.now();
    let claimed: runStore.ClaimedRow[] | null = [];
    try {
      const { refusals, queued } = await db.transaction(async (tx) => {
        let taken: runStore.ClaimedRow[] = [];
        const refusals = statements === null ? [] : await runStore.checkRunNows(tx, statements, asked, now);
        const allowed = asked.filter((_, nth) => (refusals[nth] ?? null) === null);
        const rows =
          reserve_for === null
            ? await runStore.insertManualRuns(tx, allowed, MAX_QUEUED_MANUAL, now)
            : await insertReserved(tx, allowed, reserve_for, now);
        if (offer !== null && rows.length > 0) {
          taken = await runStore.claimRuns(tx, { ...offer, reserved_only: false, lease_ms, now });
        }
        claimed = taken;
        const at_work = new Set(taken.map(({ id }) => id));
        if (rows.some(({ id }) => !at_work.has(id))) await runStore.notifyQueued(tx);
        return { refusals, queued: new Set(rows.map(({ id }) => id)) };
      });
      return asked.map((run, nth) => {
        const refusal = refusals[nth] ?? null;
        if (refusal !== null) return { refusal };
        return queued.has(run.id) ? { refusal, run: queuedRecord(run, now), has_begun: false } : queueFull();
      });
    } catch (error) {
      claimed = null;
      throw error;
    } finally {
      offer?.begin(claimed?.map(claimedOf) ?? null);
    }
  };
  const queueOne = createBatches(BATCH_LIMIT, async (runs: NewRun[]): Promise<(Enqueued | Error)[]> => {
    const asked = runs.map((run) => ({ ...run, id: newId() }));
    const offer = deps.offer();
    const begun = offer === null ? null : await beginAll(asked, offer);
    return begun ?? queueAll(asked, deps.offer());
  });

  return {
    /**
     * Queues a run-now. If this node's worker has a free place, it begins the run at once. Resolves to the reason if
     * the run is rejected; 429 when the user has too many queued runs.
     */
    async enqueue(run: NewRun): Promise<Enqueued> {
      const answer = await queueOne(run);
      if (answer instanceof Error) throw answer;
      return answer;
    },
    /** Queues due runs in the tick's transaction. */
    async queueDue(tx: Tx, runs: readonly DueRun[]): Promise<void> {
      await runStore.insertRuns(
        tx,
        runs.map((run) => ({ ...run, trigger: "schedule" as const, reserved: null })),
        clock.now(),
      );
      await runStore.notifyQueued(tx);
    },
    /**
     * Queues a chat. With `reserved`, the caller waits on this node: only that worker may claim the chat, and the chat
     * is cancelled if the worker does not claim it in time. `check` runs in the same transaction and may reject the
     * chat.
     */
    async enqueueChat(
      { id = newId(), reserved = null, ...run }: NewRun & { id?: string; reserved?: runStore.RunInsert["reserved"] },
      check: (tx: Tx) => Promise<void> = async () => {},
    ): Promise<RunRecord> {
      const insert = { ...run, id, reserved, trigger: "chat" as const, scheduled_for: null };
      return db.transaction(async (tx) => {
        await check(tx);
        const now = clock.now();
        await runStore.insertRuns(tx, [insert], now);
        await runStore.notifyQueued(tx);
        return queuedRecord(insert, now);
      });
    },
  };
}

/** The row of a queued run. It is the first answer to the caller, even if the run has begun since. */
function queuedRow(
  { user_id, id, agent_id, agent_version, model_id, trigger = "manual" }: Asked & { trigger?: RunTrigger },
  now: Instant,
): runStore.RunRow {
  return {
    user_id,
    id,
    agent_id,
    agent_version,
    trigger,
    status: "queued",
    scheduled_for: null,
    queued_at: now,
    started_at: null,
    finished_at: null,
    attempt: 1,
    model_id,
    routing: null,
    input_tokens: 0,
    output_tokens: 0,
    cost_tokens: 0,
    steps_count: 0,
    failed_steps: 0,
    failed_calls: 0,
    error: null,
  };
}

function queuedRecord(run: Parameters<typeof queuedRow>[0], now: Instant): RunRecord {
  return recordOf(queuedRow(run, now));
}

/** The same run as the worker receives it. */
function begunRun(run: Asked, now: Instant): ClaimedRun {
  const claimed = claimedOf({ ...queuedRow(run, now), started_at: now, epoch: 1, worked_ms: 0, input: run.input });
  return { ...claimed, begun_step: run.first_step ?? null };
}

function queueFull(): Error {
  return errors.rateLimited(
    QUEUE_FULL_RETRY_S,
    `${MAX_QUEUED_MANUAL} of your runs are queued already. Retry when some have been carried out, or cancel some.`,
  );
}
