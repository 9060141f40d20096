import type { RunRecord } from "../contract/runs.ts";
import { errors } from "../errors.ts";
import { createBatches } from "../platform/batches.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { newId } from "../platform/ids.ts";
import * as runStore from "./run.store.ts";
import { claimedOf, recordOf } from "./run-record.ts";
import type { Offer } from "./run-signals.ts";
import type { AgentKey, NewRun } from "./scheduling.types.ts";

/** Runs by hand that one user may have in the queue. Due runs are never refused. */
const MAX_QUEUED_MANUAL = 1_000;
/** When whoever has filled the queue may try again. */
const QUEUE_FULL_RETRY_S = 10;
/** Run-nows that are queued in one transaction. */
const BATCH_LIMIT = 64;

/** Of the agents, by id, those that run; they stay so until the transaction ends. Only SQL may be awaited. */
export type Admit = (tx: Tx, agents: readonly AgentKey[]) => Promise<ReadonlySet<string>>;

/** The ways into the queue, for runs that somebody asks for. */
export function createEnqueue(deps: { db: Db; clock: Clock; lease_ms: number; offer(): Offer | null }) {
  const { db, clock, lease_ms } = deps;
  let admit: Admit = async (_, agents) => new Set(agents.map(({ agent_id }) => agent_id));

  /** Queues a batch, and claims for this node's worker as much as it has places for. */
  const queueAll = async (runs: NewRun[]): Promise<(RunRecord | Error)[]> => {
    const inserts = runs.map((run) => ({ ...run, id: newId() }));
    const offer = deps.offer();
    let claimed: runStore.ClaimedRow[] | null = [];
    try {
      const { admitted, rows } = await db.transaction(async (tx) => {
        let taken: runStore.ClaimedRow[] = [];
        const admitted = await admit(tx, inserts);
        const allowed = inserts.filter(({ agent_id }) => admitted.has(agent_id));
        const rows = await runStore.insertManualRuns(tx, allowed, MAX_QUEUED_MANUAL, clock.now());
        if (offer !== null && rows.length > 0) {
          taken = await runStore.claimRuns(tx, { ...offer, reserved_only: false, lease_ms, now: clock.now() });
        }
        claimed = taken;
        const at_work = new Set(taken.map(({ id }) => id));
        if (rows.some(({ id }) => !at_work.has(id))) await runStore.tellQueued(tx);
        return { admitted, rows: new Map(rows.map((row) => [row.id, row])) };
      });
      return inserts.map(({ id, agent_id }) => {
        const row = rows.get(id);
        if (row !== undefined) return recordOf(row);
        return admitted.has(agent_id) ? queueFull() : errors.agentDisabled();
      });
    } catch (error) {
      claimed = null;
      throw error;
    } finally {
      offer?.begin(claimed?.map(claimedOf) ?? null);
    }
  };
  const queueOne = createBatches(BATCH_LIMIT, queueAll);

  return {
    /** Asked of every run-now, in the transaction that queues it. */
    onRunNow(of_agents: Admit): void {
      admit = of_agents;
    },
    /** Queues a run by hand; a worker of this node that has a place has it at once. 409 for an agent that does not run, 429 when the user has too many in the queue. */
    async enqueue(run: NewRun): Promise<RunRecord> {
      const answer = await queueOne(run);
      if (answer instanceof Error) throw answer;
      return answer;
    },
    /**
     * Queues a chat. With `reserved`, for whoever waits for it on this very node: only that worker may claim it, and it
     * is cancelled when the worker has not done so in time. `check` may refuse, within the same transaction.
     */
    async enqueueChat(
      { id = newId(), reserved = null, ...run }: NewRun & { id?: string; reserved?: runStore.RunInsert["reserved"] },
      check: (tx: Tx) => Promise<void> = async () => {},
    ): Promise<RunRecord> {
      const insert = { ...run, id, reserved, trigger: "chat" as const, scheduled_for: null };
      return db.transaction(async (tx) => {
        await check(tx);
        const [row] = await runStore.insertRuns(tx, [insert], clock.now());
        if (row === undefined) throw new Error("a run was inserted without a row");
        await runStore.tellQueued(tx);
        return recordOf(row);
      });
    },
  };
}

function queueFull(): Error {
  return errors.rateLimited(
    QUEUE_FULL_RETRY_S,
    `${MAX_QUEUED_MANUAL} of your runs are queued already. Retry when some have been carried out, or cancel some.`,
  );
}
