import type { RequiredAction } from "../../api/contract/run-actions.ts";
import type { RunRecord } from "../../api/contract/runs.ts";

/** What a caller of a run that waits for a decision is told: what is asked, and where to decide and to follow it. Pure. */

/** Characters of a call's arguments in a text that decides nothing. The page has all of them. */
const SHORTENED_CHARS = 2_000;
/** Characters that are not seen, or that change the order in which others are seen. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

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
    ...required_actions.map((action) => describeAction(action, SHORTENED_CHARS)),
    `Decide here: ${decide_url} (run ${run_id})`,
  ].join("\n\n");
}

/** An action in words, with the arguments of its call as a block of code: all of them, or the first `most_chars`. */
export function describeAction(
  { tool, arguments: given, destination, reason }: RequiredAction,
  most_chars = Number.POSITIVE_INFINITY,
): string {
  if (tool === null) return reason;
  const json = JSON.stringify(given, null, 2)
    .split("\n")
    .map((line) => line.replace(UNSEEN, escapeCharacter))
    .join("\n");
  const shown = json.length > most_chars ? `${json.slice(0, most_chars).toWellFormed()}…` : json;
  const to = destination === null ? "" : ` to ${destination}`;
  // No line of JSON begins with a fence.
  return `${tool}${to}: ${reason}\n\n\`\`\`json\n${shown}\n\`\`\``;
}

/** As JSON writes it in a text. */
function escapeCharacter(character: string): string {
  return character
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}
