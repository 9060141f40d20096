import type { Taint } from "../tools/destinations.ts";
import type { AgentConfig } from "./agent-config.ts";
import { REPEATED_CALL } from "./next-action.ts";
import type { RunInput, RunStep } from "./transcript.ts";

/** What has come into the run from outside, rebuilt from its steps, so that a resumed run is as tainted as it was. */
export function taintOf(config: AgentConfig, input: RunInput, steps: readonly RunStep[]): Taint {
  const own = (input.messages ?? []).filter(({ role }) => role !== "assistant").map(({ content }) => content);
  // What an assistant is said to have said may repeat a page that was read in an earlier turn.
  const has_history = (input.messages ?? []).some(({ role }) => role === "assistant");
  return {
    tainted: has_history || steps.some((step) => step.type === "tool" && step.safety != null),
    owner_text: [config.system_prompt ?? "", config.run_prompt ?? "", ...own].join("\n"),
    links: new Set(steps.flatMap((step) => (step.internal as { links?: string[] } | null)?.links ?? [])),
  };
}

/** How often a tool has been called in the run; what was refused as a repetition was not. */
export function earlierCalls(steps: readonly RunStep[], tool: string): number {
  return steps.filter((step) => step.type === "tool" && step.name === tool && step.error?.code !== REPEATED_CALL)
    .length;
}
