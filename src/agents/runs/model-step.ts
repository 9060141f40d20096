import { setTimeout as delay } from "node:timers/promises";
import { HoldSupersededError, type TransactionHook } from "../../account/ledger/ledger.types.ts";
import type { ChatMessage, ChatRequest, FunctionTool, Usage } from "../../api/contract/completions.ts";
import { payerOf } from "../../api/contract/key-terms.ts";
import type { RunError } from "../../api/contract/runs.ts";
import type { CompletionCall } from "../../gateway/completions/completions.types.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { type BudgetCaps, monthlyBudget } from "./budget-need.ts";
import { askForTokens, capsOf } from "./budget-step.ts";
import {
  agentModelError,
  callModel,
  describeBrokenAnswer,
  describeIncompleteAnswer,
  type ModelAnswer,
  type ModelCall,
  type ModelOutcome,
  modelCallError,
  modelGoneError,
  readRetryDelay,
} from "./model-call.ts";
import { decideNext } from "./next-action.ts";
import {
  type EngineDeps,
  getNextIndex,
  getStopReason,
  newModelCallStart,
  type StepResult,
  type StopReason,
  type Work,
} from "./run-work.ts";
import type { FinalOutput, LeaseState } from "./runs.types.ts";
import {
  buildTranscript,
  collectToolNames,
  isAnswer,
  isInThread,
  type ModelResult,
  type PastStep,
  type RunConfig,
  type RunStep,
  selectClientTools,
} from "./transcript.ts";

/**
 * Pause before a run retries a model call because its tokens are held by calls in flight or the database is
 * unavailable.
 */
const HELD_RETRY_MS = 1_000;
/** During the pause the run checks this often whether the process is shutting down. */
const LOOK_MS = 1_000;

/** A model step without its outcome. */
type PastCall = Omit<RunStep, "status"> & { index: number };

/**
 * One try of a model call. The answer, complete or partial, is recorded in the transaction of its charge. Resolves to
 * the reason why the worker must leave the run, or to null: the run continues.
 */
export function createModelStep(deps: EngineDeps) {
  const { runs, completions, tools, ledger, models, clock } = deps;

  return async function executeModelCall(work: Work, after_ms: number): Promise<StepResult> {
    if (after_ms > 0) {
      const stop = await pause(work, after_ms);
      if (stop !== null) return stop;
    }
    const index = getNextIndex(work.steps);
    await releaseInterrupted(work, index);
    const written = takeBegun(work);
    const begun = written ?? newModelCallStart({ index, name: findModelName(work), hold_id: newId() });
    const past = { ...begun, result: null, error: null, safety: null, internal: null };
    if (work.budget_error !== null) {
      const state = await runs.startStep(work.run.lease, begun);
      return state === "running" ? recordFailure(work, past, { error: work.budget_error, retry_in_ms: null }) : state;
    }
    let is_written = written !== null;
    const onWritten = () => {
      is_written = true;
      deps.onStepStarted(work.run.lease.run_id);
    };
    try {
      const hookOf = (name: string) => runs.startStepHook(work.run.lease, { ...begun, name });
      const intent = is_written ? null : { hookOf, onWritten };
      const call = await buildCall(work, past, { hold_id: begun.internal.hold_id, intent });
      const outcome = await callModel(completions, call, {
        in_one_piece: isWithoutStream(work),
        onText: work.control.onText,
      });
      if (outcome === null) return getStopReason(work) ?? "lost";
      if (outcome.settlement === "superseded") return "lost";
      noteAnswer(work, outcome);
      work.result.thrown = outcome.thrown;
      work.steps[index] = { ...past, ...judgeAnswer(work, outcome), result: buildResult(outcome) };
      return outcome.complete ? null : getStopReason(work);
    } catch (error) {
      if (error instanceof HoldSupersededError) return error.answer.state as LeaseState & StopReason;
      const thrown = agentModelError(error, work.config);
      const stop = getStopReason(work);
      if (stop !== null) return stop;
      // A call that fails before its hold is also a step.
      const state = is_written ? "running" : await runs.startStep(work.run.lease, begun);
      if (state !== "running") return state;
      if (canWait(work, thrown)) return pause(work, HELD_RETRY_MS);
      const question = await askForTokens(work, thrown, { clock, ledger });
      if (question === "try_again") return null;
      if (question !== null) return question;
      work.result.thrown = thrown;
      return recordFailure(work, past, { error: modelCallError(thrown), retry_in_ms: readRetryDelay(thrown) });
    }
  };

  /** Records a call that failed before its hold, or whose hold was released. */
  async function recordFailure(
    work: Work,
    past: PastCall,
    { error, retry_in_ms }: { error: RunError; retry_in_ms: number | null },
  ): Promise<StopReason | null> {
    const failed = { status: "failed" as const, error, internal: { retry_in_ms } };
    if (!(await runs.finishStep(work.run.lease, { index: past.index, ...failed }))) return "lost";
    work.steps[past.index] = { ...past, ...failed };
    return null;
  }

  /** Releases the hold that a lost worker made for the step. Otherwise its tokens stay unavailable until it expires. */
  async function releaseInterrupted({ run, steps }: Work, index: number): Promise<void> {
    const { hold_id } = (steps[index]?.internal ?? {}) as { hold_id?: string };
    if (hold_id !== undefined) await ledger.release({ user_id: run.lease.user_id, hold_id });
  }

  /** The step's name before the model has answered. */
  function findModelName({ config, model_id }: Work): string {
    if (config.auto_route) return model_id ?? "auto";
    return models.find(config.model_id ?? "")?.id ?? config.model_id ?? "";
  }

  /** True when the model cannot stream. Other calls are streamed, because only a stopped stream has a known cost. */
  function isWithoutStream({ config }: Work): boolean {
    return !config.auto_route && models.find(config.model_id ?? "")?.supports.streaming === false;
  }

  async function buildCall(work: Work, past: PastCall, hold: { hold_id: string; intent: ModelCall["intent"] | null }) {
    const { hold_id, intent } = hold;
    const { run, config, prompts, input, steps, signal, model_id, spent_tokens } = work;
    const { user_id, run_id } = run.lease;
    const run_ref = { user_id, agent_id: run.agent_id, run_id };
    const definitions = await tools.definitions(config.tools_config, run_ref, signal);
    work.offered = collectToolNames(definitions);
    const model = config.auto_route ? "auto" : (config.model_id ?? "");
    const known = models.find((config.auto_route ? model_id : config.model_id) ?? "");
    if (!config.auto_route && known === null) throw modelGoneError(model);
    const messages = buildTranscript(prompts, input, steps, { vision: known?.supports.vision === true });
    const { response_format } = work.output_rule ?? {};
    const typed = response_format === undefined ? {} : { response_format };
    const request: ChatRequest = { model, messages, ...selectSettings(config.model_settings), ...typed };
    const with_tools = { ...request, ...mergeTools(work, definitions) };
    return {
      request: markCacheable(with_tools, { agent_id: run.agent_id, is_in_thread: isInThread(input) }),
      caller: payerOf({ ...input, user_id }),
      agent_id: run.agent_id,
      run_id,
      hold_id,
      ...(intent == null ? {} : { intent }),
      ...(work.output_rule === null ? {} : { findJsonFault: work.output_rule.findFault }),
      request_id: input.request_id ?? run_id,
      signal,
      // Another worker repeats the call and pays for it then.
      isHandedBack: () => signal.aborted && ["stopping", "lost"].includes(signal.reason as string),
      sticky_model_id: model_id,
      ...computeBudget(capsOf(work), { spent_tokens, now: clock.now() }),
      record: (answer: ModelAnswer): TransactionHook => {
        const { usage } = answer;
        const outcome = { ...judgeAnswer(work, answer), result: buildResult(answer) };
        const chosen = findNewChoice(work, answer);
        return runs.finishStepHook(run.lease, {
          index: past.index,
          ...outcome,
          usage: toStepUsage(usage),
          ...(chosen === null ? {} : { chosen }),
          final: findFinalOutput(work, [...steps.slice(0, past.index), { ...past, ...outcome }]),
        });
      },
    };
  }
}

/** The agent's settings as fields of a request. */
function selectSettings({ max_output_tokens, ...settings }: RunConfig["model_settings"]): Partial<ChatRequest> {
  const given = { ...settings, max_tokens: max_output_tokens };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

/** The agent's tools and the caller's. Throws 400 for a tool of the caller that has the name of the agent's own. */
function mergeTools({ config, input, steps }: Work, own: readonly FunctionTool[]): Partial<ChatRequest> {
  const given = selectClientTools(config, input);
  const names = collectToolNames(own);
  for (const [index, tool] of given.entries()) {
    const { name } = tool.function;
    if (!names.has(name)) continue;
    throw errors.invalidValue(
      `tools[${index}].function.name`,
      `The agent has its own tool ${name}, which goes before yours. Rename your tool, or leave it out.`,
    );
  }
  if (own.length + given.length === 0) return {};
  const is_first = !steps.some(isAnswer);
  const choice = is_first && given.length > 0 ? input.tool_choice : undefined;
  return { tools: [...own, ...given], ...(choice === undefined ? {} : { tool_choice: choice }) };
}

/** Takes the intent that was written with the run. A second call returns null. */
function takeBegun({ run }: Work): ReturnType<typeof newModelCallStart> | null {
  const begun = run.begun_step as ReturnType<typeof newModelCallStart> | null;
  run.begun_step = null;
  return begun;
}

/** Adds the cost of an answer to the run, and notes the model once it is known. */
function noteAnswer(work: Work, outcome: ModelOutcome): void {
  const { usage, finish_reason, hook } = outcome;
  work.spent_tokens += usage.cost_tokens;
  work.result.usages.push(usage);
  work.result.finish_reason = finish_reason;
  work.result.end = hook?.ended === true ? hook : null;
  const chosen = findNewChoice(work, outcome);
  if (chosen !== null) {
    work.model_id = chosen.model_id;
    work.run.routing = chosen.routing;
  }
}

/**
 * The model to record on the run; null: it is already recorded. The routing decision is recorded even if the model was
 * known before.
 */
function findNewChoice(
  { model_id: known, run }: Work,
  { model_id, routing }: Pick<ModelAnswer, "model_id" | "routing">,
) {
  if (known === model_id && (routing === undefined || run.routing !== null)) return null;
  return { model_id, routing: routing === undefined ? null : { ...routing } };
}

/** The run's output if the last of `steps` ends the run successfully. Null: the run continues or fails. */
function findFinalOutput({ config, input, output_rule }: Work, steps: PastStep[]): FinalOutput | null {
  const client_tools = collectToolNames(selectClientTools(config, input));
  const next = decideNext({ limits: config.limits, steps, elapsed_ms: 0, client_tools, output_rule });
  // The end of a run with errors is told to its owner, so it is no part of the charge.
  if (steps.some((step) => step.status === "failed" && (step.type === "tool" || isAnswer(step)))) return null;
  return next.do === "succeed" ? { output: next.output, output_json: next.output_json } : null;
}

/**
 * The outcome of a step. An answer that was withheld, cut off or empty makes its step a failed one, and is still the
 * run's answer. A cancelled or broken-off answer is charged for the text received. A broken-off answer is retried, unless
 * a chat's caller has received its beginning.
 */
function judgeAnswer(
  { run, signal }: Work,
  { complete, message, finish_reason, thrown }: Pick<ModelAnswer, "complete" | "message" | "finish_reason" | "thrown">,
) {
  if (complete) {
    const error = describeIncompleteAnswer(message, finish_reason);
    return { status: error === null ? ("succeeded" as const) : ("failed" as const), error };
  }
  if (signal.aborted) return { status: "cancelled" as const, error: null };
  const was_heard = run.has_caller && typeof message.content === "string";
  return { status: "failed" as const, ...describeBrokenAnswer(thrown, { was_heard }) };
}

const DROPPED_REASONING =
  "Reasoning of earlier steps was not sent: another model made it, or this model by another route, and only that one can read it.";

/** The part of an answer that the step stores: the message and its model, and the finish reason of a complete answer. */
function buildResult({
  complete,
  message,
  finish_reason,
  model_id,
  route,
  reasoning_dropped,
}: Pick<
  ModelAnswer,
  "complete" | "message" | "finish_reason" | "model_id" | "route" | "reasoning_dropped"
>): ModelResult {
  const result = {
    ...message,
    model: model_id,
    ...(route === undefined ? {} : { route }),
    ...(reasoning_dropped === true ? { note: DROPPED_REASONING } : {}),
  };
  return complete ? { ...result, finish_reason } : result;
}

/**
 * Whether the step is retried later: calls in flight hold the remaining tokens, the minute's tokens are used up, or the
 * database is unavailable and nothing can be held. The caller of a chat decides on retries.
 */
function canWait({ run }: Work, thrown: unknown): boolean {
  if (run.has_caller || !(thrown instanceof PurserError)) return false;
  return ["in_flight_exhausted", "overloaded", "rate_limited"].includes(thrown.code);
}

/** Waits before a retry. Returns early when the worker must leave the run or the process is shutting down. */
async function pause(work: Work, ms: number): Promise<StopReason | null> {
  const until_ms = monotonicMs() + ms;
  for (let left_ms = ms; left_ms > 0; left_ms = until_ms - monotonicMs()) {
    await delay(Math.min(left_ms, LOOK_MS), undefined, { signal: work.signal }).catch(() => {});
    const stop = getStopReason(work) ?? (work.control.isDraining() ? "stopping" : null);
    if (stop !== null) return stop;
  }
  return null;
}

function toStepUsage({ input_tokens, output_tokens, cost_tokens }: Usage) {
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, cost_tokens };
}

/**
 * The caps of the next model call, in billed tokens. The remainder of the run is known here, because its calls are
 * sequential. The ledger computes the remainder of the calendar month (UTC) at the hold, because other runs of the
 * agent spend from it at the same time.
 */
export function computeBudget(
  { max_cost_tokens_per_run: per_run, max_cost_tokens_per_month: per_month }: BudgetCaps,
  { spent_tokens, now }: { spent_tokens: number; now: Instant },
): Pick<CompletionCall, "max_cost_tokens" | "agent_budget"> {
  return {
    max_cost_tokens: per_run === null ? null : Math.max(0, per_run - spent_tokens),
    agent_budget: monthlyBudget(per_month, now),
  };
}

const EPHEMERAL = { type: "ephemeral" as const };

/**
 * A run's request with hints for the provider's prompt cache, where another call with the same beginning is likely: the
 * model may call tools, or the thread has a next turn. Without one, writing the cache would only cost more. Pure.
 *
 * Claude reads its cache at the marks: the tools, the system prompt, the end of the call before and the end of this
 * call. OpenAI finds a prefix by itself; the key sends the calls of an agent to the same cache. Others ignore the hints.
 */
export function markCacheable(
  request: ChatRequest,
  { agent_id, is_in_thread }: { agent_id: string; is_in_thread: boolean },
): ChatRequest {
  const { tools = [], messages } = request;
  if (tools.length === 0 && !is_in_thread) return request;
  const last_answer = messages.findLastIndex(({ role }) => role === "assistant");
  const marked = new Set([messages.findLastIndex(isSystem), last_answer - 1, messages.length - 1]);
  return {
    ...request,
    prompt_cache_key: agent_id,
    messages: messages.map((message, at) => (marked.has(at) ? { ...message, cache_control: EPHEMERAL } : message)),
    ...(tools.length === 0
      ? {}
      : { tools: tools.map((tool, at) => (at === tools.length - 1 ? { ...tool, cache_control: EPHEMERAL } : tool)) }),
  };
}

function isSystem({ role }: ChatMessage): boolean {
  return role === "system";
}
