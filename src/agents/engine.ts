import { setTimeout as delay } from "node:timers/promises";
import type { Completions } from "../completions/completions.types.ts";
import type { FinishReason, Usage } from "../contract/completions.ts";
import type { RunError } from "../contract/runs.ts";
import { PurserError } from "../errors.ts";
import type { Ledger, Rider } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import { type Clock, monotonicMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";
import type { ClaimedRun, RunFinish } from "../scheduling/scheduling.types.ts";
import type { Tools } from "../tools/tools.service.ts";
import type { AgentConfig } from "./agent-config.ts";
import { budgetLeft } from "./budget.ts";
import { callModel, type ModelAnswer, type ModelOutcome } from "./model-call.ts";
import { argumentsOf, type NextAction, nextAction } from "./next-action.ts";
import { internalError, modelCallError } from "./run-error.ts";
import { earlierCalls, taintOf } from "./taint.ts";
import { type RunInput, type RunStep, transcript } from "./transcript.ts";

/** Why a run is left before its end: its cancellation was asked for, its time is up, its lease is another's, or this process ends. */
export type StopReason = "cancelling" | "timeout" | "lost" | "stopping";

/** What a run has come to; writing it down is the caller's. */
export interface RunResult {
  finish: RunFinish;
  /** What the failing model call threw, for whoever waits. */
  thrown: unknown;
  /** Of the model calls made here, in order. */
  usages: Usage[];
  finish_reason: FinishReason;
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
  ledger: Pick<Ledger, "usage" | "release">;
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

/** How long a run waits before it asks again for tokens that calls in flight hold. */
const HELD_RETRY_MS = 1_000;

/** Carries out claimed runs, one step at a time; every finished step is durable before the next begins. */
export function createEngine(deps: EngineDeps) {
  const { scheduling, completions, tools, ledger, clock, models } = deps;

  /**
   * Carries `run` out from its last finished step. `config` is the version that the run pinned. Null: the run is left
   * unfinished, to another worker.
   */
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
      return finish === null ? null : { ...work.result, finish };
    } finally {
      clearTimeout(timeout);
    }
  }

  async function outcomeOf(work: Work): Promise<RunFinish | null> {
    try {
      return await loop(work);
    } catch (error) {
      const { message, stack } = error as Error;
      deps.log.error(
        { run_id: work.run.lease.run_id, error: message, stack },
        "a run failed for a reason nobody foresaw",
      );
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
    const { lease } = work.run;
    const step = { index: nextIndex(work.steps), type: "model" as const, name: modelName(work), arguments: null };
    const hold_id = newId();
    await releaseInterrupted(work, step.index);
    const state = await scheduling.startStep(lease, { ...step, internal: { hold_id } });
    if (state !== "running") return state;
    const past = { ...step, safety: null, internal: null };
    try {
      const call = {
        ...callOf(work),
        hold_id,
        max_cost_tokens: await budgetOf(work),
        record: recorder(work, step.index),
      };
      const outcome = await callModel(completions, call, work.control.onText);
      if (work.signal.aborted) return work.signal.reason as StopReason;
      if (outcome === null || outcome.settlement === "superseded") return "lost";
      await noteAnswer(work, outcome);
      work.steps[step.index] = { ...past, status: "succeeded", result: outcome.message, error: null };
    } catch (thrown) {
      if (work.signal.aborted) return work.signal.reason as StopReason;
      if (mayWait(work, thrown)) return tokensFree(work);
      const error = modelCallError(thrown);
      work.result.thrown = thrown;
      if (!(await scheduling.finishStep(lease, { index: step.index, status: "failed", error }))) return "lost";
      work.steps[step.index] = { ...past, status: "failed", result: null, error };
    }
    return null;
  }

  /** Lets go what a lost worker held for the step, which would else be missing here until the hold expires. */
  async function releaseInterrupted({ run, steps }: Work, index: number): Promise<void> {
    const { hold_id } = (steps[index]?.internal ?? {}) as { hold_id?: string };
    if (hold_id !== undefined) await ledger.release({ user_id: run.lease.user_id, hold_id });
  }

  /** The step's name before its model has answered. */
  function modelName({ config, model_id }: Work): string {
    if (config.auto_route) return model_id ?? "auto";
    return models.find(config.model_id ?? "")?.id ?? config.model_id ?? "";
  }

  function callOf({ run, config, input, steps, signal, model_id }: Work) {
    const { user_id, run_id } = run.lease;
    const { api_key_id, key_budget_tokens } = input;
    const definitions = tools.definitions(config.tools_config);
    const model = config.auto_route ? "auto" : (config.model_id ?? "");
    const request = { model, messages: transcript(config, input, steps) };
    return {
      request: definitions.length === 0 ? request : { ...request, tools: definitions },
      caller: { user_id, api_key_id, key_budget_tokens },
      agent_id: run.agent_id,
      run_id,
      request_id: input.request_id ?? run_id,
      signal,
      sticky_model_id: model_id,
    };
  }

  function budgetOf({ run, config, spent_tokens }: Work): Promise<number | null> {
    const { user_id } = run.lease;
    return budgetLeft(ledger, {
      user_id,
      agent_id: run.agent_id,
      limits: config.limits,
      spent_tokens,
      now: clock.now(),
    });
  }

  /** Records a model step in the transaction of its charge; what an aborted call had generated is charged all the same. */
  function recorder({ run, signal }: Work, index: number) {
    return ({ message, usage }: ModelAnswer): Rider => {
      const status = signal.aborted ? "cancelled" : "succeeded";
      return scheduling.finishStepRider(run.lease, { index, status, result: message, usage: stepUsage(usage) });
    };
  }

  /** Keeps count of what an answer cost and names the model, once it is known, on the run. */
  async function noteAnswer(work: Work, { model_id, usage, routing, finish_reason }: ModelOutcome) {
    work.spent_tokens += usage.cost_tokens;
    work.result.usages.push(usage);
    work.result.finish_reason = finish_reason;
    if (work.model_id === model_id) return;
    work.model_id = model_id;
    await scheduling.setModel(work.run.lease, { model_id, routing: routing === undefined ? null : { ...routing } });
  }

  async function toolStep(
    work: Work,
    call: Extract<NextAction, { do: "call_tool" }>["call"],
  ): Promise<StopReason | null> {
    const { run, config, input, steps } = work;
    const step = {
      index: nextIndex(steps),
      type: "tool" as const,
      name: call.function.name,
      arguments: argumentsOf(call),
    };
    const state = await scheduling.startStep(run.lease, step);
    if (state !== "running") return state;
    try {
      const {
        status,
        result,
        error = null,
        safety,
        links,
      } = await tools.call({
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

  async function refusedStep(
    { run, steps }: Work,
    { call, error }: Extract<NextAction, { do: "refuse_tool" }>,
  ): Promise<StopReason | null> {
    const step = {
      index: nextIndex(steps),
      type: "tool" as const,
      name: call.function.name,
      arguments: argumentsOf(call),
    };
    const state = await scheduling.startStep(run.lease, step);
    if (state !== "running") return state;
    if (!(await scheduling.finishStep(run.lease, { index: step.index, status: "failed", error }))) return "lost";
    steps[step.index] = { ...step, status: "failed", result: null, error, safety: null, internal: null };
    return null;
  }

  return { execute };
}

/** Whether the step is tried again later: what is left is held by calls in flight. The caller of a chat decides that himself. */
function mayWait({ run }: Work, thrown: unknown): boolean {
  return run.trigger !== "chat" && thrown instanceof PurserError && thrown.code === "in_flight_exhausted";
}

async function tokensFree({ signal }: Work): Promise<StopReason | null> {
  await delay(HELD_RETRY_MS, undefined, { signal }).catch(() => {});
  return signal.aborted ? (signal.reason as StopReason) : null;
}

function stopReason({ signal, control }: Work): StopReason | null {
  if (signal.aborted) return signal.reason as StopReason;
  return control.isDraining() ? "stopping" : null;
}

/** How a run that was stopped ends; null when it is left to others. Nobody else could answer a chat's caller. */
function stopped(reason: StopReason, { run, config }: Work): RunFinish | null {
  if (reason === "cancelling" || (reason === "stopping" && run.trigger === "chat")) return { status: "cancelled" };
  if (reason !== "timeout") return null;
  const error: RunError = {
    code: "timeout",
    message: `The run took longer than max_run_seconds (${config.limits.max_run_seconds}).`,
  };
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
