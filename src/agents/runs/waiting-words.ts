import type { RequiredAction } from "../../api/contract/run-actions.ts";
import type { RunRecord } from "../../api/contract/runs.ts";

/** What a caller of a run that waits for a decision is told: what is asked, and where to decide and to follow it. Pure. */

/** Characters of a call's arguments in a text. The page has all of them. */
const ARGUMENTS_CHARS = 2_000;

/** The last fields of an answer that waits. */
export interface Waiting {
  required_actions: RequiredAction[];
  /** The console's page, on which a person decides. */
  decide_url: string;
  /** The events of the run, which go on after the decision. */
  events_url: string;
}

/** `origin`: the public address of the service. */
export function toWaiting({ id, agent_id, required_actions }: RunRecord, origin: string): Waiting {
  const path = `/agents/${agent_id}/runs/${id}`;
  return { required_actions, decide_url: `${origin}${path}/decide`, events_url: `${origin}/api/v1${path}/events` };
}

/** The same as Markdown, for a person who reads the answer of a model or a tool. */
export function describeWaiting(run_id: string, { required_actions, decide_url }: Waiting): string {
  return [
    "The agent waits for a decision, and goes on by itself after it.",
    ...required_actions.map(describeAction),
    `Decide here: ${decide_url} (run ${run_id})`,
  ].join("\n\n");
}

/** An action in words, with the arguments of its call as a block of code. */
export function describeAction({ tool, arguments: given, destination, reason }: RequiredAction): string {
  if (tool === null) return reason;
  const json = JSON.stringify(given, null, 2);
  const shown = json.length > ARGUMENTS_CHARS ? `${json.slice(0, ARGUMENTS_CHARS).toWellFormed()}…` : json;
  const to = destination === null ? "" : ` to ${destination}`;
  // No line of JSON begins with a fence.
  return `${tool}${to}: ${reason}\n\n\`\`\`json\n${shown}\n\`\`\``;
}
