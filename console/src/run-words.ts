import type { Run } from "./api/queries.ts";
import { dollars, words } from "./format.ts";
import type { Tone } from "./ui/basics.tsx";

/** The metadata of a run on another model: the id of the run that it repeats. */
export const REPLAY_OF = "replay_of";

/** Plain words for the API's codes about runs. */

export type RunStatus = Run["status"];

interface StatusWords {
  phase: "queued" | "waiting" | "working" | "ended";
  name: string;
  tone: Tone;
  /** What goes on between two steps. */
  now?: string;
}

/** Every status of a run. */
export const RUN_STATUSES: Readonly<Record<RunStatus, StatusWords>> = {
  queued: { phase: "queued", name: "queued", tone: "neutral", now: "In the queue" },
  running: { phase: "working", name: "running", tone: "accent", now: "Running" },
  requires_action: {
    phase: "waiting",
    name: "waits for you",
    tone: "warn",
    now: "Waiting for your decision",
  },
  cancelling: { phase: "working", name: "cancelling", tone: "warn", now: "Stopping" },
  succeeded: { phase: "ended", name: "succeeded", tone: "good" },
  failed: { phase: "ended", name: "failed", tone: "bad" },
  cancelled: { phase: "ended", name: "cancelled", tone: "neutral" },
};

/** What lists of runs can be filtered by: every status, and an error of any kind. */
export const STATUS_FILTERS = [...(Object.keys(RUN_STATUSES) as RunStatus[]), "any_error"] as const;
export type StatusFilter = (typeof STATUS_FILTERS)[number];
export const STATUS_OPTIONS = [
  ["", "All"],
  ...STATUS_FILTERS.map(
    (filter) => [filter, filter === "any_error" ? "Any error" : words(RUN_STATUSES[filter].name)] as const,
  ),
] as const;
/** The filter as the API's parameters. */
export const statusQuery = (filter: StatusFilter | undefined) =>
  filter === "any_error" ? { has_errors: "true" as const } : { status: filter };

export const WITH_ERRORS = "succeeded with errors";

export type RunTrigger = Run["trigger"];
/** What starts a run. */
export const RUN_TRIGGERS: Readonly<Record<RunTrigger, string>> = {
  manual: "you",
  schedule: "schedule",
  chat: "chat",
  webhook: "trigger",
  test: "test of a draft",
};
/** What started a run, by name if it is a trigger. */
export const starterName = ({ trigger, trigger_name }: Pick<Run, "trigger" | "trigger_name">): string =>
  trigger_name ?? words(RUN_TRIGGERS[trigger]);
/** The same in a sentence. */
export function startInWords({ trigger, trigger_name }: Pick<Run, "trigger" | "trigger_name">): string {
  if (trigger === "test") return RUN_TRIGGERS.test;
  return `started by ${trigger_name === null ? RUN_TRIGGERS[trigger] : `trigger ${trigger_name}`}`;
}
export const TRIGGER_OPTIONS = [
  ["", "All"],
  ...Object.entries(RUN_TRIGGERS).map(([trigger, name]) => [trigger, words(name)] as const),
] as const;

/** Whether the status is final. */
export const hasEnded = (status: RunStatus): boolean => RUN_STATUSES[status].phase === "ended";

const FAILURES: Record<string, string> = {
  timeout: "it took too long",
  max_steps: "it took too many steps",
  budget_exceeded: "it reached its token limit",
  insufficient_tokens: "the account has too few tokens",
  worker_lost: "the worker process stopped",
  model_unavailable: "the model was unavailable",
  tool_failed: "a tool failed",
  output_invalid: "the answer does not conform to its schema",
  effect_unknown: "the outcome of a tool call is unknown",
  unsafe_content: "a page contained instructions for the model",
  secret_reflected: "a site returned a secret",
  key_revoked: "its API key was revoked",
  egress_refused: "the address is not allowed",
  too_many_waiting: "too many of your runs wait for a decision",
  internal: "the service had an internal error",
};

/** The codes with words, for a filter. */
export const FAILURE_CODES = Object.keys(FAILURES);

/** Why a run or a step failed, in a few words. */
export const failure = (code: string): string => FAILURES[code] ?? words(code).toLowerCase();

/** Why a failed run has a cost; null: it has none. */
export const chargeOfFailure = ({ usage }: Pick<Run, "usage">): string | null =>
  usage.cost_tokens === 0 ? null : `The model calls that were answered are charged: ${dollars(usage.cost_tokens)}.`;

/** Why an answer is cut off; null: it is complete. */
export function cutOff(step: { type: string; result?: unknown } | undefined): string | null {
  if (step?.type !== "model") return null;
  const { finish_reason } = (step.result ?? {}) as { finish_reason?: string };
  if (finish_reason === "length") return "Cut off at the model's output limit.";
  return finish_reason === "content_filter" ? "Cut off by the provider's content filter." : null;
}

const TECHNIQUES: Record<string, string> = {
  "display-none": "Not displayed",
  "visibility-hidden": "Invisible",
  "hidden-attribute": "Hidden",
  "aria-hidden": "Hidden from readers",
  "off-screen": "Positioned outside the page",
  "zero-size": "Zero size",
  "tiny-font": "Too small to read",
  "invisible-characters": "Invisible characters",
  clipped: "Clipped",
  transparent: "Transparent",
  comment: "Comment",
};

/** How a removed text was hidden or written. */
export function technique(name: string): string {
  if (name.startsWith("instruction: ")) return "Instruction to the model";
  return TECHNIQUES[name] ?? words(name.replaceAll("-", "_"));
}
