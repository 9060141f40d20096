import type { ToolCall } from "../contract/completions.ts";
import type { RunError } from "../contract/runs.ts";
import { type AgentConfig, stableJson } from "./agent-config.ts";
import { callsOf, type PastStep, textOf } from "./transcript.ts";

/** The same tool with the same arguments is carried out this often in one run; the next time the model is told to stop. */
const SAME_CALL_MAX = 5;
/** Code of a step in which a tool was not called because it had been, with the same arguments, too often. */
export const REPEATED_CALL = "repeated_call";

/** What has become of a run so far. */
export interface Progress {
  limits: AgentConfig["limits"];
  steps: readonly PastStep[];
  elapsed_ms: number;
}

export type NextAction =
  | { do: "call_model" }
  | { do: "call_tool"; call: ToolCall }
  /** Goes into the journal as a failed step, for the model to read. */
  | { do: "refuse_tool"; call: ToolCall; error: RunError }
  | { do: "succeed"; output: string }
  | { do: "fail"; error: RunError };

/** What a run does next. An answer that is there is never lost to a cap: caps only stop what would follow. */
export function nextAction(progress: Progress): NextAction {
  const steps = progress.steps.filter((step) => step.status !== "running");
  const interrupted = progress.steps.find((step) => step.status === "running" && step.type === "tool");
  if (interrupted !== undefined && !isRepeatable(interrupted)) {
    return fail(
      "effect_unknown",
      `The worker was lost during ${interrupted.name}, whose effect may have happened; it is not repeated.`,
    );
  }
  const answer_at = steps.findLastIndex((step) => step.type === "model");
  const answer = steps[answer_at];
  if (answer?.status === "failed")
    return { do: "fail", error: answer.error ?? { code: "model_unavailable", message: "The model failed." } };
  const calls = answer === undefined ? [] : callsOf(answer);
  if (answer !== undefined && calls.length === 0) return { do: "succeed", output: textOf(answer) };
  const over = overCap(progress, steps.length);
  if (over !== null) return { do: "fail", error: over };
  const call = calls[steps.length - answer_at - 1];
  return call === undefined ? { do: "call_model" } : toolCall(call, steps);
}

function toolCall(call: ToolCall, steps: readonly PastStep[]): NextAction {
  const wanted = callKey(call.function.name, argumentsOf(call));
  const same = steps.filter((step) => step.type === "tool" && callKey(step.name, step.arguments) === wanted);
  if (same.length < SAME_CALL_MAX) return { do: "call_tool", call };
  if (same.at(-1)?.error?.code === REPEATED_CALL) {
    return fail("tool_failed", `The model called ${call.function.name} with the same arguments over and over.`);
  }
  const message = `${call.function.name} was called with these arguments ${SAME_CALL_MAX} times already. Use what it answered, or do something else.`;
  return { do: "refuse_tool", call, error: { code: REPEATED_CALL, message } };
}

/** A call's arguments as an object; what the model wrote when that is not JSON. */
export function argumentsOf(call: ToolCall): unknown {
  try {
    return JSON.parse(call.function.arguments);
  } catch {
    return call.function.arguments;
  }
}

/** Whether a call whose outcome a crash left unknown may be made again: only a fetch that reads is harmless. */
function isRepeatable({ name, arguments: given }: PastStep): boolean {
  const method = (given as { method?: unknown } | null)?.method ?? "GET";
  return name === "web_fetch" && (method === "GET" || method === "HEAD");
}

function callKey(name: string, call_arguments: unknown): string {
  return `${name} ${stableJson(call_arguments)}`;
}

function overCap({ limits, elapsed_ms }: Progress, steps_count: number): RunError | null {
  if (elapsed_ms >= limits.max_run_seconds * 1000) {
    return { code: "timeout", message: `The run took longer than max_run_seconds (${limits.max_run_seconds}).` };
  }
  if (steps_count >= limits.max_steps) {
    return { code: "max_steps", message: `The run used all of max_steps (${limits.max_steps}) without an answer.` };
  }
  return null;
}

function fail(code: string, message: string): NextAction {
  return { do: "fail", error: { code, message } };
}
