import { words } from "./format.ts";

/** Plain words for the API's codes about runs. */

const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);
/** Whether the status is final. */
export const hasEnded = (status: string): boolean => ENDED.has(status);

const FAILURES: Record<string, string> = {
  timeout: "it took too long",
  max_steps: "it took too many steps",
  budget_exceeded: "it reached its token limit",
  insufficient_tokens: "the account has too few tokens",
  worker_lost: "the worker process stopped",
  model_unavailable: "the model was unavailable",
  tool_failed: "a tool failed",
  effect_unknown: "the outcome of a tool call is unknown",
  unsafe_content: "a page contained instructions for the model",
  secret_reflected: "a site returned a secret",
  egress_refused: "the address is not allowed",
  internal: "the service had an internal error",
};

/** Why a run or a step failed, in a few words. */
export const failure = (code: string): string => FAILURES[code] ?? words(code).toLowerCase();

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
