import { isUnwatched } from "../../api/contract/runs.ts";
import { MONTHLY_CAP } from "../../gateway/completions/reservation.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { KEY_BUDGET } from "../runs/model-call.ts";
import type { EndedRun, OnRunEnd } from "../runs/runs.types.ts";
import type { EngineInput } from "../runs/transcript.ts";
import { DEFAULT_SCHEDULE, type Schedules } from "../schedules/schedules.service.ts";
import { selectAllowedFailures, selectDeliveries } from "./outcome.store.ts";
import type { ScheduleKeys } from "./schedule-keys.service.ts";

/** `schedule_paused_reason` of a schedule that waits for tokens. */
const OUT_OF_TOKENS = "out of tokens: resumes with the next grant, or when overage is enabled or raised";

/** A result for an address of the agent. */
interface ResultForAddress {
  user_id: string;
  run_id: string;
  address: string;
  unless_unchanged: boolean;
}

/**
 * Queues the results of an agent's runs as they end, and counts a schedule's failures in a row. Pauses it after too many
 * failures or a lack of tokens.
 */
export function createRunOutcomes(deps: {
  schedules: Pick<Schedules, "pause" | "pauseForTokens" | "lockCounted" | "countOutcome">;
  schedule_keys: Pick<ScheduleKeys, "pauseForBudget">;
  deliverResults(results: readonly ResultForAddress[], tx: Tx): Promise<void>;
  log: Log;
}): OnRunEnd {
  const { schedules, schedule_keys, deliverResults, log } = deps;

  /** The schedule resumes when the account has had more refills than at the queueing of this run. */
  const waitForTokens = async (tx: Tx, { user_id, agent_id, schedule_id, due_input }: EndedRun) => {
    if (schedule_id === null) return;
    const { refills = 0 } = (due_input ?? {}) as Partial<EngineInput>;
    await schedules.pauseForTokens(tx, { user_id, id: schedule_id }, OUT_OF_TOKENS, refills);
    log.info({ agent_id, schedule_id, reason: OUT_OF_TOKENS }, "a schedule is being paused");
  };
  /** A lack of tokens, a used-up month and a used-up key budget do not count as failures of the agent. */
  const applyOutcome = async (tx: Tx, run: EndedRun) => {
    const { user_id, agent_id, error } = run;
    const is_due = run.trigger === "schedule";
    if (error?.code === "insufficient_tokens") return is_due ? waitForTokens(tx, run) : undefined;
    if (error?.param === MONTHLY_CAP) return;
    if (error?.param === KEY_BUDGET) return is_due ? schedule_keys.pauseForBudget(tx, run) : undefined;
    const counted = await schedules.countOutcome(tx, run, error !== null);
    if (counted === undefined || error === null) return;
    const { id, name, failures } = counted;
    const allowed = await selectAllowedFailures(tx, { user_id, agent_id });
    if (allowed === undefined || failures < allowed) return;
    const times = failures === 1 ? "1 failed run" : `${failures} failed runs in a row`;
    const reason = `${times}: ${name === DEFAULT_SCHEDULE ? "set schedule_enabled to true to resume" : "resume the schedule to go on"}`;
    await schedules.pause(tx, { user_id, id }, reason);
    log.info({ agent_id, schedule_id: id, reason }, "a schedule is being paused");
  };

  const deliver = async (tx: Tx, runs: readonly EndedRun[]) => {
    if (runs.length === 0) return;
    const deliveries = await selectDeliveries(tx, runs);
    const results = runs.flatMap(({ user_id, run_id, status }) =>
      (deliveries.get(run_id) ?? [])
        .filter(({ on }) => on.some((end) => end === status))
        .map(({ to, unless }) => ({ user_id, run_id, address: to, unless_unchanged: unless === "unchanged" })),
    );
    await deliverResults(results, tx);
  };

  return async (ending, tx) => {
    const counted = await schedules.lockCounted(tx, ending.filter(isCounted));
    return async (ended) => {
      const with_result = ended.filter(
        ({ status, trigger }) => isUnwatched(trigger) && (status === "succeeded" || status === "failed"),
      );
      for (const run of with_result.filter(isCounted)) if (counted.has(run.agent_id)) await applyOutcome(tx, run);
      await deliver(tx, with_result);
    };
  };
}

/** Whether the run's failure counts for a schedule. What others send to a trigger pauses no schedule, nor does a test. */
function isCounted({ trigger }: Pick<EndedRun, "trigger">): boolean {
  return trigger === "schedule" || trigger === "manual";
}
