import { createRuns, type RunsDeps } from "../../src/agents/runs/runs.service.ts";
import type { NewRun, RunFailed } from "../../src/agents/runs/runs.types.ts";
import { createSchedules, type SchedulePaused } from "../../src/agents/schedules/schedules.service.ts";
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
    onRunEnd: async () => async () => {},
    onLost: () => {},
    reads: async () => options.db,
    start_statements: ACCEPT_ALL,
    ends_with_step: false,
    ...options,
  };
  const schedules = createSchedules(deps);
  const runs = createRuns(deps);
  return {
    ...schedules,
    ...runs,
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
    tick: (onDue: OnDue) => schedules.tick({ onDue, busyAgents: runs.busyAgents, startRuns: runs.startRuns }),
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
