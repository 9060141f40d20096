import type { AgentChanges, AgentRecord } from "../contract/agents.ts";
import { errors, PurserError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db.ts";
import { isUuid, newId } from "../platform/ids.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";
import type { ClaimedRun, ClaimLimits } from "../scheduling/scheduling.types.ts";
import { type AgentConfig, changedConfig, newConfig, sameConfig, scheduleOf } from "./agent-config.ts";
import { agentRecord } from "./agent-record.ts";
import { type AgentRow, type AgentsStore, createAgentsStore } from "./agents.store.ts";
import { createChat } from "./chat.service.ts";
import { createEngine, type EngineDeps } from "./engine.ts";
import { createRuns } from "./runs.service.ts";
import { createWorker, type WorkControl } from "./worker.ts";

export interface AgentsDeps extends EngineDeps {
  db: Db;
  ledger: Pick<Ledger, "usage" | "release" | "standing" | "keySpend">;
  /** Of the users, those who are suspended: nothing of theirs runs. */
  suspended(tx: Tx, user_ids: readonly string[]): Promise<ReadonlySet<string>>;
  limits: ClaimLimits;
  metrics: Pick<Metrics, "runFinished" | "runsInProgress">;
}

/** Agents, their runs and conversations. Owns `agent` and `agent_version`. */
export function createAgents(deps: AgentsDeps) {
  const { db, clock, scheduling, models, ledger, log, limits, metrics, suspended } = deps;
  const store = createAgentsStore(db);
  const crud = createCrud({ db, clock, scheduling, models, store });
  const runs = createRuns({ store, scheduling, ledger, models, log, suspended, find: crud.find });
  const engine = createEngine(deps);
  const worker = createWorker({
    scheduling,
    limits,
    log,
    carryOut,
    inProgress: (count) => metrics.runsInProgress(count),
  });
  const chat = createChat({ runs, scheduling, worker_id: worker.worker_id });

  async function carryOut(run: ClaimedRun, control: WorkControl): Promise<void> {
    const listener = chat.listenerOf(run);
    try {
      const key = { user_id: run.lease.user_id, agent_id: run.agent_id, version: run.agent_version };
      const config = await store.configOf(key);
      if (config === undefined) {
        // It was queued at the very moment at which its agent was deleted.
        await scheduling.finishRun(run.lease, { status: "cancelled" });
        return listener?.onEnd(null);
      }
      // A chat is a request in flight: it may finish where other runs are left for the next process.
      const isDraining = run.trigger === "chat" ? () => false : control.isDraining;
      const result = await engine.execute(run, config, { ...control, isDraining, onText: listener?.onText ?? null });
      const is_ours = result !== null && (await runs.finish(run, config.limits, result.finish));
      if (is_ours) metrics.runFinished(result.finish.status);
      listener?.onEnd(is_ours ? result : null);
    } catch (error) {
      // The lease runs out, and the run is taken up again.
      log.error({ run_id: run.lease.run_id, error: (error as Error).message }, "a run was lost");
      listener?.onEnd(null);
    }
  }

  return {
    create: crud.create,
    list: crud.list,
    get: crud.get,
    update: crud.update,
    remove: crud.remove,
    forgetUser: crud.forgetUser,
    /** Stops all that a user has at work or in the queue. */
    cancelAll: scheduling.cancelAll,
    ...runs,
    chat: chat.turn,
    start: worker.start,
    stop: worker.stop,
  };
}

export type Agents = ReturnType<typeof createAgents>;

function createCrud(deps: { db: Db; clock: Clock; scheduling: Scheduling; models: Models; store: AgentsStore }) {
  const { db, clock, scheduling, models, store } = deps;

  const records = async (user_id: string, rows: AgentRow[]): Promise<AgentRecord[]> => {
    const ids = rows.map(({ id }) => id);
    const [standings, last_runs] = await Promise.all([
      scheduling.schedules(user_id, ids),
      scheduling.lastRuns(user_id, ids),
    ]);
    const now = clock.now();
    return rows.map((row) =>
      agentRecord(row, { standing: standings.get(row.id), last_run: last_runs.get(row.id), now }),
    );
  };
  const find = async (user_id: string, id: string): Promise<AgentRow> => {
    const row = isUuid(id) ? await store.agent(user_id, id) : undefined;
    if (row === undefined) throw errors.notFound("This agent");
    return row;
  };
  const get = async (user_id: string, id: string): Promise<AgentRecord> => {
    const [record] = await records(user_id, [await find(user_id, id)]);
    if (record === undefined) throw new Error("an agent without its record");
    return record;
  };

  return {
    /** The caller's agent, or 404. */
    find,
    get,
    /** Newest first; `before_id` is the last one seen. */
    async list(user_id: string, page: { limit: number; before_id: string | null }): Promise<AgentRecord[]> {
      return records(user_id, await store.agents(user_id, page));
    },
    /** 400 for what does not go together, and for a model that is not on offer. */
    async create(user_id: string, wanted: AgentChanges & { name: string }): Promise<AgentRecord> {
      const config = newConfig(wanted);
      refuseUnknownModel(models, config.model_id);
      const now = clock.now();
      const id = newId();
      const state = {
        user_id,
        id,
        version: 1,
        consecutive_failures: 0,
        created_at: now,
        updated_at: now,
        deleted_at: null,
      };
      await db.transaction(async (tx) => {
        await store.insertAgent(tx, { ...config, ...state });
        await store.insertVersion(tx, { user_id, agent_id: id, version: 1, config, created_at: now });
        await scheduling.setSchedule(tx, { user_id, agent_id: id }, scheduleOf(config));
      });
      return get(user_id, id);
    },
    /**
     * Changes the fields given and checks the whole. A real change makes a new version; turning the schedule or the
     * agent on, even if it was, resumes a paused schedule.
     */
    async update(user_id: string, id: string, changes: AgentChanges): Promise<AgentRecord> {
      if (changes.model_id !== undefined) refuseUnknownModel(models, changes.model_id);
      if (!isUuid(id)) throw errors.notFound("This agent");
      await db.transaction(async (tx) => {
        const row = await store.lockAgent(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This agent");
        const before = configOf(row);
        const config = changedConfig(before, changes);
        const resumes = changes.schedule_enabled === true || changes.is_active === true;
        const changed = !sameConfig(before, config);
        if (!changed && !resumes) return;
        const now = clock.now();
        const version = changed ? row.version + 1 : row.version;
        const consecutive_failures = resumes ? 0 : row.consecutive_failures;
        await store.updateAgent(tx, {
          ...row,
          ...config,
          version,
          consecutive_failures,
          updated_at: changed ? now : row.updated_at,
        });
        if (changed) await store.insertVersion(tx, { user_id, agent_id: id, version, config, created_at: now });
        await scheduling.setSchedule(tx, { user_id, agent_id: id }, scheduleOf(config));
        if (resumes) await scheduling.pauseSchedule({ user_id, agent_id: id }, null, tx);
      });
      return get(user_id, id);
    },
    /** Ends the agent, its schedule and its runs; everything of it answers 404 from here on. */
    async remove(user_id: string, id: string): Promise<void> {
      if (!isUuid(id)) throw errors.notFound("This agent");
      await db.transaction(async (tx) => {
        const row = await store.lockAgent(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This agent");
        await store.updateAgent(tx, { ...row, deleted_at: clock.now() });
        await scheduling.forgetAgent(tx, { user_id, agent_id: id });
      });
    },
    /** Deletes all agents and runs of a user who is being erased. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await scheduling.forgetUser(tx, user_id);
      await store.deleteUser(tx, user_id);
    },
  };
}

function refuseUnknownModel(models: Models, model_id: string | null): void {
  if (model_id === null || models.find(model_id) !== null) return;
  throw new PurserError({ ...errors.modelNotFound(model_id).shape, param: "model_id" });
}

function configOf(row: AgentRow): AgentConfig {
  const {
    user_id: _u,
    id: _i,
    version: _v,
    consecutive_failures: _f,
    created_at: _c,
    updated_at: _m,
    deleted_at: _d,
    ...config
  } = row;
  return config;
}
