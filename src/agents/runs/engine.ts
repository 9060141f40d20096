import type { RunError } from "../../api/contract/runs.ts";
import { USER_ROWS } from "../../kernel/constants.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { describeUnexpected } from "../../platform/telemetry/log.ts";
import { createApprovalStep, createNeedsApproval } from "./approval-step.ts";
import { internalError } from "./model-call.ts";
import { createModelStep } from "./model-step.ts";
import { decideNext, type NextAction, timeoutError } from "./next-action.ts";
import { findOutputRule } from "./output.ts";
import { renderPrompts } from "./prompts.ts";
import {
  type EngineDeps,
  getStopReason,
  type RunControl,
  type RunResult,
  type StepResult,
  type StopReason,
  type Work,
} from "./run-work.ts";
import { DatabaseUnavailableError } from "./run-writer.ts";
import type { ClaimedRun, RunFinish } from "./runs.types.ts";
import { createServerNotes, createToolSteps } from "./tool-step.ts";
import { collectToolNames, type EngineInput, type RunConfig, selectClientTools } from "./transcript.ts";

/** contract 6.6: the error of a run that would have to wait. */
const TOO_MANY_WAITING: RunError = {
  code: "too_many_waiting",
  message: `${USER_ROWS.waiting_runs.toLocaleString("en-US")} of your runs wait for a decision already. Decide or cancel some, then run the agent again.`,
};

/** Carries out one step of a run. */
export type Step = (work: Work, action: Exclude<NextAction, { do: "succeed" | "fail" }>) => Promise<StepResult>;

/** Executes claimed runs, one step at a time. Every finished step is durable before the next begins. */
export function createEngine(deps: EngineDeps, carryOut: Step = createSteps(deps)) {
  const noteUnusableServers = createServerNotes(deps);

  /**
   * Executes `run` from its last finished step. `config` is the version that the run pinned. Null: another worker resumes
   * it.
   */
  async function execute(run: ClaimedRun, config: RunConfig, control: RunControl): Promise<RunResult | null> {
    const timer = new AbortController();
    const left_ms = Math.max(0, config.limits.max_run_seconds * 1000 - run.elapsed_ms);
    const timeout = setTimeout(() => timer.abort("timeout" satisfies StopReason), left_ms);
    try {
      const work: Work = {
        run,
        config,
        prompts: renderPrompts(config, run),
        input: run.engine_input as EngineInput,
        output_rule: findOutputRule(config, run.engine_input as EngineInput),
        steps: run.lease.epoch > 1 ? await deps.runs.journal(run.lease) : [],
        actions: run.lease.epoch > 1 ? await deps.runs.callActions(run.lease) : [],
        budget_error: run.lease.epoch > 1 && config.on_budget === "ask" ? await deps.runs.budgetError(run.lease) : null,
        refills: null,
        control,
        signal: AbortSignal.any([control.signal, timer.signal]),
        until_ms: monotonicMs() + left_ms,
        mark: deps.newMark(),
        offered: new Set(),
        spent_tokens: run.cost_tokens,
        model_id: run.model_id,
        result: { thrown: null, usages: [], finish_reason: "stop", end: null },
      };
      const finish = await executeSteps(work);
      if (finish === null) return null;
      return { ...work.result, finish: finish === "waits" ? null : finish };
    } finally {
      clearTimeout(timeout);
    }
  }

  async function executeSteps(work: Work): Promise<RunFinish | "waits" | null> {
    try {
      return await loop(work);
    } catch (error) {
      // No other worker can answer a chat's caller.
      if (error instanceof DatabaseUnavailableError && !work.run.has_caller) throw error;
      const fields = { run_id: work.run.lease.run_id, ...describeUnexpected(error as Error) };
      deps.log.error(fields, "a run failed because of a defect: report this line");
      work.result.thrown = error;
      return { status: "failed", error: internalError() };
    }
  }

  async function loop(work: Work): Promise<RunFinish | "waits" | null> {
    const began_ms = monotonicMs() - work.run.elapsed_ms;
    const left = await noteUnusableServers(work);
    if (left !== null) return endStopped(left, work);
    const client_tools = collectToolNames(selectClientTools(work.config, work.input));
    for (;;) {
      const { config, steps, actions, output_rule } = work;
      const elapsed_ms = monotonicMs() - began_ms;
      const needsApproval = createNeedsApproval(work);
      const state = { steps, actions, needsApproval, elapsed_ms, client_tools, output_rule };
      const action = decideNext({ limits: config.limits, ...state });
      if (action.do === "succeed") {
        return { status: "succeeded", output: action.output, output_json: action.output_json };
      }
      if (action.do === "fail") return { status: "failed", error: action.error, output: action.output ?? null };
      const result = getStopReason(work) ?? (work.control.isDraining() ? "stopping" : await carryOut(work, action));
      if (result === null) continue;
      if (typeof result === "string") return endStopped(result, work);
      const stop = getStopReason(work) ?? (await deps.runs.suspendRun(work.run.lease, result));
      if (stop === "full") return { status: "failed", error: TOO_MANY_WAITING };
      return stop === "suspended" ? "waits" : endStopped(stop, work);
    }
  }

  return { execute };
}

function createSteps(deps: EngineDeps): Step {
  const executeModelCall = createModelStep(deps);
  const { executeToolCall, recordRejectedCall } = createToolSteps(deps);
  const askForApproval = createApprovalStep(deps);
  return (work, action) => {
    switch (action.do) {
      case "call_model":
        return executeModelCall(work, action.after_ms);
      case "call_tool":
        return executeToolCall(work, action);
      case "reject_tool":
        return recordRejectedCall(work, action);
      case "ask":
        return askForApproval(work, action);
    }
  };
}

/** How a stopped run ends; null: another worker resumes it. No other worker can answer a chat's caller. */
function endStopped(reason: StopReason, { run, config }: Work): RunFinish | null {
  if (reason === "cancelling" || (reason === "stopping" && run.has_caller)) return { status: "cancelled" };
  return reason === "timeout" ? { status: "failed", error: timeoutError(config.limits) } : null;
}
