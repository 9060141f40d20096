import { setTimeout as delay } from "node:timers/promises";
import type { Usage } from "../contract/completions.ts";
import { PurserError } from "../errors.ts";
import type { Rider } from "../ledger/ledger.types.ts";
import { monotonicMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import { budgetOf } from "./budget.ts";
import { callModel, type ModelAnswer, type ModelOutcome } from "./model-call.ts";
import { brokenAnswer, modelCallError, retryDelay } from "./run-error.ts";
import { type EngineDeps, nextIndex, type StopReason, stopReason, type Work } from "./run-work.ts";
import { transcript } from "./transcript.ts";

/** How long a run waits before it asks again for tokens that calls in flight hold. */
const HELD_RETRY_MS = 1_000;
/** While it waits, it looks this often whether the process is to end. */
const LOOK_MS = 1_000;

/**
 * One try of a model call: its answer, or what there is of it, is recorded in the transaction of its charge. Resolves to
 * why the run is to be left, or null: it goes on.
 */
export function createModelStep(deps: EngineDeps) {
  const { scheduling, completions, tools, ledger, models, clock } = deps;

  return async function modelStep(work: Work, after_ms: number): Promise<StopReason | null> {
    if (after_ms > 0) {
      const stop = await pause(work, after_ms);
      if (stop !== null) return stop;
    }
    const index = nextIndex(work.steps);
    const hold_id = newId();
    const step = { index, type: "model" as const, name: modelName(work), arguments: null };
    await releaseInterrupted(work, index);
    const state = await scheduling.startStep(work.run.lease, { ...step, internal: { hold_id } });
    if (state !== "running") return state;
    const past = { ...step, result: null, error: null, safety: null, internal: null };
    try {
      const outcome = await callModel(completions, await callOf(work, { index, hold_id }), {
        in_one_piece: isWithoutStream(work),
        onText: work.control.onText,
      });
      if (outcome === null) return stopReason(work) ?? "lost";
      if (outcome.settlement === "superseded") return "lost";
      await noteAnswer(work, outcome);
      work.result.thrown = outcome.thrown;
      work.steps[index] = { ...past, ...outcomeOf(work, outcome), result: outcome.message };
      return outcome.complete ? null : stopReason(work);
    } catch (thrown) {
      const stop = stopReason(work);
      if (stop !== null) return stop;
      if (mayWait(work, thrown)) return pause(work, HELD_RETRY_MS);
      const failed = {
        status: "failed" as const,
        error: modelCallError(thrown),
        internal: { retry_in_ms: retryDelay(thrown) },
      };
      work.result.thrown = thrown;
      if (!(await scheduling.finishStep(work.run.lease, { index, ...failed }))) return "lost";
      work.steps[index] = { ...past, ...failed };
      return null;
    }
  };

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

  /** Where the model can stream, the call is one: only of a stream is it known what it has come to when it is stopped. */
  function isWithoutStream({ config }: Work): boolean {
    return !config.auto_route && models.find(config.model_id ?? "")?.supports.streaming === false;
  }

  async function callOf(work: Work, { index, hold_id }: { index: number; hold_id: string }) {
    const { run, config, input, steps, signal, model_id, spent_tokens } = work;
    const { user_id, run_id } = run.lease;
    const { api_key_id, key_budget_tokens } = input;
    const definitions = await tools.definitions(config.tools_config, { user_id, agent_id: run.agent_id, run_id });
    const model = config.auto_route ? "auto" : (config.model_id ?? "");
    const request = { model, messages: transcript(config, input, steps) };
    return {
      request: definitions.length === 0 ? request : { ...request, tools: definitions },
      caller: { user_id, api_key_id, key_budget_tokens },
      agent_id: run.agent_id,
      run_id,
      hold_id,
      request_id: input.request_id ?? run_id,
      signal,
      sticky_model_id: model_id,
      ...budgetOf(config.limits, { spent_tokens, now: clock.now() }),
      record: (answer: ModelAnswer): Rider => {
        const { message: result, usage } = answer;
        const finish = { index, ...outcomeOf(work, answer), result, usage: stepUsage(usage) };
        return scheduling.finishStepRider(run.lease, finish);
      },
    };
  }

  /** Keeps count of what an answer cost and names the model, once it is known, on the run. */
  async function noteAnswer(work: Work, { model_id, usage, routing, finish_reason }: ModelOutcome) {
    work.spent_tokens += usage.cost_tokens;
    work.result.usages.push(usage);
    work.result.finish_reason = finish_reason;
    // A thread's model may be known before the run; how it was chosen is told all the same.
    if (work.model_id === model_id && (routing === undefined || work.run.routing !== null)) return;
    work.model_id = model_id;
    work.run.routing = routing === undefined ? null : { ...routing };
    await scheduling.setModel(work.run.lease, { model_id, routing: work.run.routing });
  }
}

/**
 * What an answer makes of its step. One that was stopped on the way is charged for what there is of it; one that the
 * provider broke off is, too, and asked for again, unless a chat's caller has heard its beginning.
 */
function outcomeOf({ run, signal }: Work, { complete, message }: Pick<ModelAnswer, "complete" | "message">) {
  if (complete) return { status: "succeeded" as const, error: null };
  if (signal.aborted) return { status: "cancelled" as const, error: null };
  const was_heard = run.trigger === "chat" && typeof message.content === "string";
  return { status: "failed" as const, ...brokenAnswer(was_heard) };
}

/** Whether the step is tried again later: what is left is held by calls in flight. The caller of a chat decides that himself. */
function mayWait({ run }: Work, thrown: unknown): boolean {
  return run.trigger !== "chat" && thrown instanceof PurserError && thrown.code === "in_flight_exhausted";
}

/** Waits, unless the run is to be left: a process that is to end does not wait for a provider. */
async function pause(work: Work, ms: number): Promise<StopReason | null> {
  const until_ms = monotonicMs() + ms;
  for (let left_ms = ms; left_ms > 0; left_ms = until_ms - monotonicMs()) {
    await delay(Math.min(left_ms, LOOK_MS), undefined, { signal: work.signal }).catch(() => {});
    const stop = stopReason(work) ?? (work.control.isDraining() ? "stopping" : null);
    if (stop !== null) return stop;
  }
  return null;
}

function stepUsage({ input_tokens, output_tokens, cost_tokens }: Usage) {
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, cost_tokens };
}
