import { newSchedule } from "../../src/agents/definitions/agent-schedules.service.ts";
import { createRuns, type RunsDeps } from "../../src/agents/runs/runs.service.ts";
import type { NewRun, RunFailed } from "../../src/agents/runs/runs.types.ts";
import {
  createSchedules,
  DEFAULT_SCHEDULE,
  type SchedulePaused,
} from "../../src/agents/schedules/schedules.service.ts";
import type { ScheduleSpec } from "../../src/agents/schedules/spec.ts";
import type { OnDue } from "../../src/agents/schedules/tick.service.ts";
import type { AgentKey } from "../../src/api/contract/agents.ts";
import type { RunRecord } from "../../src/api/contract/runs.ts";
import type { Tx } from "../../src/platform/db/db.ts";

export type SchedulingOptions = Pick<RunsDeps, "db" | "clock"> &
  Partial<Pick<RunsDeps, "onRunEnd" | "onLost" | "onCancelled" | "ends_with_step">> & {
    notify?(event: RunFailed | SchedulePaused, tx: Tx): Promise<void>;
  };

/** Accepts every run, because there are no agents here. */
const ACCEPT_ALL = {
  check: `select array_to_json(array_fill(null::text, array[jsonb_array_length($1::jsonb)])) as refusals
    where $2::timestamptz is not null`,
  begin: `select begin_runs($1::jsonb, null, $2, $3, $4, $5, $6, $7, $9::jsonb) as refusals,
    case when $8 then set_config('synchronous_commit', 'off', true) end`,
};

/** Schedules and runs over one database, as the app connects them, without agents. */
export function createScheduling(options: SchedulingOptions) {
  const deps = {
    notify: async () => {},
    onSuccess: async () => {},
    onErrors: async () => {},
    onRequiresAction: async () => {},
    onRunEnd: async () => async () => {},
    onLost: () => {},
    reads: async () => options.db,
    start_statements: ACCEPT_ALL,
    ends_with_step: false,
    ...options,
  };
  const schedules = createSchedules(deps);
  const runs = createRuns(deps);
  const find = async ({ user_id, agent_id }: AgentKey, name = DEFAULT_SCHEDULE) =>
    (await schedules.ofAgents(user_id, [agent_id])).find((schedule) => schedule.name === name);
  return {
    ...schedules,
    ...runs,
    /** An agent's schedule by its name. */
    schedule: find,
    /** Sets when an agent's schedule is due; null turns it off. */
    async setSchedule(tx: Tx, agent: AgentKey, spec: ScheduleSpec | null, name = DEFAULT_SCHEDULE): Promise<void> {
      const before = (await schedules.lock(tx, agent)).find((schedule) => schedule.name === name);
      if (before === undefined) {
        const now = deps.clock.now();
        const row = {
          ...newSchedule({ ...agent, name, now }),
          spec: spec ?? { timezone: "UTC" },
          enabled: spec !== null,
        };
        await schedules.insert(tx, row, { is_active: true });
      } else {
        const after = { ...before, spec: spec ?? before.spec, enabled: spec !== null };
        await schedules.change(tx, { before, after, is_active: true });
      }
    },
    /** Pauses an agent's schedule; null resumes it. */
    async pauseSchedule(agent: AgentKey, reason: string | null, name = DEFAULT_SCHEDULE): Promise<void> {
      const schedule = await find(agent, name);
      if (schedule === undefined) return;
      await options.db.transaction((tx) =>
        reason === null ? schedules.resume(tx, schedule) : schedules.pause(tx, schedule, reason),
      );
    },
    /** Starts a run and returns its record; by default a run-now. */
    async start(run: AgentKey & Partial<NewRun>): Promise<RunRecord> {
      const started = await runs.startRun({
        trigger: "manual",
        agent_version: 1,
        model_id: null,
        engine_input: {},
        ...run,
      });
      if (started.refusal !== null) throw new Error(started.refusal);
      return started.run;
    },
    tick: (onDue: OnDue) => schedules.tick({ onDue, busySchedules: runs.busySchedules, startRuns: runs.startRuns }),
    async forgetAgent(tx: Tx, agent: AgentKey) {
      await schedules.forgetAgent(tx, agent);
      await runs.cancelAgent(tx, agent);
    },
    async forgetUser(tx: Tx, user_id: string) {
      await schedules.forgetUser(tx, user_id);
      await runs.forgetUser(tx, user_id);
    },
  };
}

export type Scheduling = ReturnType<typeof createScheduling>;
