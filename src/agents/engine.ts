import type { Completions } from "../completions/completions.types.ts";
import type { Usage } from "../contract/completions.ts";
import type { RunError } from "../contract/runs.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import { type Clock, monotonicMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";
import type { ClaimedRun, RunFinish } from "../scheduling/scheduling.types.ts";
import type { Tools } from "../tools/tools.service.ts";
import type { AgentConfig } from "./agent-config.ts";
import { budgetLeft } from "./budget.ts";
import { callModel } from "./model-call.ts";
import { argumentsOf, type NextAction, nextAction } from "./next-action.ts";
import { internalError, modelCallError } from "./run-error.ts";
import { earlierCalls, taintOf } from "./taint.ts";
import { type RunInput, type RunStep, transcript } from "./transcript.ts";

/** Why a run is left before its end: its cancellation was asked for, its time is up, its lease is another's, or this process ends. */
export type StopReason = "cancelling" | "timeout" | "lost" | "stopping";

/** How a run ended here; null: it goes on elsewhere, or was not ours any more. */
export interface RunResult {
  finish: RunFinish;
  /** What the failing model call threw, for whoever waits. */
  thrown: unknown;
  /** Of the model calls made here, in order. */
  usages: Usage[];
  finish_reason: string;
  model_id: string | null;
}

export interface RunControl {
  /** Aborted with a `StopReason`: the call in progress is given up at once. */
  signal: AbortSignal;
  /** Asked before each step: the run is to be left where it stands. */
  isDraining(): boolean;
  /** Hears the model's text as it is generated; null when nobody listens. */
  onText: ((text: string) => void) | null;
}

export interface EngineDeps {
  clock: Clock;
  completions: Completions;
  tools: Tools;
  scheduling: Scheduling;
  ledger: Pick<Ledger, "usage">;
  models: Models;
  log: Log;
  /** A random mark for the fences around what tools bring back. */
  newMark(): string;
}

/** A run being carried out. */
interface Work {
  run: ClaimedRun;
  config: AgentConfig;
  input: RunInput;
  steps: RunStep[];
  control: RunControl;
  signal: AbortSignal;
  mark: string;
  spent_tokens: number;
  model_id: string | null;
  result: Pick<RunResult, "thrown" | "usages" | "finish_reason">;
}

/** Carries out claimed runs, one step at a time; every finished step is durable before the next begins. */
export function createEngine(deps: EngineDeps) {
  const { scheduling, completions, tools, ledger, clock, models } = deps;

  /** Carries `run` out from its last finished step. `config` is the version that the run pinned. */
  async function execute(run: ClaimedRun, config: AgentConfig, control: RunControl): Promise<RunResult | null> {
    const timer = new AbortController();
    const timeout = setTimeout(() => timer.abort("timeout" satisfies StopReason), config.limits.max_run_seconds * 1000);
    try {
      const work: Work = {
        run,
        config,
        input: run.input as RunInput,
        steps: run.lease.epoch > 1 ? await scheduling.journal(run.lease) : [],
        control,
        signal: AbortSignal.any([control.signal, timer.signal]),
        mark: deps.newMark(),
        spent_tokens: run.cost_tokens,
        model_id: run.model_id,
        result: { thrown: null, usages: [], finish_reason: "stop" },
      };
      const finish = await outcomeOf(work);
      if (finish === null || !(await scheduling.finishRun(run.lease, finish))) return null;
      return { ...work.result, finish, model_id: work.model_id };
    } finally {
      clearTimeout(timeout);
    }
  }

  async function outcomeOf(work: Work): Promise<RunFinish | null> {
    try {
      return await loop(work);
    } catch (error) {
      deps.log.error({ run_id: work.run.lease.run_id, error }, "a run failed for a reason nobody foresaw");
      work.result.thrown = error;
      return { status: "failed", error: internalError() };
    }
  }

  async function loop(work: Work): Promise<RunFinish | null> {
    const started_ms = monotonicMs();
    for (;;) {
      const { config, steps } = work;
      const action = nextAction({ limits: config.limits, steps, elapsed_ms: monotonicMs() - started_ms });
      if (action.do === "succeed") return { status: "succeeded", output: action.output };
      if (action.do === "fail") return { status: "failed", error: action.error };
      const stop = stopReason(work) ?? (await carryOut(work, action));
      if (stop !== null) return stopped(stop, work);
    }
  }

  function carryOut(work: Work, action: Exclude<NextAction, { do: "succeed" | "fail" }>): Promise<StopReason | null> {
    switch (action.do) {
      case "call_model":
        return modelStep(work);
      case "call_tool":
        return toolStep(work, action.call);
      case "refuse_tool":
        return refusedStep(work, action);
    }
  }

  async function modelStep(work: Work): Promise<StopReason | null> {
    const { run, config, input, steps } = work;
    const { lease, agent_id } = run;
    const index = nextIndex(steps);
    const hold_id = newId();
    const model = config.auto_route ? "auto" : (config.model_id ?? "");
    const name = (config.auto_route ? work.model_id : models.find(model)?.id) ?? model;
    const state = await scheduling.startStep(lease, { index, type: "model", name, arguments: null, internal: { hold_id } });
    if (state !== "running") return state;
    const base = { type: "model" as const, name, arguments: null, safety: null, internal: null };
    const max_cost_tokens = await budgetLeft(ledger, {
      user_id: lease.user_id,
      agent_id,
      limits: config.limits,
      spent_tokens: work.spent_tokens,
      now: clock.now(),
    });
    const definitions = tools.definitions(config.tools_config);
    try {
      const outcome = await callModel(
        completions,
        {
          request: { model, messages: transcript(config, input, steps), ...(definitions.length > 0 ? { tools: definitions } : {}) },
          caller: { user_id: lease.user_id, api_key_id: input.api_key_id, key_budget_tokens: input.key_budget_tokens },
          agent_id,
          run_id: lease.run_id,
          hold_id,
          request_id: input.request_id ?? lease.run_id,
          signal: work.signal,
          sticky_model_id: work.model_id,
          max_cost_tokens,
          record: ({ message, usage }) => {
            const status = work.signal.aborted ? "cancelled" : "succeeded";
            return scheduling.finishStepRider(lease, { index, status, result: message, usage: stepUsage(usage) });
          },
        },
        work.control.onText,
      );
      if (work.signal.aborted) return work.signal.reason as StopReason;
      if (outcome === null || outcome.settlement === "superseded") return "lost";
      await noteAnswer(work, outcome);
      steps[index] = { ...base, status: "succeeded", result: outcome.message, error: null };
    } catch (thrown) {
      if (work.signal.aborted) return work.signal.reason as StopReason;
      const error = modelCallError(thrown);
      work.result.thrown = thrown;
      if (!(await scheduling.finishStep(lease, { index, status: "failed", error }))) return "lost";
      steps[index] = { ...base, status: "failed", result: null, error };
    }
    return null;
  }

  /** Keeps count of what an answer cost and names the model, once it is known, on the run. */
  async function noteAnswer(work: Work, { model_id, usage, routing, finish_reason }: NonNullable<Awaited<ReturnType<typeof callModel>>>) {
    work.spent_tokens += usage.cost_tokens;
    work.result.usages.push(usage);
    work.result.finish_reason = finish_reason;
    if (work.model_id === model_id) return;
    work.model_id = model_id;
    await scheduling.setModel(work.run.lease, { model_id, routing: routing === undefined ? null : { ...routing } });
  }

  async function toolStep(work: Work, call: Extract<NextAction, { do: "call_tool" }>["call"]): Promise<StopReason | null> {
    const { run, config, input, steps } = work;
    const step = { index: nextIndex(steps), type: "tool" as const, name: call.function.name, arguments: argumentsOf(call) };
    const state = await scheduling.startStep(run.lease, step);
    if (state !== "running") return state;
    try {
      const { status, result, error = null, safety, links } = await tools.call({
        name: step.name,
        arguments_json: call.function.arguments,
        tools_config: config.tools_config,
        taint: taintOf(config, input, steps),
        mark: work.mark,
        earlier_calls: earlierCalls(steps, step.name),
        signal: work.signal,
      });
      const finish = { status, result, error, safety, internal: { links } };
      if (!(await scheduling.finishStep(run.lease, { index: step.index, ...finish }))) return "lost";
      steps[step.index] = { ...step, ...finish };
      return null;
    } catch (thrown) {
      if (work.signal.aborted) return work.signal.reason as StopReason;
      throw thrown;
    }
  }

  async function refusedStep({ run, steps }: Work, { call, error }: Extract<NextAction, { do: "refuse_tool" }>): Promise<StopReason | null> {
    const step = { index: nextIndex(steps), type: "tool" as const, name: call.function.name, arguments: argumentsOf(call) };
    const state = await scheduling.startStep(run.lease, step);
    if (state !== "running") return state;
    if (!(await scheduling.finishStep(run.lease, { index: step.index, status: "failed", error }))) return "lost";
    steps[step.index] = { ...step, status: "failed", result: null, error, safety: null, internal: null };
    return null;
  }

  return { execute };
}

export type Engine = ReturnType<typeof createEngine>;

function stopReason({ signal, control }: Work): StopReason | null {
  if (signal.aborted) return signal.reason as StopReason;
  return control.isDraining() ? "stopping" : null;
}

/** How a run that was stopped ends; null when it is left to others. Nobody else could answer a chat's caller. */
function stopped(reason: StopReason, { run, config }: Work): RunFinish | null {
  if (reason === "cancelling" || (reason === "stopping" && run.trigger === "chat")) return { status: "cancelled" };
  if (reason !== "timeout") return null;
  const error: RunError = { code: "timeout", message: `The run took longer than max_run_seconds (${config.limits.max_run_seconds}).` };
  return { status: "failed", error };
}

/** An interrupted step is taken up again under its own number. */
function nextIndex(steps: readonly RunStep[]): number {
  const open = steps.findIndex((step) => step.status === "running");
  return open === -1 ? steps.length : open;
}

function stepUsage({ input_tokens, output_tokens, cost_tokens }: Usage) {
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, cost_tokens };
}
