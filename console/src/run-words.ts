import { words } from "./format.ts";

/** What the API says in codes about runs, as people say it. */

const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);
/** Whether a run of this status changes no more. */
export const hasEnded = (status: string): boolean => ENDED.has(status);

const FAILURES: Record<string, string> = {
  timeout: "it took too long",
  max_steps: "it took too many steps",
  budget_exceeded: "it came to its cap",
  insufficient_tokens: "there were not enough tokens",
  worker_lost: "the process that worked on it was lost",
  model_unavailable: "its model was not available",
  tool_failed: "a tool failed",
  effect_unknown: "nobody knows whether an act was carried out",
  unsafe_content: "what it read gave it orders",
  secret_reflected: "a site sent a secret back",
  egress_refused: "that address is not allowed",
  internal: "something went wrong here",
};

/** Why a run or a step failed, in a few words. */
export const failure = (code: string): string => FAILURES[code] ?? words(code).toLowerCase();

/** That an answer is cut off, and by what; null: it is whole. */
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
  "off-screen": "Outside the page",
  "zero-size": "Without size",
  "tiny-font": "Too small to read",
  "invisible-characters": "Invisible characters",
  clipped: "Cut away",
  transparent: "Transparent",
  comment: "A comment",
};

/** How a text that the safety layer took out was written. */
export function technique(name: string): string {
  if (name.startsWith("instruction: ")) return "An order to the model";
  return TECHNIQUES[name] ?? words(name.replaceAll("-", "_"));
}
