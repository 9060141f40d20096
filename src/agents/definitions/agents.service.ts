import type { MeansOf } from "../../account/ledger/errors.ts";
import type { Ledger } from "../../account/ledger/ledger.types.ts";
import { agentIdsIn, agentNameOf } from "../../api/contract/agent-name.ts";
import type { AgentChanges, AgentKey, AgentRecord, AgentVersion } from "../../api/contract/agents.ts";
import type { Caller } from "../../api/contract/caller.ts";
import { thatFit } from "../../api/contract/common.ts";
import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { DecidedBy, Decision, MCP_CLIENT } from "../../api/contract/run-actions.ts";
import type { FoundRun, RunDetail, RunRecord, SentMessage } from "../../api/contract/runs.ts";
import type { NamedSecret } from "../../api/contract/secrets.ts";
import { secretsReferred, toolProblems, unjudgedTools } from "../../api/contract/tools.ts";
import { paramOf } from "../../api/contract/validation.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import type { Models } from "../../gateway/models/models.service.ts";
import { AGENT_BYTES, AGENT_SCHEDULES, KEPT_VERSIONS, USER_ROWS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import { hasMoreRows, lockInserts } from "../../platform/db/statements.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { stableJson } from "../../platform/lib/json.ts";
import type { EventFeed } from "../../platform/net/event-stream.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { RunFollowers } from "../runs/following.ts";
import { modelGoneError } from "../runs/model-call.ts";
import { renderPrompts } from "../runs/prompts.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { BegunRun, OnPrune, RunSearch } from "../runs/runs.types.ts";
import { type EngineInput, listSentMessages, type RunConfig, runConfig } from "../runs/transcript.ts";
import {
  DEFAULT_SCHEDULE,
  type NextRun,
  type ScheduleRow,
  type ScheduleState,
  type Schedules,
} from "../schedules/schedules.service.ts";
import { createConfigCache } from "./agent-caches.ts";
import {
  type AgentConfig,
  AUTO_MODEL,
  changedConfig,
  findMisfit,
  type NamedChanges,
  newConfig,
  sameConfig,
} from "./agent-config.ts";
import { createAgentRuns } from "./agent-runs.service.ts";
import { createAgentSchedules, isSet, newSchedule } from "./agent-schedules.service.ts";
import { createAgentVersions } from "./agent-versions.service.ts";
import { type AgentRow, type AgentsStore, configFields } from "./agents.store.ts";
import { changeDefault, EMPTY_VIEW, showDefault, splitChanges, VIEW_NAMES } from "./default-schedule.ts";
import { agentErrors } from "./errors.ts";
import { createRetention } from "./retention.ts";
import { PAUSED_BY_OWNER, type ScheduleWrite, writtenSchedule } from "./schedule-changes.ts";
import { isSameTask } from "./schedule-key.ts";
import type { ScheduleKeys } from "./schedule-keys.service.ts";
import { listRunsOfAgent, statusOf } from "./schedule-record.ts";
import { permittedTools, withUsableSecrets } from "./secret-bindings.ts";
import { createWaitingBudgets } from "./waiting-budgets.ts";
import { createWaitingSchedules } from "./waiting-schedules.ts";

export interface AgentsDeps {
  db: Db;
  store: AgentsStore;
  clock: Clock;
  log: Log;
  models: Models;
  runs: Runs;
  schedules: Schedules;
  schedule_keys: ScheduleKeys;
  ledger: Pick<Ledger, "accountStatus" | "keySpends" | "refills" | "chargedAgents" | "hold" | "release">;
  meansOf: MeansOf;
  /** The suspended users among these. Their agents do not run. */
  suspended(tx: Tx, user_ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** Whether tools may be set to `safety: off`. */
  safety_off: "refused" | "allowed";
  /** The secrets that the user's tools can refer to. */
  secretNames(user_id: string): Promise<NamedSecret[]>;
  /** The least time between two runs of a schedule, in minutes. */
  minScheduleMinutes(): number;
  /** The number of days for which finished runs are kept; null: no limit. */
  keep_runs_days: number | null;
  followers: Pick<RunFollowers, "follow">;
  /** Deletes the threads of an agent; with null, of all the user's agents. */
  forgetThreads(tx: Tx, user_id: string, agent_id: string | null): Promise<void>;
  /** Deletes the triggers of an agent. */
  forgetTriggers(tx: Tx, agent: AgentKey): Promise<void>;
  /** Deliveries with their addresses as they are stored. Throws 400 if nothing can be delivered to one. */
  usableDeliveries(user_id: string, deliveries: readonly AgentDelivery[]): Promise<AgentDelivery[]>;
  /** Who a caller is, for the record of what they decide. */
  identify(caller: Caller): Promise<DecidedBy>;
  /** Deletes what other modules have of deleted agents. */
  onDelete(tx: Tx, agents: readonly AgentKey[]): Promise<void>;
  /** Deletes what other modules have of these runs. */
  onPrune: OnPrune;
}

/** The path to an action. */
interface DecidedPath {
  id: string;
  run_id: string;
  action_id: string;
}

/** Two versions that differ in a switch may be compressed to sizes that differ by some bytes. */
const SAME_BYTES = 64;

/** Agents, their versions and their runs. Owns `agent` and `agent_version`. */
export function createAgents(deps: AgentsDeps) {
  const { store, runs, followers } = deps;
  const budgets = createWaitingBudgets(deps);
  const crud = createCrud({ ...deps, relieveUser: budgets.relieveUser });
  const loadConfig = createConfigCache(store);
  const agent_runs = createAgentRuns({ ...deps, find: crud.find, withDraft: crud.withDraft });
  /** The settings that a run began with; undefined: they are not kept. */
  const configOf = async (agent: AgentKey, begun: BegunRun): Promise<RunConfig | undefined> => {
    const { trigger, agent_version: version } = begun.run;
    const { draft } = begun.engine_input as EngineInput;
    const settings = trigger === "test" ? draft : await loadConfig({ ...agent, version });
    return settings === undefined ? undefined : runConfig(settings, begun);
  };
  const withAgents = async (user_id: string, found: readonly Omit<FoundRun, "agent">[]): Promise<FoundRun[]> => {
    const names = await store.names(user_id, agentIdsIn(found));
    return found.map((run) => {
      const { agent_name: name, agent_deleted: deleted } = agentNameOf(names, run.agent_id);
      return { ...run, agent: { id: run.agent_id, name, deleted } };
    });
  };
  return {
    ...crud,
    ...createAgentVersions({ ...crud, ...deps }),
    ...agent_runs,
    schedules: createAgentSchedules({ ...deps, find: crud.find, runNow: agent_runs.runNow }),
    ...createWaitingSchedules(deps),
    relieveUser: budgets.relieveUser,
    budgets: budgets.sweep,
    ...createRetention({ ...deps, keep_days: deps.keep_runs_days }),
    /** The configuration of a version; absent when the agent was deleted. */
    loadConfig,
    /** The agents that can be named as a model, the newest first. */
    async asModels(user_id: string) {
      const active = await store.active(user_id, USER_ROWS.agents);
      return active.map(
        ({ id, name, description, model_id, auto_route, client_tools, has_output_schema, created_at }) => ({
          id,
          name,
          description,
          client_tools,
          has_output_schema,
          model_id: auto_route ? null : model_id,
          created: Math.floor(Date.parse(created_at) / 1000),
        }),
      );
    },
    /** Decides what a run waits for, and returns the run. `via`: the API that asked, if it has a name of its own. 404, 409, 400. */
    async decideAction(
      caller: Caller,
      { id, run_id, action_id }: DecidedPath,
      decision: Decision,
      via?: typeof MCP_CLIENT,
    ): Promise<RunDetail> {
      const { user_id } = caller;
      const agent = { user_id, agent_id: (await crud.find(user_id, id)).id };
      const who = await deps.identify(caller);
      const decided_by = via === undefined ? who : { ...who, type: via };
      const loadTools = async () => {
        const begun = (await runs.begunRuns(user_id, [run_id])).get(run_id);
        return (begun && (await configOf(agent, begun)))?.tools_config ?? {};
      };
      const action = { ...agent, run_id, action_id };
      if (decision.decision === "approve") await budgets.refuseUnfunded(action);
      await runs.decideAction(action, decision, { decided_by, loadTools });
      deps.log.info({ run_id, user_id, action_id, decision: decision.decision, by: decided_by.type }, "decision");
      return runs.getRun(agent, run_id);
    },
    /** The schemas of the active agents that have some, by the agent's id. */
    schemas: store.schemas,
    /** A run of any of the user's agents. 404. */
    async findRun(user_id: string, run_id: string): Promise<RunDetail> {
      const found = isUuid(run_id) ? (await runs.begunRuns(user_id, [run_id])).get(run_id) : undefined;
      if (found === undefined) throw errors.notFound("This run");
      const { id } = await crud.find(user_id, found.run.agent_id);
      return runs.getRun({ user_id, agent_id: id }, run_id);
    },
    /** A run of any agent, deleted ones included, in parts. 404. */
    async anyRunInParts(user_id: string, run_id: string) {
      const found = isUuid(run_id) ? (await runs.begunRuns(user_id, [run_id])).get(run_id) : undefined;
      if (found === undefined) throw errors.notFound("This run");
      return runs.getRunInParts({ user_id, agent_id: found.run.agent_id }, run_id);
    },
    /** Runs over all agents, newest first, each with its agent; `after` is the last run of the page before. */
    async searchRuns(user_id: string, filter: RunSearch, page: Parameters<Runs["searchRuns"]>[2]) {
      return withAgents(user_id, await runs.searchRuns(user_id, filter, page));
    },
    /** All of these runs, in parts. */
    async *exportRuns(user_id: string, filter: RunSearch) {
      for await (const part of runs.exportRuns(user_id, filter)) yield withAgents(user_id, part);
    },
    /** The messages that a run began with. 404. */
    async sentMessages(user_id: string, id: string, run_id: string): Promise<SentMessage[]> {
      const agent = await crud.find(user_id, id);
      const found = isUuid(run_id) ? (await runs.begunRuns(user_id, [run_id])).get(run_id) : undefined;
      if (found?.run.agent_id !== agent.id) throw errors.notFound("This run");
      const config = await configOf({ user_id, agent_id: agent.id }, found);
      const { run, ...begun } = found;
      const facts = { ...begun, trigger: run.trigger, scheduled_for: run.scheduled_for, queued_at: run.queued_at };
      const prompts = config === undefined ? undefined : renderPrompts(config, facts);
      return listSentMessages(prompts, found.engine_input as Partial<EngineInput>);
    },
    unfinishedRun: runs.unfinishedRun,
    /** The latest runs of all of the user's agents, newest first. Deleted agents have no records. */
    async latestRuns(user_id: string, filter: { status?: RunRecord["status"] }, limit: number): Promise<RunRecord[]> {
      const agent_ids = await store.ids(user_id);
      const found = await runs.allRuns({ ...filter, user_id, agent_ids }, { limit, before_id: null });
      return found.map(({ user_id: _user, ...run }) => run);
    },
    /** The events of a run after number `after`; null when no more will come. 404. */
    async follow(user_id: string, id: string, which: { run_id: string; after: number }): Promise<EventFeed | null> {
      const agent = await crud.find(user_id, id);
      const found = isUuid(which.run_id) ? await runs.begunRuns(user_id, [which.run_id]) : undefined;
      if (found?.get(which.run_id)?.run.agent_id !== agent.id) throw errors.notFound("This run");
      return followers.follow(user_id, which.run_id, which.after);
    },
  };
}

export type Agents = ReturnType<typeof createAgents>;

function createCrud(deps: AgentsDeps & { relieveUser(user_id: string): Promise<void> }) {
  const { db, clock, runs, schedules, models, store, secretNames, forgetThreads, onDelete } = deps;

  const records = async (user_id: string, rows: AgentRow[]): Promise<AgentRecord[]> => {
    const ids = rows.map(({ id }) => id);
    const [all, last_runs] = await Promise.all([schedules.ofAgents(user_id, ids), runs.lastRuns(user_id, ids)]);
    const by_agent = Map.groupBy(all, ({ agent_id }) => agent_id);
    const now = clock.now();
    return rows.map((row) => {
      const record = agentRecord(row, { schedules: by_agent.get(row.id) ?? [], last_run: last_runs.get(row.id), now });
      return { ...record, warnings: [...warnOfModel(models, row), ...record.warnings] };
    });
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

  /**
   * Adds a version and deletes versions that are no longer kept: contract 6.8.3. A full account keeps only the newest
   * version of the changed agent. 409 when it is larger than the versions that it replaces.
   */
  const addVersion = async (tx: Tx, row: Parameters<AgentsStore["insertVersion"]>[1]): Promise<void> => {
    const { user_id, agent_id, version } = row;
    await store.insertVersion(tx, row);
    const pinned = await runs.pinnedVersions(tx, row);
    const forget = (up_to: number) => store.forgetVersions(tx, { user_id, agent_id, up_to, pinned });
    await forget(version - KEPT_VERSIONS);
    await lockInserts(tx, "agent", user_id);
    const bytes = await store.versionBytes(tx, row);
    if (bytes.all <= AGENT_BYTES) return;
    const freed = await forget(version - 1);
    if (bytes.all - freed > AGENT_BYTES && bytes.added > freed + SAME_BYTES) throw agentErrors.agentStorageFull();
  };

  const writeOf = (
    { api_key_id }: Caller,
    given: Pick<ScheduleWrite, "is_same_task" | "resumes" | "now"> & { config: AgentConfig },
  ): ScheduleWrite => {
    const { is_same_task, resumes, now, config } = given;
    const min_minutes = deps.minScheduleMinutes();
    return { is_same_task, resumes, now, caller_key_id: api_key_id, run_prompt: config.run_prompt, min_minutes };
  };

  /** `changes` with each secret's name in its own spelling. Throws 400 for tools that cannot be used. */
  const withUsableTools = async <Changes extends AgentChanges>(user_id: string, changes: Changes): Promise<Changes> => {
    const { tools_config } = changes;
    if (tools_config === undefined) return changes;
    const [unjudged] = deps.safety_off === "allowed" ? [] : unjudgedTools(tools_config);
    if (unjudged !== undefined) {
      const param = paramOf(["tools_config", unjudged, "safety"]);
      const why = "the operator has not allowed off (PURSER_SAFETY_OFF=allowed). Use strict or balanced";
      throw errors.invalidValue(param, `${param}: ${why}.`);
    }
    if (secretsReferred(tools_config).length === 0) return changes;
    return { ...changes, tools_config: withUsableSecrets(tools_config, await secretNames(user_id)) };
  };

  /** `changes` with the addresses of deliveries as they are stored. Throws 400. */
  const withUsableAddresses = async <Changes extends AgentChanges>(
    user_id: string,
    changes: Changes,
  ): Promise<Changes> =>
    changes.deliveries === undefined
      ? changes
      : { ...changes, deliveries: await deps.usableDeliveries(user_id, changes.deliveries) };

  /** `given` as it may be applied to the agent. Throws 400 and 403. */
  const usableChanges = async (caller: Caller, given: AgentChanges, row: AgentRow): Promise<AgentChanges> => {
    if (given.model_id !== undefined) refuseUnknownModel(models, given.model_id);
    // Denied before names are looked up, as in `create`.
    withNamedTools(caller, given, row);
    return withUsableAddresses(caller.user_id, await withUsableTools(caller.user_id, given));
  };

  return {
    /** The caller's agent, or 404. */
    find,
    /** The agent with changes that are not saved. Throws as `update` does. */
    async withDraft(caller: Caller, row: AgentRow, draft: AgentChanges): Promise<AgentRow> {
      const changes = await usableChanges(caller, draft, row);
      const { is_active: _, ...settings } = splitChanges(withNamedTools(caller, changes, row)).settings;
      return { ...row, ...changedConfig(configFields(row), settings) };
    },
    /** The same; undefined instead of 404. */
    found: async (user_id: string, id: string): Promise<AgentRow | undefined> =>
      isUuid(id) ? store.agent(user_id, id) : undefined,
    get,
    /** The configuration of a run's `agent_version`. 404. */
    async version(user_id: string, id: string, number: string): Promise<AgentVersion> {
      const agent_id = (await find(user_id, id)).id;
      const version = /^[1-9]\d{0,8}$/.test(number) ? Number(number) : 0;
      const found = await store.version({ user_id, agent_id, version });
      if (found === undefined) throw errors.notFound("This version");
      const { config, created_at } = found;
      return { ...config, agent_id, version, created_at };
    },
    ...createLists({ store, runs, schedules, records }),
    /** Names of the user's agents among `ids`, deleted ones included. */
    names: store.names,
    /**
     * 400 for settings that do not fit together and for an unavailable model. 409 beyond the limit. `copied`: schedules of
     * another agent, which the agent gets switched off.
     */
    async create(
      caller: Caller,
      given: AgentChanges & { name: string },
      { copied = [] }: { copied?: readonly ScheduleRow[] } = {},
    ): Promise<AgentRecord> {
      const { user_id } = caller;
      // Denied before names are looked up, so a caller who may not bind secrets does not learn which exist.
      const permitted = { ...given, tools_config: permittedTools(caller, given.tools_config ?? {}, {}) };
      const usable = await withUsableAddresses(user_id, await withUsableTools(user_id, permitted));
      const { settings, schedule } = splitChanges(usable);
      const config = newConfig(settings);
      refuseUnknownModel(models, config.model_id);
      const now = clock.now();
      const id = newId();
      const empty = newSchedule({ user_id, agent_id: id, name: DEFAULT_SCHEDULE, now });
      const set = { ...empty, ...changeDefault(empty, schedule) };
      const state = { user_id, id, version: 1, created_at: now, updated_at: now, deleted_at: null };
      const write = writeOf(caller, { config, is_same_task: true, resumes: true, now });
      const copies = copied.map(({ name, spec, input, run_prompt, deliveries }): ScheduleRow => {
        return { ...newSchedule({ user_id, agent_id: id, name, now }), spec, input, run_prompt, deliveries };
      });
      const first =
        copies.find(({ name }) => name === DEFAULT_SCHEDULE) ??
        writtenSchedule(null, set, { ...write, names: VIEW_NAMES });
      requireFit(config, first, "schedule_enabled");
      await db.transaction(async (tx) => {
        await store.insertAgent(tx, { ...config, ...state });
        const live = { table: "agent", user_id, where: "deleted_at is null", most: USER_ROWS.agents };
        if (await hasMoreRows(tx, live)) throw agentErrors.agentLimitReached();
        const version = { ...config, ...showDefault(first) };
        await addVersion(tx, { user_id, agent_id: id, version: 1, config: version, created_at: now });
        for (const row of new Set([first, ...copies])) await schedules.insert(tx, row, config);
      });
      return get(user_id, id);
    },
    /**
     * Changes the given fields and validates the whole configuration. A real change makes a new version. A write that
     * enables the schedule `default` or that `resumes` resumes it, and one that enables the agent resumes all schedules
     * that their owner has not paused. 403 for a secret's binding that the caller may not write. 409 when the user's
     * versions become too large.
     */
    async update(
      caller: Caller,
      id: string,
      given: AgentChanges,
      { resumes: is_resume = isResume(given) } = {},
    ): Promise<AgentRecord> {
      const { user_id } = caller;
      const changes = await usableChanges(caller, given, await find(user_id, id));
      await db.transaction(async (tx) => {
        const row = await store.lockAgent(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This agent");
        const before = configFields(row);
        const { settings, schedule } = splitChanges(withNamedTools(caller, changes, row));
        const config = changedConfig(before, settings);
        const is_activated = config.is_active && !before.is_active;
        const now = clock.now();
        const write = writeOf(caller, { config, is_same_task: isSameTask(before, config), resumes: false, now });
        let view_before = EMPTY_VIEW;
        let view = EMPTY_VIEW;
        const rows = await schedules.lock(tx, { user_id, agent_id: id });
        const written = rows.map((was) => {
          const resumes = is_activated && was.paused_reason !== PAUSED_BY_OWNER;
          if (was.name !== DEFAULT_SCHEDULE) return { was, after: writtenSchedule(was, was, { ...write, resumes }) };
          const set = { ...was, ...changeDefault(was, schedule) };
          const names = { ...write, names: VIEW_NAMES, resumes: resumes || is_resume };
          const after = writtenSchedule(was, set, names);
          view_before = showDefault(was);
          view = showDefault(after);
          if (!isSet(was) && isSet(after) && rows.filter(isSet).length >= AGENT_SCHEDULES) {
            throw agentErrors.scheduleLimitReached();
          }
          return { was, after };
        });
        for (const { was, after } of written) {
          requireFit(config, after, after.enabled && !was.enabled ? "schedule_enabled" : "input_schema");
        }
        const is_changed = !sameConfig(before, config) || stableJson(view) !== stableJson(view_before);
        if (is_changed) {
          const version = row.version + 1;
          await store.updateAgent(tx, { ...row, ...config, version, updated_at: now });
          await addVersion(tx, { user_id, agent_id: id, version, config: { ...config, ...view }, created_at: now });
        }
        for (const { was, after } of written) {
          if (!is_changed && stableJson(was) === stableJson(after)) continue;
          await schedules.change(tx, { before: was, after, is_active: config.is_active });
        }
        if (!config.is_active) await runs.cancelIdle(tx, { user_id, agent_id: id });
      });
      if (given.limits !== undefined) await deps.relieveUser(user_id);
      return get(user_id, id);
    },
    /** Deletes the agent and its schedules, and cancels its runs. Its row stays if it has run. Later requests about it are answered 404. */
    async remove(user_id: string, id: string): Promise<void> {
      if (!isUuid(id)) throw errors.notFound("This agent");
      await db.transaction(async (tx) => {
        const row = await store.lockAgent(tx, user_id, id);
        if (row === undefined) throw errors.notFound("This agent");
        await store.updateAgent(tx, { ...row, deleted_at: clock.now() });
        await store.forgetSettings(tx, [row]);
        const key = { user_id, agent_id: id };
        await schedules.forgetAgent(tx, key);
        await runs.cancelAgent(tx, key);
        await forgetThreads(tx, user_id, id);
        await deps.forgetTriggers(tx, key);
        if ((await runs.agentsWithRuns([key], tx)).has(id)) return;
        await onDelete(tx, [key]);
        await store.deleteAgents(tx, [row]);
      });
    },
    /** Deletes all agents and runs of a user during erasure. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await store.lockAgents(tx, user_id);
      await schedules.forgetUser(tx, user_id);
      await runs.forgetUser(tx, user_id);
      await runs.forgetFreeRuns(tx, user_id);
      await forgetThreads(tx, user_id, null);
      await store.deleteUser(tx, user_id);
    },
  };
}

function createLists({
  store,
  runs,
  schedules,
  records,
}: Pick<AgentsDeps, "runs" | "schedules"> & {
  store: AgentsStore;
  records(user_id: string, rows: AgentRow[]): Promise<AgentRecord[]>;
}) {
  /** The agents whose newest run failed or had errors, and those with a schedule that is paused or fails. */
  const agentsInNeed = async (user_id: string): Promise<string[]> => {
    const failing = store.ids(user_id).then((ids) => runs.failingAgents(user_id, ids));
    return (await Promise.all([failing, schedules.troubledAgents(user_id)])).flat();
  };
  return {
    /**
     * Newest first; `before_id` is the last agent of the page before. A page ends early if its agents are large:
     * `next_id` is the last agent, null at the end.
     */
    async list(
      user_id: string,
      { limit, in_need, ...page }: Omit<Parameters<AgentsStore["sizes"]>[1], "among"> & { in_need: boolean },
    ) {
      const among = in_need ? await agentsInNeed(user_id) : null;
      const sizes = await store.sizes(user_id, { ...page, among, limit: limit + 1 });
      const fit = thatFit(sizes.slice(0, limit), ({ bytes }) => bytes).map(({ id }) => id);
      const agents = await records(user_id, await store.agents(user_id, fit));
      return { agents, next_id: fit.length < sizes.length ? (fit.at(-1) ?? null) : null };
    },
    /**
     * Agents with an active schedule that is not paused, ordered by next run, after the cursor `after`; `next` is null
     * at the end. A page ends early as in `list`.
     */
    async nextRuns(user_id: string, { limit, after }: { limit: number; after: NextRun | null }) {
      const due = await schedules.nextRuns(user_id, { limit: limit + 1, after });
      const page = due.slice(0, limit);
      const ids = page.map(({ agent_id }) => agent_id);
      const bytes_of = new Map((await store.sizesOf(user_id, ids)).map(({ id, bytes }) => [id, bytes]));
      const fit = thatFit(page, ({ agent_id }) => bytes_of.get(agent_id) ?? 0);
      const rows = await store.agents(user_id, ids.slice(0, fit.length));
      return { agents: await records(user_id, rows), next: fit.length < due.length ? (fit.at(-1) ?? null) : null };
    },
  };
}

/** Whether a write has no other purpose: it says that the schedule is enabled, and nothing else. */
function isResume(changes: AgentChanges): boolean {
  return changes.schedule_enabled === true && Object.keys(changes).length === 1;
}

/** `changes` with the names that nulls in its tools keep. Throws 403 and 400 as `permittedTools` does. */
function withNamedTools(caller: Caller, { tools_config, ...changes }: AgentChanges, before: AgentRow): NamedChanges {
  if (tools_config === undefined) return changes;
  return { ...changes, tools_config: permittedTools(caller, tools_config, before.tools_config) };
}

/** Throws 400 for a schedule that is on and whose input the agent's schema does not take: it could never run. */
function requireFit(
  { input_schema }: AgentConfig,
  { enabled, input, name }: ScheduleRow,
  param: "schedule_enabled" | "input_schema",
): void {
  const misfit = enabled ? findMisfit(input_schema, input) : null;
  if (misfit === null) return;
  const how = "Turn the schedule off, and set its input at /api/v1/agents/{id}/schedules before you turn it on";
  throw errors.invalidValue(param, `The schedule ${name} does not fit the agent's input_schema: ${misfit}. ${how}.`);
}

function refuseUnknownModel(models: Models, model_id: string | null): void {
  if (model_id === null || model_id === AUTO_MODEL || models.find(model_id) !== null) return;
  if (models.findEmbedding(model_id) !== null) {
    throw errors.invalidValue("model_id", `${model_id} only creates embeddings. Name a model of kind chat.`);
  }
  // The model is a field of the agent here, not the resource of the request.
  const unknown = gatewayErrors.modelNotFound(model_id, models.nearest(model_id));
  throw unknown.with({ status: 400, type: "invalid_request_error", param: "model_id" });
}

/** Warns of a model that the operator has removed since the agent was saved. */
function warnOfModel(models: Models, { auto_route, model_id }: AgentRow): AgentRecord["warnings"] {
  if (auto_route || model_id === null || models.find(model_id) !== null) return [];
  const { code, message } = modelGoneError(model_id);
  return [{ code, param: "model_id", message }];
}

/** The agent as callers see it: its configuration, its schedule `default`, its next runs and its last run. */
export function agentRecord(
  row: AgentRow,
  { schedules, last_run, now }: { schedules: readonly ScheduleState[]; last_run: RunRecord | undefined; now: Instant },
): AgentRecord {
  const { user_id: _user, deleted_at: _deleted, ...shown } = row;
  const schedule = schedules.find(({ name }) => name === DEFAULT_SCHEDULE);
  if (schedule === undefined) throw new Error("an agent without its default schedule");
  const schedule_status = statusOf(schedule, row.is_active);
  const upcoming_runs = row.is_active ? listRunsOfAgent(schedules, now) : [];
  return {
    ...shown,
    ...showDefault(schedule),
    next_run_at: upcoming_runs[0]?.at ?? null,
    upcoming_runs,
    schedule_status,
    schedule_paused_reason: schedule_status === "paused" ? schedule.paused_reason : null,
    schedule_api_key_id: schedule.api_key_id,
    consecutive_failures: schedule.consecutive_failures,
    last_run: last_run === undefined ? null : lastRun(last_run),
    secrets_used: [...new Set(secretsReferred(row.tools_config).map(({ name }) => name))],
    warnings: toolProblems(row.tools_config).map(({ code, path, message }) => ({
      code,
      param: paramOf(["tools_config", ...path]),
      message,
    })),
  };
}

function lastRun({ id, status, finished_at, has_errors }: RunRecord): AgentRecord["last_run"] {
  return { id, status, finished_at, has_errors };
}
