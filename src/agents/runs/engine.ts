import { monotonicMs } from "../../platform/lib/clock.ts";
import { describeUnexpected } from "../../platform/telemetry/log.ts";
import { createModelStep } from "./model-step.ts";
import { type NextAction, nextAction, timeoutError } from "./next-action.ts";
import { internalError } from "./run-error.ts";
import {
  type EngineDeps,
  type RunControl,
  type RunResult,
  type StopReason,
  stopReason,
  type Work,
} from "./run-work.ts";
import { DatabaseUnavailableError } from "./run-writer.ts";
import type { ClaimedRun, RunFinish } from "./runs.types.ts";
import { createToolSteps } from "./tool-step.ts";
import { clientToolsOf, type RunConfig, type RunInput, toolNames } from "./transcript.ts";
import { createServerNotes } from "./unusable-servers.ts";

/** Executes claimed runs, one step at a time. Every finished step is durable before the next begins. */
export function createEngine(deps: EngineDeps) {
  const modelStep = createModelStep(deps);
  const { toolStep, rejectedStep } = createToolSteps(deps);
  const noteUnusableServers = createServerNotes(deps);

  /**
   * Executes `run` from its last finished step. `config` is the version that the run pinned. Null: the run is
   * unfinished, another worker resumes it.
   */
  async function execute(run: ClaimedRun, config: RunConfig, control: RunControl): Promise<RunResult | null> {
    const timer = new AbortController();
    const left_ms = Math.max(0, config.limits.max_run_seconds * 1000 - run.elapsed_ms);
    const timeout = setTimeout(() => timer.abort("timeout" satisfies StopReason), left_ms);
    try {
      const work: Work = {
        run,
        config,
        input: run.input as RunInput,
        steps: run.lease.epoch > 1 ? await deps.runs.journal(run.lease) : [],
        control,
        signal: AbortSignal.any([control.signal, timer.signal]),
        until_ms: monotonicMs() + left_ms,
        mark: deps.newMark(),
        offered: new Set(),
        spent_tokens: run.cost_tokens,
        model_id: run.model_id,
        result: { thrown: null, usages: [], finish_reason: "stop", end: null },
      };
      const finish = await outcomeOf(work);
      return finish === null ? null : { ...work.result, finish };
    } finally {
      clearTimeout(timeout);
    }
  }

  async function outcomeOf(work: Work): Promise<RunFinish | null> {
    try {
      return await loop(work);
    } catch (error) {
      // No other worker can answer a chat's caller.
      if (error instanceof DatabaseUnavailableError && work.run.trigger !== "chat") throw error;
      const fields = { run_id: work.run.lease.run_id, ...describeUnexpected(error as Error) };
      deps.log.error(fields, "a run failed because of a defect: report this line");
      work.result.thrown = error;
      return { status: "failed", error: internalError() };
    }
  }

  async function loop(work: Work): Promise<RunFinish | null> {
    const began_ms = monotonicMs() - work.run.elapsed_ms;
    const left = await noteUnusableServers(work);
    if (left !== null) return stopped(left, work);
    const client_tools = toolNames(clientToolsOf(work.config, work.input));
    for (;;) {
      const { config, steps } = work;
      const elapsed_ms = monotonicMs() - began_ms;
      const action = nextAction({ limits: config.limits, steps, elapsed_ms, client_tools });
      if (action.do === "succeed") return { status: "succeeded", output: action.output };
      if (action.do === "fail") return { status: "failed", error: action.error };
      const stop = stopReason(work) ?? (work.control.isDraining() ? "stopping" : await carryOut(work, action));
      if (stop !== null) return stopped(stop, work);
    }
  }

  function carryOut(work: Work, action: Exclude<NextAction, { do: "succeed" | "fail" }>): Promise<StopReason | null> {
    switch (action.do) {
      case "call_model":
        return modelStep(work, action.after_ms);
      case "call_tool":
        return toolStep(work, action.call);
      case "reject_tool":
        return rejectedStep(work, action);
    }
  }

  return { execute };
}

/** How a stopped run ends; null: another worker resumes it. No other worker can answer a chat's caller. */
function stopped(reason: StopReason, { run, config }: Work): RunFinish | null {
  if (reason === "cancelling" || (reason === "stopping" && run.trigger === "chat")) return { status: "cancelled" };
  return reason === "timeout" ? { status: "failed", error: timeoutError(config.limits) } : null;
}
