import type { ChatMessage } from "../contract/completions.ts";
import type { Taint } from "../tools/destinations.ts";
import { countedAs } from "../tools/registry.ts";
import { REPEATED_CALL } from "./next-action.ts";
import type { RunConfig, RunInput, RunStep } from "./transcript.ts";

/** The owner's own words; not a tool's and not a model's. */
const OWN = new Set<ChatMessage["role"]>(["system", "user"]);

/** What has come into the run from outside, rebuilt from its steps, so that a resumed run is as tainted as it was. */
export function taintOf(config: RunConfig, input: RunInput, steps: readonly RunStep[]): Taint {
  const own = (input.messages ?? []).filter(({ role }) => OWN.has(role)).map(({ content }) => content);
  // What a tool brought in an earlier turn is a page's words, and what an assistant is said to have said may repeat them.
  const has_history = own.length < (input.messages ?? []).length;
  return {
    tainted: has_history || steps.some((step) => step.type === "tool" && step.safety != null),
    owner_text: [config.system_prompt ?? "", config.run_prompt ?? "", ...own].join("\n"),
    links: new Set(steps.flatMap((step) => (step.internal as { links?: string[] } | null)?.links ?? [])),
  };
}

/** How often a tool (of MCP servers: any of theirs) has been called in the run; what was refused as a repetition was not, nor is an interrupted call twice. */
export function earlierCalls(steps: readonly RunStep[], tool: string): number {
  return steps.filter(
    ({ type, name, status, error }) =>
      type === "tool" && countedAs(name) === countedAs(tool) && status !== "running" && error?.code !== REPEATED_CALL,
  ).length;
}
