import type { ChatMessage } from "../contract/completions.ts";
import type { Taint } from "../tools/destinations.ts";
import { countedAs } from "../tools/registry.ts";
import { REPEATED_CALL } from "./next-action.ts";
import type { RunConfig, RunInput, RunStep } from "./transcript.ts";

/** Roles whose text comes from the owner, not from a tool or a model. */
const OWN = new Set<ChatMessage["role"]>(["system", "user"]);

/** The outside content in the run, rebuilt from its steps, so that a resumed run has the same taint. */
export function taintOf(config: RunConfig, input: RunInput, steps: readonly RunStep[]): Taint {
  const own = (input.messages ?? []).filter(({ role }) => OWN.has(role)).map(({ content }) => content);
  // Earlier turns can contain tool results, and assistant messages may repeat them.
  const has_history = own.length < (input.messages ?? []).length;
  return {
    tainted: has_history || steps.some((step) => step.type === "tool" && step.safety != null),
    owner_text: [config.system_prompt ?? "", config.run_prompt ?? "", ...own].join("\n"),
    links: new Set(steps.flatMap((step) => (step.internal as { links?: string[] } | null)?.links ?? [])),
  };
}

/**
 * The number of earlier calls of a tool in the run; all tools of all MCP servers count as one. Calls rejected as a
 * repetition do not count, and an interrupted call counts once.
 */
export function earlierCalls(steps: readonly RunStep[], tool: string): number {
  return steps.filter(
    ({ type, name, status, error }) =>
      type === "tool" && countedAs(name) === countedAs(tool) && status !== "running" && error?.code !== REPEATED_CALL,
  ).length;
}
