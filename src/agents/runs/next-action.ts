import type { ToolCall } from "../../api/contract/completions.ts";
import type { RunError } from "../../api/contract/runs.ts";
import { stableJson } from "../../platform/lib/json.ts";
import { backoff } from "../../platform/lib/retry.ts";
import { effectOf } from "../tools/registry.ts";
import { argumentsValue } from "../tools/tool-arguments.ts";
import { type OutputRule, readOutput } from "./output.ts";
import type { CallAction } from "./runs.types.ts";
import {
  isAnswer,
  type PastStep,
  type RunConfig,
  readAnswerText,
  readToolCalls,
  selectSetUpSteps,
} from "./transcript.ts";

/**
 * A run executes the same tool with the same arguments this often. The next such call is rejected with a message to the
 * model.
 */
const SAME_CALL_MAX = 5;
/** Error code of a tool call that was rejected as a repetition. */
export const REPEATED_CALL = "repeated_call";

/**
 * Backoff of a failed model call, or the provider's Retry-After if that is longer. After the last retry the run fails.
 */
const RETRY_AFTER_MS = backoff({ first: 500, max: 2_000, retries: 2 });
/** Retries of one call whose answer the provider broke off. */
const BROKEN_MAX = 1;

/** contract 6: error codes of steps that end the run. */
const ENDS_THE_RUN: ReadonlySet<string> = new Set(["secret_reflected", "unsafe_content"]);

/** Characters of a server's words in the message of a run that failed with a call. */
const MAX_SAID_CHARS = 200;

/** The progress of a run. */
export interface Progress {
  limits: RunConfig["limits"];
  /**
   * `retry_in_ms` in a failed model step's `internal`: the earliest time of a retry; null: no retry. `fails_run` in a
   * failed tool step's: the run fails with it.
   */
  steps: readonly (PastStep & { internal?: unknown })[];
  elapsed_ms: number;
  /** The names of tools that the caller executes. A call to one ends the run. */
  client_tools?: ReadonlySet<string>;
  /** What the answer must be; null or absent: any text. */
  output_rule?: OutputRule | null;
  /** The actions about calls of this run. */
  actions?: readonly CallAction[];
  /** Whether a call needs approval in the present state of the run; absent: no call does. */
  needsApproval?: (call: ToolCall) => boolean;
}

/** A call of the model's last answer. */
export interface RequestedCall {
  call: ToolCall;
  /** Its place among the calls of the answer. */
  nth: number;
}

export type NextAction =
  | { do: "call_model"; after_ms: number }
  /** `approval`: a person approved the call, whose arguments are the ones that were approved. */
  | ({ do: "call_tool"; approval: "approved" | "edited" | null } & RequestedCall)
  /** Recorded in the journal as a failed step, which the model reads. */
  | ({ do: "reject_tool"; error: RunError } & RequestedCall)
  /** All other calls of the answer are done. `turn`: the step of the answer. */
  | { do: "ask"; turn: number; calls: readonly RequestedCall[] }
  | { do: "succeed"; output: string; output_json: unknown }
  /** `output`: the answer that its schema rejects. */
  | { do: "fail"; error: RunError; output?: string };

/** What a run does next. A cap never discards an answer that exists: it only stops the next call. */
export function decideNext(progress: Progress): NextAction {
  const steps = progress.steps.filter((step) => step.status !== "running");
  const interrupted = progress.steps.find((step) => step.status === "running" && step.type === "tool");
  if (interrupted !== undefined && !isRepeatable(interrupted)) {
    return fail(
      "effect_unknown",
      `The worker was lost during ${interrupted.name}, whose effect may have happened: it is not repeated. See at its destination whether it did, then run the agent again.`,
    );
  }
  const last = steps.at(-1);
  if (last?.error != null && ENDS_THE_RUN.has(last.error.code)) return { do: "fail", error: last.error };
  const fatal = steps.find(({ internal }) => (internal as { fails_run?: true } | null | undefined)?.fails_run);
  if (fatal !== undefined) return { do: "fail", error: fatalCallError(fatal) };
  const over = findExceededCap(progress, steps);
  if (last?.type === "model" && last.status === "failed" && !isAnswer(last))
    return decideAfterFailure(progress, steps, over);
  const answer_at = steps.findLastIndex(isAnswer);
  const answer = steps[answer_at];
  const calls = answer === undefined ? [] : readToolCalls(answer);
  // With a call to the caller's tool, the model's other calls are not made: the model can repeat them.
  const is_over = calls.length === 0 || calls.some((call) => progress.client_tools?.has(call.function.name));
  if (answer !== undefined && is_over) {
    return decideEnd(readAnswerText(answer), calls.length === 0 ? (progress.output_rule ?? null) : null);
  }
  if (over !== null) return { do: "fail", error: over };
  return decideCalls(calls, answer_at, progress) ?? { do: "call_model", after_ms: 0 };
}

/**
 * The next call of an answer; null: all are done. Calls that a person must approve wait until the others are done, so the
 * run asks about all of them at once.
 */
function decideCalls(
  calls: readonly ToolCall[],
  turn: number,
  { actions = [], needsApproval = () => false, ...progress }: Progress,
): NextAction | null {
  const steps = progress.steps.filter((step) => step.status !== "running");
  const done = new Set(steps.slice(turn + 1).map(({ call }, nth) => call ?? nth));
  const waiting: RequestedCall[] = [];
  for (const [nth, call] of calls.entries()) {
    if (done.has(nth)) continue;
    const action = actions.find((each) => each.turn === turn && each.call === nth);
    // A call that is rejected as a repetition asks nobody.
    const asks = () => listSameCalls(call, steps).length < SAME_CALL_MAX && needsApproval(call);
    if (action === undefined ? asks() : action.decision === null) waiting.push({ call, nth });
    else return decideToolCall({ call, nth }, steps, action);
  }
  return waiting.length === 0 ? null : { do: "ask", turn, calls: waiting };
}

/** The end of a run with this answer. A call to the caller's tool is no answer, so it has no rule. */
function decideEnd(output: string, rule: OutputRule | null): NextAction {
  if (rule === null) return { do: "succeed", output, output_json: null };
  const reading = readOutput(rule, output);
  if (reading.fault === null) return { do: "succeed", output, output_json: reading.json };
  const message = `The answer does not conform to its schema: ${reading.fault}. It is in the run's output. Say in the prompts what the fields mean, or use a model with supports.json_schema.`;
  return { do: "fail", error: { code: "output_invalid", message }, output };
}

/** The error of a run whose agent says that a failed call of this tool fails it. */
function fatalCallError({ name, error }: PastStep): RunError {
  const { message = "it failed", outside } = error ?? {};
  const said = outside?.text == null ? "" : ` It said: "${outside.text.slice(0, MAX_SAID_CHARS).toWellFormed()}"`;
  const why = `${name} failed, and on_tool_failure of this tool is "fail": ${message}.${said}`;
  return { code: "tool_failed", message: why, ...(outside === undefined ? {} : { outside }) };
}

/** Retries a failed model call while retries and time remain. */
function decideAfterFailure(
  { limits, elapsed_ms }: Progress,
  steps: Progress["steps"],
  over: RunError | null,
): NextAction {
  const last = steps.at(-1);
  const tries = steps.length - 1 - steps.findLastIndex((step) => step.type !== "model" || step.status !== "failed");
  const wanted_ms = (last?.internal as { retry_in_ms?: number | null } | null | undefined)?.retry_in_ms ?? null;
  const backoff_ms = RETRY_AFTER_MS[tries - 1];
  // The text of a broken-off answer is paid for, so such a call is not made a third time.
  const broken = steps.slice(steps.length - tries).filter(({ result }) => result !== null).length;
  if (over === null && wanted_ms !== null && backoff_ms !== undefined && broken <= BROKEN_MAX) {
    const after_ms = Math.max(wanted_ms, backoff_ms);
    if (elapsed_ms + after_ms < limits.max_run_seconds * 1000) return { do: "call_model", after_ms };
  }
  return { do: "fail", error: last?.error ?? { code: "model_unavailable", message: "The model failed." } };
}

/** Error codes of calls that were not made, because of a person's decision or for want of one. */
export const CALL_REJECTED = "call_rejected";
export const APPROVAL_EXPIRED = "approval_expired";

function decideToolCall(
  { call: requested, nth }: RequestedCall,
  steps: readonly PastStep[],
  action: CallAction | undefined,
): NextAction {
  const { name } = requested.function;
  if (action !== undefined && action.decision !== "approved" && action.decision !== "edited") {
    return { do: "reject_tool", call: requested, nth, error: explainRejection(name, action) };
  }
  const call = action === undefined ? requested : withArguments(requested, action.arguments_sent);
  const same = listSameCalls(call, steps);
  if (same.length < SAME_CALL_MAX) {
    const approval = action?.decision === "approved" || action?.decision === "edited" ? action.decision : null;
    return { do: "call_tool", call, nth, approval };
  }
  if (same.at(-1)?.error?.code === REPEATED_CALL) {
    return fail("tool_failed", `The model called ${name} with the same arguments over and over.`);
  }
  const message = `${name} was called with these arguments ${SAME_CALL_MAX} times already. Use what it answered, or do something else.`;
  return { do: "reject_tool", call, nth, error: { code: REPEATED_CALL, message } };
}

/** The steps of the same call with the same arguments. */
function listSameCalls(call: ToolCall, steps: readonly PastStep[]): PastStep[] {
  const wanted = getArgumentsKey(parseArguments(call));
  return steps.filter(
    (step) => step.type === "tool" && step.name === call.function.name && getArgumentsKey(step.arguments) === wanted,
  );
}

function explainRejection(name: string, { decision, reason_given }: CallAction): RunError {
  if (decision === "expired") {
    return { code: APPROVAL_EXPIRED, message: `nobody approved this call of ${name} in time, so it was not made` };
  }
  const why = reason_given === null ? "" : `. The reason: ${reason_given}`;
  return { code: CALL_REJECTED, message: `the user rejected this call of ${name}, so it was not made${why}` };
}

function withArguments(call: ToolCall, given: unknown): ToolCall {
  return { ...call, function: { ...call.function, arguments: JSON.stringify(given) } };
}

/** A call's arguments as an object, or the model's own text when that is not JSON. */
export function parseArguments(call: ToolCall): unknown {
  const value = argumentsValue(call.function.arguments);
  return value === undefined ? call.function.arguments : value;
}

/**
 * Whether a call with an unknown outcome may be repeated after a crash. If settings decide this, the step's intent has
 * the answer.
 */
function isRepeatable(step: Pick<PastStep, "name" | "arguments"> & { internal?: unknown }): boolean {
  const intent = step.internal as { repeatable?: boolean } | null | undefined;
  return intent?.repeatable === true || effectOf(step, {}) !== "unknown";
}

/** Keys by the arguments of a step, because each call of a run is compared with all calls before it. */
const keys = new WeakMap<object, string>();

function getArgumentsKey(call_arguments: unknown): string {
  if (call_arguments === null || typeof call_arguments !== "object") return stableJson(call_arguments);
  const known = keys.get(call_arguments) ?? stableJson(call_arguments);
  keys.set(call_arguments, known);
  return known;
}

function findExceededCap({ limits, elapsed_ms }: Progress, steps: readonly PastStep[]): RunError | null {
  if (elapsed_ms >= limits.max_run_seconds * 1000) {
    return timeoutError(limits);
  }
  const taken = steps.slice(selectSetUpSteps(steps).length);
  if (taken.filter((step) => step.type === "tool" || isAnswer(step)).length >= limits.max_steps) {
    return {
      code: "max_steps",
      message: `The run used all of max_steps (${limits.max_steps}) without an answer. Raise it, or narrow the task.`,
    };
  }
  return null;
}

/** contract 6: the run exceeded `max_run_seconds`. */
export function timeoutError({ max_run_seconds }: RunConfig["limits"]): RunError {
  const message = `The run took longer than max_run_seconds (${max_run_seconds}). Raise it, or give the agent less to do.`;
  return { code: "timeout", message };
}

function fail(code: string, message: string): NextAction {
  return { do: "fail", error: { code, message } };
}
