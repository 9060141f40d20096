import type { AgentNames } from "../contract/agent-name.ts";
import type { AgentChanges, AgentRecord, AgentVersion } from "../contract/agents.ts";
import type { Caller } from "../contract/caller.ts";
import { secretsReferred, unjudgedTools } from "../contract/tools.ts";
import { paramOf } from "../contract/validation.ts";
import { errors, type MeansOf, PurserError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Db, Tx } from "../platform/db.ts";
import type { EventFeed } from "../platform/event-stream.ts";
import { isUuid, newId } from "../platform/ids.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";
import type { ClaimedRun, ClaimLimits, NextRun, RunFinish } from "../scheduling/scheduling.types.ts";
import {
  type AgentConfig,
  changedConfig,
  type NamedChanges,
  newConfig,
  sameConfig,
  scheduleOf,
} from "./agent-config.ts";
import { createAgentModel } from "./agent-model.ts";
import { agentRecord } from "./agent-record.ts";
import { type AgentRow, type AgentsStore, createAgentsStore } from "./agents.store.ts";
import { createChat } from "./chat.service.ts";
import { createConfigCache } from "./config-cache.ts";
import { createEngine } from "./engine.ts";
import { createInsist, insistent } from "./insistent.ts";
import { createRetention } from "./retention.ts";
import { createRunFollowers, type RunFollowers } from "./run-followers.ts";
import type { EngineDeps } from "./run-work.ts";
import { createRuns } from "./runs.service.ts";
import { type ScheduleKey, scheduleKeyAfter } from "./schedule-key.ts";
import { createScheduleKeys } from "./schedule-keys.service.ts";
import { permittedTools } from "./secret-bindings.ts";
import { createThreads, type Threads } from "./threads.service.ts";
import { createWaitingSchedules } from "./waiting-schedules.ts";
import { createWorker, type WorkControl } from "./worker.ts";

export interface AgentsDeps extends Omit<EngineDeps, "onStepStarted"> {
  db: Db;
  ledger: EngineDeps["ledger"] & Pick<Ledger, "standing" | "keySpend" | "keySpends" | "refills">;
  meansOf: MeansOf;
  /** Of the users, those who are suspended: nothing of theirs runs. */
  suspended(tx: Tx, user_ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** These API keys, by id, unchanged until the transaction ends. */
  keysOf(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, ScheduleKey>>;
  limits: ClaimLimits;
  /** Whether tools may be set to `safety: off`. */
  safety_off: "refused" | "allowed";
  /** This node carries out nothing but the chats that it is asked for. */
  chats_only: boolean;
  /** The names of a user's secrets, which tools_config may refer to. */
  secretNames(user_id: string): Promise<ReadonlySet<string>>;
  /** For how many days finished runs are kept; null: for ever. */
  keep_runs_days: number | null;
  metrics: Pick<Metrics, "runFinished" | "runsInProgress" | "scheduledRunBegan">;
}

/** Agents, their runs and conversations. Owns `agent` and `agent_version`. */
export function createAgents(deps: AgentsDeps) {
  const { db, clock, scheduling, models, log, limits, metrics } = deps;
  const stopping = new AbortController();
  const insist = createInsist({ log, stopping: stopping.signal });
  const steady = insistent(scheduling, insist);
  const store = createAgentsStore(db);
  const configOfVersion = createConfigCache(store);
  const threads = createThreads({ db, clock, scheduling, models });
  const crud = createCrud({ ...deps, store, threads });
  const schedule_keys = createScheduleKeys({ ...deps, store });
  const runs = createRuns({ ...deps, schedule_keys, find: crud.find });
  const followers = createRunFollowers({ scheduling, log });
  const engine = createEngine({
    ...deps,
    scheduling: telling(steady, followers),
    onStepStarted: followers.happened,
  });
  const worker = createWorker({
    scheduling,
    limits,
    chats_only: deps.chats_only,
    isAwaited: () => chat.isAwaited(),
    log,
    carryOut,
    inProgress: (count) => metrics.runsInProgress(count),
  });
  const chat = createChat({ runs, scheduling, threads, worker_id: worker.worker_id });

  const noteEnd = (finish: RunFinish) =>
    metrics.runFinished(finish.status, finish.status === "failed" ? finish.error.code : null);
  /** Not again when another worker goes on with it. */
  const noteBegin = ({ lease, scheduled_for, started_at }: ClaimedRun) => {
    if (scheduled_for === null || lease.epoch > 1) return;
    metrics.scheduledRunBegan(Date.parse(started_at) - Date.parse(scheduled_for));
  };
  async function carryOut(claimed: ClaimedRun, control: WorkControl): Promise<void> {
    const { user_id, run_id } = claimed.lease;
    noteBegin(claimed);
    const listener = chat.listenerOf(claimed);
    const onText = (text: string) => {
      listener?.onText?.(text);
      followers.generated(run_id, text);
    };
    try {
      const version = { user_id, agent_id: claimed.agent_id, version: claimed.agent_version };
      const config = await insist(() => configOfVersion(version));
      if (config === undefined) {
        // It was queued at the very moment at which its agent was deleted.
        await steady.finishRun(claimed.lease, { status: "cancelled" });
        return listener?.onEnd(null);
      }
      const run = await insist(() => threads.withHistory(claimed, config));
      // A chat is a request in flight: it may finish where other runs are left for the next process.
      const isDraining = run.trigger === "chat" ? () => false : control.isDraining;
      const result = await engine.execute(run, config, { ...control, isDraining, onText });
      if (result?.end) scheduling.noteEnd(run.lease, result.end);
      const is_ours = result !== null && (result.end !== null || (await steady.finishRun(run.lease, result.finish)));
      if (is_ours) noteEnd(result.finish);
      listener?.onEnd(is_ours ? result : null);
    } catch (error) {
      // The lease runs out, and the run is taken up again.
      log.error({ run_id, error: (error as Error).message }, "a run was lost");
      listener?.onEnd(null);
    }
    followers.happened(run_id);
  }

  return {
    create: crud.create,
    list: crud.list,
    nextRuns: crud.nextRuns,
    names: crud.names,
    get: crud.get,
    version: crud.version,
    update: crud.update,
    remove: crud.remove,
    forgetUser: crud.forgetUser,
    /** For changes of API keys: their schedules stop or go on. */
    onKeyChange: schedule_keys.onKeyChange,
    /** Stops all that a user has at work or in the queue. */
    cancelAll: scheduling.cancelAll,
    ...runs,
    ...createWaitingSchedules({ ...deps, store }),
    ...createRetention({ ...deps, threads, store, keep_days: deps.keep_runs_days }),
    chat: chat.turn,
    /** For `model: "agent/{id}"` in chat completions. */
    asModel: createAgentModel({ chat, exists: crud.exists }),
    threads: ofAgents(threads, crud.find),
    /** The events of a run after one that has been seen; null when there are none left. 404. */
    async follow(user_id: string, id: string, which: { run_id: string; after: number }): Promise<EventFeed | null> {
      const agent = await crud.find(user_id, id);
      const found = isUuid(which.run_id) ? await scheduling.begunRuns(user_id, [which.run_id]) : undefined;
      if (found?.get(which.run_id)?.run.agent_id !== agent.id) throw errors.notFound("This run");
      return followers.follow(user_id, which.run_id, which.after);
    },
    start: worker.start,
    async stop(): Promise<void> {
      stopping.abort();
      await worker.stop();
      followers.end();
    },
  };
}

/** The same scheduling, whose writes of steps are told to whoever follows the run here. */
function telling(scheduling: Scheduling, followers: RunFollowers): Scheduling {
  const told = async <T>(run_id: string, written: Promise<T>): Promise<T> => {
    const outcome = await written;
    followers.happened(run_id);
    return outcome;
  };
  return {
    ...scheduling,
    startStep: (lease, step) => told(lease.run_id, scheduling.startStep(lease, step)),
    finishStep: (lease, step) => told(lease.run_id, scheduling.finishStep(lease, step)),
  };
}

export type Agents = ReturnType<typeof createAgents>;

type ThreadPage = { thread_id: string } & Parameters<Threads["detail"]>[1];

/** Threads of agents that are there: 404 for others. */
function ofAgents(threads: Threads, find: (user_id: string, id: string) => Promise<AgentRow>) {
  const keyOf = async (user_id: string, id: string) => ({ user_id, agent_id: (await find(user_id, id)).id });
  return {
    create: async (user_id: string, id: string, thread_id: string) =>
      threads.create({ ...(await keyOf(user_id, id)), thread_id }),
    list: async (user_id: string, id: string, page: Parameters<Threads["list"]>[1]) =>
      threads.list(await keyOf(user_id, id), page),
    detail: async (user_id: string, id: string, { thread_id, ...page }: ThreadPage) =>
      threads.detail({ ...(await keyOf(user_id, id)), thread_id }, page),
    remove: async (user_id: string, id: string, thread_id: string) =>
      threads.remove({ ...(await keyOf(user_id, id)), thread_id }),
  };
}

function createCrud(
  deps: Pick<AgentsDeps, "db" | "clock" | "scheduling" | "models" | "secretNames" | "safety_off"> & {
    store: AgentsStore;
    threads: Threads;
  },
) {
  const { db, clock, scheduling, models, store, threads, secretNames } = deps;

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

  const refuseUnusableTools = async (user_id: string, { tools_config }: AgentChanges): Promise<void> => {
    if (tools_config === undefined) return;
    const [unjudged] = deps.safety_off === "allowed" ? [] : unjudgedTools(tools_config);
    if (unjudged !== undefined) {
      const param = paramOf(["tools_config", unjudged, "safety"]);
      const why = "the operator has not allowed off (PURSER_SAFETY_OFF=allowed). Use strict or balanced";
      throw errors.invalidValue(param, `${param}: ${why}.`);
    }
    const referred = secretsReferred(tools_config);
    if (referred.length === 0) return;
    const names = await secretNames(user_id);
    for (const { name, path } of referred) {
      if (names.has(name)) continue;
      const param = paramOf(["tools_config", ...path]);
      throw errors.invalidValue(param, `${param}: you have no secret named ${name}. POST /api/v1/secrets stores one.`);
    }
  };

  return {
    /** The caller's agent, or 404. */
    find,
    exists: async (user_id: string, id: string): Promise<boolean> =>
      isUuid(id) && (await store.agent(user_id, id)) !== undefined,
    get,
    /** The configuration that a run names by `agent_version`. 404. */
    async version(user_id: string, id: string, number: string): Promise<AgentVersion> {
      const agent_id = (await find(user_id, id)).id;
      const version = /^[1-9]\d{0,8}$/.test(number) ? Number(number) : 0;
      const found = await store.version({ user_id, agent_id, version });
      if (found === undefined) throw errors.notFound("This version");
      const { config, created_at } = found;
      return { ...config, agent_id, version, created_at };
    },
    /** Newest first; `before_id` is the last one seen. */
    async list(user_id: string, page: Parameters<AgentsStore["agents"]>[1]): Promise<AgentRecord[]> {
      return records(user_id, await store.agents(user_id, page));
    },
    /** Agents whose schedule is active and not paused, soonest first, from beyond `after`; `next` is null at the end. */
    async nextRuns(user_id: string, { limit, after }: { limit: number; after: NextRun | null }) {
      const due = await scheduling.nextRuns(user_id, { limit: limit + 1, after });
      const page = due.slice(0, limit);
      const rows = await Promise.all(page.map(({ agent_id }) => store.agent(user_id, agent_id)));
      const agents = await records(
        user_id,
        rows.filter((row) => row !== undefined),
      );
      return { agents, next: due.length > limit ? (page.at(-1) ?? null) : null };
    },
    /** Names of the user's agents among `ids`, deleted ones included. */
    async names(user_id: string, ids: readonly string[]): Promise<AgentNames> {
      if (ids.length === 0) return new Map();
      return new Map((await store.names(user_id, ids)).map(({ id, name, deleted }) => [id, { name, deleted }]));
    },
    /** 400 for what does not go together, and for a model that is not on offer. */
    async create(caller: Caller, wanted: AgentChanges & { name: string }): Promise<AgentRecord> {
      const { user_id } = caller;
      const config = newConfig({ ...wanted, tools_config: permittedTools(caller, wanted.tools_config ?? {}, {}) });
      refuseUnknownModel(models, config.model_id);
      await refuseUnusableTools(user_id, wanted);
      const now = clock.now();
      const id = newId();
      const state = {
        user_id,
        id,
        version: 1,
        consecutive_failures: 0,
        schedule_api_key_id: scheduleKeyAfter({
          before: null,
          config,
          resumes: true,
          caller_key_id: caller.api_key_id,
        }),
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
     * agent on, even if it was, resumes a paused schedule. 403 for a secret's binding that the caller may not write.
     */
    async update(caller: Caller, id: string, changes: AgentChanges): Promise<AgentRecord> {
      const { user_id } = caller;
      if (changes.model_id !== undefined) refuseUnknownModel(models, changes.model_id);
      // Denied before names are looked up: who may not bind a secret does not learn which there are.
      withNamedTools(caller, changes, await find(user_id, id));
      await refuseUnusableTools(user_id, changes);
      await db.transaction(async (tx) => {
        const row = await store.lockAgent(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This agent");
        const before = configOf(row);
        const config = changedConfig(before, withNamedTools(caller, changes, row));
        const resumes = changes.schedule_enabled === true || changes.is_active === true;
        const changed = !sameConfig(before, config);
        if (!changed && !resumes) return;
        const now = clock.now();
        const version = changed ? row.version + 1 : row.version;
        const consecutive_failures = resumes ? 0 : row.consecutive_failures;
        const schedule_api_key_id = scheduleKeyAfter({
          before: { config: before, api_key_id: row.schedule_api_key_id },
          config,
          resumes,
          caller_key_id: caller.api_key_id,
        });
        await store.updateAgent(tx, {
          ...row,
          ...config,
          version,
          consecutive_failures,
          schedule_api_key_id,
          updated_at: changed ? now : row.updated_at,
        });
        if (changed) await store.insertVersion(tx, { user_id, agent_id: id, version, config, created_at: now });
        await scheduling.setSchedule(tx, { user_id, agent_id: id }, scheduleOf(config));
        if (!config.is_active) await scheduling.cancelQueued(tx, { user_id, agent_id: id });
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
        await threads.forget(tx, user_id, id);
      });
    },
    /** Deletes all agents and runs of a user who is being erased. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await store.lockAgents(tx, user_id);
      await scheduling.forgetUser(tx, user_id);
      await threads.forget(tx, user_id, null);
      await store.deleteUser(tx, user_id);
    },
  };
}

/** `changes` with the names that nulls in its tools keep. Throws 403 and 400 as `permittedTools` does. */
function withNamedTools(caller: Caller, { tools_config, ...changes }: AgentChanges, before: AgentRow): NamedChanges {
  if (tools_config === undefined) return changes;
  return { ...changes, tools_config: permittedTools(caller, tools_config, before.tools_config) };
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
    schedule_api_key_id: _k,
    created_at: _c,
    updated_at: _m,
    deleted_at: _d,
    ...config
  } = row;
  return config;
}
