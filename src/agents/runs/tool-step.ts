import { toolErrors } from "../../agents/tools/errors.ts";
import type { ChatMessage } from "../../api/contract/completions.ts";
import { payerOf } from "../../api/contract/key-terms.ts";
import type { RunData, RunError } from "../../api/contract/runs.ts";
import { newId } from "../../platform/lib/ids.ts";
import { traced } from "../../platform/telemetry/tracing.ts";
import type { AskModel } from "../../safety/judge-kinds.ts";
import type { Taint } from "../tools/destinations.ts";
import { countedAs, effectOf, toTool, usesServers } from "../tools/registry.ts";
import type { Effect } from "../tools/tool.ts";
import type { Picture, ToolResult } from "../tools/tools.types.ts";
import { capsOf } from "./budget-step.ts";
import { computeBudget } from "./model-step.ts";
import {
  APPROVAL_EXPIRED,
  CALL_REJECTED,
  type NextAction,
  parseArguments,
  REPEATED_CALL,
  type RequestedCall,
} from "./next-action.ts";
import { textsIn } from "./prompts.ts";
import { type EngineDeps, getNextIndex, getStopReason, type StopReason, type Work } from "./run-work.ts";
import { type EngineInput, type RunConfig, type RunStep, selectSetUpSteps } from "./transcript.ts";

/**
 * Characters of links and pictures that one run keeps. Its worker has them in memory, and a call may return 2 MB of
 * pictures or 5 MB of links. Links beyond it cannot be followed.
 */
const MAX_KEPT_CHARACTERS = 16_777_216;

type Call = RequestedCall["call"];

/**
 * One tool call of a run. Both functions resolve to the reason why the worker must leave the run, or to null: the run
 * continues.
 */
export function createToolSteps(deps: Pick<EngineDeps, "runs" | "tools" | "completions" | "clock">) {
  const { runs, tools } = deps;

  /** Executes the call between its recorded intent and its recorded outcome. */
  async function executeToolCall(
    work: Work,
    { call, nth, approval }: Extract<NextAction, { do: "call_tool" }>,
  ): Promise<StopReason | null> {
    const { run, config, input, steps } = work;
    const step = newToolStep(work, { call, nth });
    const effect = effectOf(step, config.tools_config);
    const repeatable = effect !== "unknown";
    const if_cut_off = cutOffError(step.name, effect);
    const state = await runs.startStep(run.lease, { ...step, internal: { repeatable, if_cut_off } });
    if (state !== "running") return state;
    try {
      const asked = {
        name: step.name,
        arguments_json: call.function.arguments,
        tools_config: config.tools_config,
        taint: computeTaint(config, input, steps, run.input),
        mark: work.mark,
        earlier_calls: collectEarlierCalls(steps, step.name),
        run: { user_id: run.lease.user_id, agent_id: run.agent_id, run_id: run.lease.run_id },
        is_approved: approval !== null,
        effect_id: makeEffectId(run.lease.run_id, step.index),
        askModel: createAskModel(deps, work, step.index),
        signal: work.signal,
        until_ms: work.until_ms,
      };
      const answer = await traceCall(work, call, () => tools.call(asked));
      const { status, error = null, safety, fails_run } = answer;
      const { result: answered, internal: kept } = keepWithinLimit(answer, steps);
      const result = approval === "edited" ? `${describeEdit(step.arguments)}\n${answered}` : answered;
      const internal = fails_run === true ? { ...kept, fails_run } : kept;
      const finish = { status, result, error, safety, internal };
      if (!(await runs.finishStep(run.lease, { index: step.index, ...finish }))) return "lost";
      steps[step.index] = { ...step, ...finish };
      return null;
    } catch (thrown) {
      const stop = getStopReason(work);
      if (stop !== null) return stop;
      throw thrown;
    }
  }

  /** Records a rejected call, so that the model reads the reason. */
  async function recordRejectedCall(
    work: Work,
    { call, nth, error }: Extract<NextAction, { do: "reject_tool" }>,
  ): Promise<StopReason | null> {
    const { run, steps } = work;
    const step = newToolStep(work, { call, nth });
    // It calls nothing, so another worker may record it again.
    const state = await runs.startStep(run.lease, { ...step, internal: { repeatable: true } });
    if (state !== "running") return state;
    if (!(await runs.finishStep(run.lease, { index: step.index, status: "failed", error }))) return "lost";
    steps[step.index] = { ...step, status: "failed", result: null, error, safety: null, internal: null };
    return null;
  }

  return { executeToolCall, recordRejectedCall };
}

/**
 * Calls models as a part of a step. The calls are held and charged like the run's own, and their usage is the step's. A
 * call whose signal is aborted is charged later.
 */
function createAskModel(
  { runs, completions, clock }: Pick<EngineDeps, "runs" | "completions" | "clock">,
  work: Work,
  index: number,
): AskModel {
  const { run, input } = work;
  const { user_id, run_id } = run.lease;
  return async ({ model, system, user, max_tokens }, signal) => {
    const messages: ChatMessage[] = [
      { role: "system", content: system },
      { role: "user", content: user },
    ];
    const { response } = await completions.complete({
      request: { model, messages, max_tokens },
      caller: payerOf({ ...input, user_id }),
      agent_id: run.agent_id,
      run_id,
      hold_id: newId(),
      request_id: input.request_id ?? run_id,
      signal,
      isHandedBack: () => ["stopping", "lost"].includes(work.signal.reason as string),
      ...computeBudget(capsOf(work), { spent_tokens: work.spent_tokens, now: clock.now() }),
      hook: ({ usage }) => {
        work.spent_tokens += usage.cost_tokens;
        work.result.usages.push(usage);
        return runs.addUsageHook(run.lease, index, usage);
      },
    });
    return response.choices[0]?.message.content ?? "";
  };
}

/** The links and pictures of a step's result, for later steps. */
interface Kept {
  readonly links?: readonly string[];
  readonly pictures?: readonly Picture[];
}

/** The result of a call after `steps`, with the links and pictures that the run has room for. Pure. */
export function keepWithinLimit(
  { result, links, pictures = [] }: Pick<ToolResult, "result" | "links" | "pictures">,
  steps: readonly Pick<RunStep, "internal">[],
): { result: string; internal: Kept } {
  let left = steps.reduce((sum, { internal }) => sum - countCharacters((internal ?? {}) as Kept), MAX_KEPT_CHARACTERS);
  const fits = ({ length }: string) => {
    left -= length;
    return left >= 0;
  };
  const kept_links = links.filter(fits);
  const kept = pictures.filter(({ data }) => fits(data));
  const left_out = pictures.length - kept.length;
  return {
    result: left_out === 0 ? result : `${result}\n[images left out: ${left_out}, because this run has too many]`,
    internal: kept.length === 0 ? { links: kept_links } : { links: kept_links, pictures: kept },
  };
}

function countCharacters({ links = [], pictures = [] }: Kept): number {
  return [...links, ...pictures.map(({ data }) => data)].reduce((sum, { length }) => sum + length, 0);
}

/** The call in a trace, without its arguments and its result. A name that no tool has is the model's own text. */
function traceCall<Answer extends { error?: RunError | null }>(
  { offered }: Work,
  call: Call,
  execute: () => Promise<Answer>,
) {
  const { name } = call.function;
  const tool = offered.has(name) ? name : (toTool(name)?.contract.name ?? "unknown");
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": tool,
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": call.id,
  };
  return traced(
    () => ({ name: `execute_tool ${tool}`, kind: "internal", attributes }),
    async (span) => {
      const answer = await execute();
      if (answer.error != null) span.end(answer.error.code);
      return answer;
    },
  );
}

function newToolStep({ steps }: Work, { call, nth }: RequestedCall) {
  return {
    index: getNextIndex(steps),
    type: "tool" as const,
    name: call.function.name,
    arguments: parseArguments(call),
    call: nth,
  };
}

/**
 * The permanent id of a call's effect. It is derived from the intent's row, so a worker that repeats the step after a
 * crash gets the same id, and no two calls share one.
 */
function makeEffectId(run_id: string, index: number): string {
  return `msg_${run_id}_${index}`;
}

/** The step's error when its run ends during the call, also because the worker was lost. */
function cutOffError(name: string, effect: Effect): RunError | undefined {
  if (effect === "none") return undefined;
  return {
    code: "effect_unknown",
    message: `The run ended while ${name} was at work. The call may have been delivered: see at its destination.`,
  };
}

/** The text of a message, without its pictures. */
function readText(content: ChatMessage["content"]): string {
  return typeof content === "string" ? content : (content ?? []).flatMap(({ text }) => text ?? []).join("\n");
}

/** Tells the model that a person changed its call. */
function describeEdit(given: unknown): string {
  return `[The user changed the arguments of this call before it was made: ${JSON.stringify(given)}]`;
}

/** Roles whose text comes from the owner, not from a tool or a model. */
const OWN = new Set<ChatMessage["role"]>(["system", "user"]);

/** The outside content in the run, rebuilt from its steps, so that a resumed run has the same taint. */
export function computeTaint(
  config: RunConfig,
  input: EngineInput,
  steps: readonly RunStep[],
  data: RunData | null = null,
): Taint {
  const own = (input.messages ?? []).filter(({ role }) => OWN.has(role)).map(({ content }) => readText(content));
  // Earlier turns can contain tool results, and assistant messages may repeat them.
  const has_history = own.length < (input.messages ?? []).length;
  // An end user's input is no instruction, but the run may fetch the addresses that it consists of.
  const is_end_users = input.input_mark !== undefined;
  const data_texts = textsIn(data);
  const data_urls = data_texts.flatMap((text) => (/^https?:\/\/\S+$/i.test(text) ? (URL.parse(text)?.href ?? []) : []));
  return {
    tainted:
      has_history ||
      is_end_users ||
      input.last?.tainted === true ||
      steps.some((step) => step.type === "tool" && step.safety != null),
    described: usesServers(config.tools_config),
    owner_text: [config.system_prompt ?? "", config.run_prompt ?? "", ...own, ...(is_end_users ? [] : data_texts)].join(
      "\n",
    ),
    links: new Set([
      ...(is_end_users ? data_urls : []),
      ...steps.flatMap((step) => (step.internal as { links?: string[] } | null)?.links ?? []),
    ]),
  };
}

/** Error codes of calls that were rejected before they were made. */
const NOT_MADE: ReadonlySet<string | undefined> = new Set([REPEATED_CALL, CALL_REJECTED, APPROVAL_EXPIRED]);

/**
 * The number of earlier calls of a tool in the run; all tools of all MCP servers count as one. Rejected
 * calls do not count, and an interrupted call counts once.
 */
export function collectEarlierCalls(steps: readonly RunStep[], tool: string): number {
  return steps.filter(
    ({ type, name, status, error }) =>
      type === "tool" && countedAs(name) === countedAs(tool) && status !== "running" && !NOT_MADE.has(error?.code),
  ).length;
}

/**
 * Before a run's first model call, records each MCP server with unusable tools as a failed step under its name, and each
 * one of whose tools some are left out as a step with the reasons. The owner and the model then see why tools are missing.
 *
 * Resolves to the reason why the worker must leave the run, or to null.
 */
export function createServerNotes({ runs, tools }: Pick<EngineDeps, "runs" | "tools">) {
  return async function noteUnusableServers(work: Work): Promise<StopReason | null> {
    const { run, config, steps } = work;
    if (!usesServers(config.tools_config) || selectSetUpSteps(steps).length < steps.length) return null;
    const { user_id, run_id } = run.lease;
    const run_ref = { user_id, agent_id: run.agent_id, run_id };
    const unlessStopped = (thrown: unknown) => {
      if (getStopReason(work) === null) throw thrown;
      return [];
    };
    const unusable = await tools.unusableServers(config.tools_config, run_ref, work.signal).catch(unlessStopped);
    const left_out = await tools.leftOutTools(config.tools_config, run_ref, work.signal).catch(unlessStopped);
    const findLeftOutText = (name: string) => left_out.find((each) => each.name === name)?.text ?? null;
    const stop = getStopReason(work);
    if (stop !== null) return stop;
    // A lost process may have left an open step here. Its server may answer now.
    const begun = steps
      .filter(({ status }) => status === "running")
      .map(({ name }) => ({ name, error: null, fails_run: undefined }));
    const noted = new Set(steps.filter(({ status }) => status !== "running").map(({ name }) => name));
    const taken_up = begun.map((each) => unusable.find(({ name }) => name === each.name) ?? each);
    const [ending = [], others = []] = [true, false].map((ends) =>
      unusable.filter(({ error }) => (error.code === "secret_reflected") === ends),
    );
    const partial = left_out.map(({ name }) => ({ name, error: null, fails_run: undefined }));
    for (const { name, error, fails_run } of [...taken_up, ...others, ...partial, ...ending]) {
      if (noted.has(name)) continue;
      noted.add(name);
      const result = error === null ? findLeftOutText(name) : null;
      const stop = await note(work, name, { error, result, internal: fails_run === true ? { fails_run } : null });
      if (stop !== null) return stop;
      if (error?.code === "secret_reflected") {
        // This last step ends the run.
        work.result.thrown = toolErrors.secretReflected(error.message);
        return null;
      }
    }
    return null;
  };

  async function note(
    { run, steps }: Work,
    name: string,
    {
      error,
      result,
      internal,
    }: { error: RunError | null; result: string | null; internal: { fails_run: true } | null },
  ): Promise<StopReason | null> {
    const step = { index: getNextIndex(steps), type: "tool" as const, name, arguments: {} };
    const state = await runs.startStep(run.lease, step);
    if (state !== "running") return state;
    const status = error === null ? ("succeeded" as const) : ("failed" as const);
    if (!(await runs.finishStep(run.lease, { index: step.index, status, result, error, internal }))) return "lost";
    steps[step.index] = { ...step, status, result, error, safety: null, internal };
    return null;
  }
}
