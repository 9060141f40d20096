import { createRuns, type RunsDeps } from "../../src/agents/runs/runs.service.ts";
import type { RunFailed } from "../../src/agents/runs/runs.types.ts";
import { createSchedules, type SchedulePaused } from "../../src/agents/schedules/schedules.service.ts";
import type { OnDue } from "../../src/agents/schedules/tick.service.ts";
import type { AgentKey } from "../../src/api/contract/agents.ts";
import type { Tx } from "../../src/platform/db/db.ts";

export type SchedulingOptions = Pick<RunsDeps, "db" | "clock"> &
  Partial<Pick<RunsDeps, "onRunEnd" | "onLost" | "onCancelled" | "ends_with_step">> & {
    notify?(event: RunFailed | SchedulePaused, tx: Tx): Promise<void>;
  };

/** Schedules and runs over one database, as the app connects them, without agents. */
export function createScheduling(options: SchedulingOptions) {
  const deps = {
    notify: async () => {},
    onErrors: async () => {},
    onRunEnd: async () => async () => {},
    onLost: () => {},
    run_now_statements: null,
    ends_with_step: false,
    ...options,
  };
  const schedules = createSchedules(deps);
  const runs = createRuns(deps);
  return {
    ...schedules,
    ...runs,
    tick: (onDue: OnDue) => schedules.tick({ onDue, busyAgents: runs.busyAgents, queueDue: runs.queueDue }),
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
