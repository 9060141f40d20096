import type { RequiredAction } from "../../api/contract/run-actions.ts";
import type { RunTrigger } from "../../api/contract/runs.ts";
import { addSeconds } from "../../platform/lib/clock.ts";
import type { Taint } from "../tools/destinations.ts";
import { describeDestination, describeSource, needsApproval } from "../tools/registry.ts";
import { insertActions } from "./actions.store.ts";
import { type NextAction, type Progress, parseArguments } from "./next-action.ts";
import { type EngineDeps, getStopReason, type StepResult, suspend, type Work } from "./run-work.ts";
import { collectEarlierCalls, computeTaint } from "./tool-step.ts";
import type { EngineInput, RunStep } from "./transcript.ts";

/** Calls that a person must approve before they are made. */

/** Whether a call of this run must be approved in its present state. */
export function createNeedsApproval({ run, config, input, steps }: Work): NonNullable<Progress["needsApproval"]> {
  const { tools_config } = config;
  let taint: Taint | null = null;
  return (call) => {
    taint ??= computeTaint(config, input, steps, run.input);
    const { name, arguments: arguments_json } = call.function;
    const earlier_calls = collectEarlierCalls(steps, name);
    return needsApproval({ name, arguments_json, earlier_calls, tools_config, taint });
  };
}

/** Asks a person about calls, for all of which the run waits. */
export function createApprovalStep({ tools, clock }: Pick<EngineDeps, "tools" | "clock">) {
  return async function askForApproval(
    work: Work,
    { turn, calls }: Extract<NextAction, { do: "ask" }>,
  ): Promise<StepResult> {
    const { run, config, input, steps, spent_tokens } = work;
    const { tools_config, approval_hours } = config;
    const { user_id, run_id } = run.lease;
    const run_ref = { user_id, agent_id: run.agent_id, run_id };
    // If its schema cannot be had now, an edit is checked by the tool itself.
    const offered = await tools.definitions(tools_config, run_ref, work.signal).catch(() => []);
    const stop = getStopReason(work);
    if (stop !== null) return stop;
    const untrusted_sources = listUntrustedSources(run.trigger, input, steps);
    const requested_at = clock.now();
    const actions = calls.map(({ call, nth }, place) => {
      const { name } = call.function;
      return {
        type: "tool_approval" as const,
        turn,
        call: nth,
        step: steps.length + place,
        tool: name,
        arguments: parseArguments(call),
        parameters: offered.find((each) => each.function.name === name)?.function.parameters ?? null,
        destination: describeDestination({ name, arguments: parseArguments(call) }, tools_config),
        reason: explainQuestion(name, untrusted_sources),
        untrusted_sources,
        spent_tokens,
        requested_at,
        expires_at: addSeconds(requested_at, approval_hours * 3600),
      };
    });
    return suspend("requires_action", (tx) => insertActions(tx, run.lease, actions));
  };
}

const SOURCE_CHARS = 500;

/** The outside content that the run has read, as `computeTaint` counts it. */
function listUntrustedSources(
  trigger: RunTrigger,
  input: EngineInput,
  steps: readonly RunStep[],
): RequiredAction["untrusted_sources"] {
  const begun = [
    ...(input.input_mark === undefined
      ? []
      : [trigger === "webhook" ? "the trigger's delivery" : "the end user's input"]),
    ...(input.last?.tainted === true ? ["the output of the run before"] : []),
    ...(input.messages?.some(({ role }) => role === "assistant" || role === "tool") ? ["the conversation before"] : []),
  ].map((source) => ({ step: null, source }));
  const read = steps.flatMap((step, index) => {
    if (step.type !== "tool" || step.safety == null) return [];
    return [{ step: index, source: describeSource(step).slice(0, SOURCE_CHARS).toWellFormed() }];
  });
  return [...begun, ...read];
}

/** The names in a sentence. */
const MAX_NAMED = 3;

/** Why a call asks. Of an address only the host is in the sentence, because a page may have chosen the rest. */
function explainQuestion(tool: string, sources: RequiredAction["untrusted_sources"]): string {
  if (sources.length === 0) return `Each call of ${tool} needs your approval.`;
  const names = [...new Set(sources.map(({ source }) => URL.parse(source)?.host || source))];
  const others = names.length - MAX_NAMED;
  const named = names.slice(0, MAX_NAMED).join(", ") + (others > 0 ? ` and ${others} more` : "");
  return `${tool} can change something, and this run has read content from outside: ${named}.`;
}
