import type { Caller } from "../../api/contract/caller.ts";
import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { RunDetail, RunRecord } from "../../api/contract/runs.ts";
import type { NewSchedule, ScheduleChanges, ScheduleRecord } from "../../api/contract/schedules.ts";
import { AGENT_SCHEDULES } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import { checkPlaceholders } from "../runs/prompts.ts";
import { DEFAULT_SCHEDULE, EMPTY_SCHEDULE, type ScheduleRow, type Schedules } from "../schedules/schedules.service.ts";
import { changeSpec, toSpec } from "../schedules/spec-fields.ts";
import { checkInput } from "./agent-config.ts";
import type { createAgentRuns, RunNow } from "./agent-runs.service.ts";
import type { AgentRow, AgentsStore } from "./agents.store.ts";
import { agentErrors } from "./errors.ts";
import { PAUSED_BY_OWNER, type ScheduleWrite, writtenSchedule } from "./schedule-changes.ts";
import { scheduleRecord } from "./schedule-record.ts";

/** The schedules of an agent, as records of their own. The agent's schedule_* fields change the one named `default`. */
export function createAgentSchedules(deps: {
  db: Db;
  clock: Clock;
  store: Pick<AgentsStore, "lockAgent">;
  schedules: Schedules;
  /** The least time between two runs of a schedule, in minutes. */
  minScheduleMinutes(): number;
  /** The caller's agent, or 404. */
  find(user_id: string, id: string): Promise<AgentRow>;
  runNow: ReturnType<typeof createAgentRuns>["runNow"];
  usableDeliveries(user_id: string, deliveries: readonly AgentDelivery[]): Promise<AgentDelivery[]>;
}) {
  const { db, clock, store, schedules, find } = deps;

  const findSchedule = async (user_id: string, { id, schedule_id }: ScheduleIds) => {
    const agent = await find(user_id, id);
    const row = isUuid(schedule_id) ? await schedules.find({ user_id, id: schedule_id }) : undefined;
    if (row?.agent_id !== agent.id) throw errors.notFound("This schedule");
    return { agent, row };
  };
  const get = async (user_id: string, ids: ScheduleIds): Promise<ScheduleRecord> => {
    const { agent, row } = await findSchedule(user_id, ids);
    return scheduleRecord(row, { is_active: agent.is_active, now: clock.now() });
  };
  /** Locks the agent and its schedules. */
  const lock = async (tx: Tx, user_id: string, id: string): Promise<{ agent: AgentRow; rows: ScheduleRow[] }> => {
    const agent = isUuid(id) ? await store.lockAgent(tx, user_id, id) : undefined;
    if (agent === undefined) throw errors.notFound("This agent");
    return { agent, rows: await schedules.lock(tx, { user_id, agent_id: id }) };
  };
  const toWrite = (caller: Caller, agent: AgentRow, resumes = false): ScheduleWrite => ({
    resumes,
    is_same_task: true,
    caller_key_id: caller.api_key_id,
    run_prompt: agent.run_prompt,
    min_minutes: deps.minScheduleMinutes(),
    now: clock.now(),
  });
  const changed = (before: ScheduleRow, changes: ScheduleChanges, { input_schema }: AgentRow): ScheduleRow => {
    const { name, input, run_prompt, deliveries, enabled, ...times } = changes;
    checkPlaceholders(run_prompt ?? null, "run_prompt", input_schema);
    const spec = changeSpec(before.spec, times);
    toSpec(spec);
    const after = {
      ...before,
      name: name ?? before.name,
      spec,
      input: input === undefined ? before.input : input,
      run_prompt: run_prompt === undefined ? before.run_prompt : run_prompt,
      deliveries: deliveries === undefined ? before.deliveries : deliveries,
      enabled: enabled ?? before.enabled,
    };
    if (input !== undefined || after.enabled) checkInput(input_schema, after.input);
    return after;
  };
  const withUsableAddresses = async <Changes extends ScheduleChanges>(user_id: string, changes: Changes) =>
    changes.deliveries == null
      ? changes
      : { ...changes, deliveries: await deps.usableDeliveries(user_id, changes.deliveries) };
  const requireFreeName = (rows: readonly ScheduleRow[], name: string) => {
    if (rows.some((row) => row.name === name && isSet(row))) throw agentErrors.scheduleNameTaken();
  };
  const change = async (caller: Caller, ids: ScheduleIds, given: ScheduleChanges, { resumes = false } = {}) => {
    const { user_id } = caller;
    const changes = await withUsableAddresses(user_id, given);
    await db.transaction(async (tx) => {
      const { agent, rows } = await lock(tx, user_id, ids.id);
      const before = rows.find((row) => row.id === ids.schedule_id && isSet(row));
      if (before === undefined) throw errors.notFound("This schedule");
      if (given.name !== undefined && given.name !== before.name) {
        if (before.name === DEFAULT_SCHEDULE) {
          throw errors.invalidValue(
            "name",
            "The agent's schedule_* fields show this schedule: its name stays default.",
          );
        }
        // The default one exists also before it is set.
        if (given.name === DEFAULT_SCHEDULE) throw agentErrors.scheduleNameTaken();
        requireFreeName(rows, given.name);
      }
      const after = writtenSchedule(before, changed(before, changes, agent), toWrite(caller, agent, resumes));
      await schedules.change(tx, { before, after, is_active: agent.is_active });
    });
    return get(user_id, ids);
  };

  return {
    /** Oldest first; `after_id` is the last schedule of the page before. */
    async list(user_id: string, id: string, page: Parameters<Schedules["list"]>[1]): Promise<ScheduleRecord[]> {
      const agent = await find(user_id, id);
      const rows = await schedules.list({ user_id, agent_id: agent.id }, page);
      const now = clock.now();
      return rows.map((row) => scheduleRecord(row, { is_active: agent.is_active, now }));
    },
    get,
    /** 400 for fields that do not fit together, 409 for a name that is taken and beyond the limit. */
    async create(caller: Caller, id: string, given: NewSchedule): Promise<ScheduleRecord> {
      const { user_id } = caller;
      const usable = await withUsableAddresses(user_id, given);
      const schedule_id = await db.transaction(async (tx) => {
        const { agent, rows } = await lock(tx, user_id, id);
        requireFreeName(rows, given.name);
        if (rows.filter(isSet).length >= AGENT_SCHEDULES) throw agentErrors.scheduleLimitReached();
        const now = clock.now();
        const wanted = { ...usable, input: given.input ?? null, enabled: given.enabled ?? true };
        const is_active = agent.is_active;
        // The default one exists, and was never set.
        const before = rows.find(({ name }) => name === given.name);
        const empty = before ?? newSchedule({ user_id, agent_id: id, name: given.name, now });
        const after = writtenSchedule(before ?? null, changed(empty, wanted, agent), toWrite(caller, agent));
        if (before === undefined) await schedules.insert(tx, after, { is_active });
        else await schedules.change(tx, { before, after, is_active });
        return after.id;
      });
      return get(user_id, { id, schedule_id });
    },
    /** Changes the given fields. Only turning it on resumes a paused schedule. */
    change: (caller: Caller, ids: ScheduleIds, given: ScheduleChanges): Promise<ScheduleRecord> =>
      change(caller, ids, given),
    resume: (caller: Caller, ids: ScheduleIds): Promise<ScheduleRecord> => change(caller, ids, {}, { resumes: true }),
    async pause(user_id: string, ids: ScheduleIds): Promise<ScheduleRecord> {
      const { row } = await findSchedule(user_id, ids);
      if (row.enabled) await schedules.pauseQuietly(row, PAUSED_BY_OWNER);
      return get(user_id, ids);
    },
    async remove(user_id: string, { id, schedule_id }: ScheduleIds): Promise<void> {
      await db.transaction(async (tx) => {
        const { rows } = await lock(tx, user_id, id);
        const row = rows.find((each) => each.id === schedule_id && isSet(each));
        if (row === undefined) throw errors.notFound("This schedule");
        await schedules.remove(tx, row);
      });
    },
    /** Runs the schedule's task now, as `runNow` does. What `asked` has comes before what the schedule has. */
    async run(caller: Caller, ids: ScheduleIds, asked: Omit<RunNow, "schedule">): Promise<RunRecord | RunDetail> {
      const { id, name, spec, ...own } = (await findSchedule(caller.user_id, ids)).row;
      const input = asked.input ?? own.input;
      const run_prompt = asked.run_prompt ?? own.run_prompt;
      return deps.runNow(caller, ids.id, {
        ...asked,
        input,
        run_prompt,
        schedule: { id, name, timezone: spec.timezone },
      });
    },
  };
}

interface ScheduleIds {
  id: string;
  schedule_id: string;
}

/** Whether its user has set the schedule. The default one exists before that. */
export function isSet({ spec }: ScheduleRow): boolean {
  return spec.interval !== undefined;
}

/** A schedule that is off and was never set. */
export function newSchedule(of: { user_id: string; agent_id: string; name: string; now: string }): ScheduleRow {
  const { user_id, agent_id, name, now } = of;
  return { ...EMPTY_SCHEDULE, user_id, id: newId(), agent_id, name, created_at: now, updated_at: now };
}
