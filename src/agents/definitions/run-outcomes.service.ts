import { MONTHLY_CAP } from "../../gateway/completions/reservation.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import { KEY_BUDGET } from "../runs/model-call.ts";
import type { EndedRun, OnRunEnd } from "../runs/runs.types.ts";
import type { EngineInput } from "../runs/transcript.ts";
import type { Schedules } from "../schedules/schedules.service.ts";
import { countOutcome, lockCounted } from "./outcome.store.ts";
import type { ScheduleKeys } from "./schedule-keys.service.ts";

/** `schedule_paused_reason` of a schedule that waits for tokens. */
const OUT_OF_TOKENS = "out of tokens: resumes with the next grant, or when overage is enabled or raised";

/**
 * Counts an agent's failures in a row as its runs end. Pauses its schedule after too many failures or a lack of tokens.
 */
export function createRunOutcomes(deps: {
  schedules: Pick<Schedules, "pauseSchedule" | "pauseForTokens">;
  schedule_keys: Pick<ScheduleKeys, "pauseForBudget">;
  log: Log;
}): OnRunEnd {
  const { schedules, schedule_keys, log } = deps;

  const pause = async (tx: Tx, { user_id, agent_id }: EndedRun, reason: string) => {
    await schedules.pauseSchedule({ user_id, agent_id }, reason, tx);
    log.info({ agent_id, reason }, "a schedule is being paused");
  };
  /** The schedule resumes when the account has had more refills than at the queueing of this run. */
  const waitForTokens = async (tx: Tx, { user_id, agent_id, due_input }: EndedRun) => {
    const { refills = 0 } = (due_input ?? {}) as Partial<EngineInput>;
    await schedules.pauseForTokens(tx, { user_id, agent_id }, OUT_OF_TOKENS, refills);
    log.info({ agent_id, reason: OUT_OF_TOKENS }, "a schedule is being paused");
  };
  /** A lack of tokens, a used-up month and a used-up key budget do not count as failures of the agent. */
  const applyOutcome = async (tx: Tx, run: EndedRun) => {
    const { user_id, agent_id, error } = run;
    const is_due = run.trigger === "schedule";
    if (error?.code === "insufficient_tokens") return is_due ? waitForTokens(tx, run) : undefined;
    if (error?.param === MONTHLY_CAP) return;
    if (error?.param === KEY_BUDGET) return is_due ? schedule_keys.pauseForBudget(tx, run) : undefined;
    const counted = await countOutcome(tx, { user_id, agent_id }, error !== null);
    if (counted === undefined || error === null) return;
    const { failures, allowed } = counted;
    if (failures < allowed) return;
    const times = failures === 1 ? "1 failed run" : `${failures} failed runs in a row`;
    await pause(tx, run, `${times}: set schedule_enabled to true to resume`);
  };

  return async (ending, tx) => {
    const counted = await lockCounted(tx, ending.filter(isCounted));
    return async (ended) => {
      for (const run of ended) {
        const has_outcome = run.status === "succeeded" || run.status === "failed";
        if (isCounted(run) && counted.has(run.agent_id) && has_outcome) await applyOutcome(tx, run);
      }
    };
  };
}

/** Chats do not count, because their callers see the result. */
function isCounted({ trigger }: Pick<EndedRun, "trigger">): boolean {
  return trigger !== "chat";
}
