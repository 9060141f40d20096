import { READ_ON } from "../../kernel/constants.ts";
import type { AnswerEvent } from "../models/answer-events.ts";
import type { Counts, ProviderRequest } from "../models/models.types.ts";

/**
 * A provider reports the usage of a stream at its end, and bills thoughts that no one sees. So a call whose caller has
 * hung up is read on for its usage for a bounded time, and without a report its likely thoughts are charged (contract
 * 4.7.1). Pure.
 */

/** What is known of the thoughts of a call, by `monotonicMs`. */
export interface Thoughts {
  /** The model may reason in this call. */
  are_likely: boolean;
  /** When the request was sent; null: it was not. */
  sent_ms: number | null;
  /** When the answer's own text began; null: it has not. */
  spoke_ms: number | null;
  /** The output tokens until then: thoughts that the caller could read. */
  shown_tokens: number;
}

/** Of a call whose answer has not begun. */
export function newThoughts(): Thoughts {
  return { are_likely: false, sent_ms: null, spoke_ms: null, shown_tokens: 0 };
}

const SPEECH: ReadonlySet<AnswerEvent["type"]> = new Set(["text", "refusal", "call"]);

/**
 * Whether the answer's own text begins in these events. Servers with chat completions stream their whole reasoning;
 * other APIs stream a summary, after the thoughts.
 */
export function isSpeech(events: readonly AnswerEvent[], { model }: Pick<ProviderRequest, "model">): boolean {
  const is_shown = model.kind === "openai-compatible";
  return events.some(({ type }) => SPEECH.has(type) || (is_shown && type === "reasoning"));
}

/** How long a call is read on for its usage after a hang-up. A run that is cancelled waits for that. */
export function readOnMs(
  { are_likely, sent_ms, spoke_ms }: Thoughts,
  now_ms: number,
  { is_run }: { is_run: boolean },
): number {
  if (sent_ms === null) return 0;
  const silent_ms = (spoke_ms ?? now_ms) - sent_ms;
  if (are_likely || silent_ms >= READ_ON.silent_ms) return READ_ON.thinking_ms;
  return is_run ? READ_ON.run_ms : READ_ON.other_ms;
}

/** The counts of a call without a report of its output, with the thoughts that it is likely to have had until now. */
export function withLikelyThoughts(
  counts: Counts,
  { request, max_output_tokens }: Pick<ProviderRequest, "request" | "max_output_tokens">,
  { thoughts, now_ms }: { thoughts: Thoughts; now_ms: number },
): Counts {
  const { are_likely, sent_ms, spoke_ms, shown_tokens } = thoughts;
  if (!are_likely || sent_ms === null || !counts.estimated || counts.reasoning_tokens > 0) return counts;
  const thought_tokens = Math.floor((((spoke_ms ?? now_ms) - sent_ms) * READ_ON.thoughts_per_second) / 1_000);
  const hidden_tokens = thought_tokens - (spoke_ms === null ? counts.output_tokens : shown_tokens);
  const left_tokens = max_output_tokens * (request.n ?? 1) - counts.output_tokens;
  const reasoning_tokens = Math.max(0, Math.min(hidden_tokens, left_tokens));
  return { ...counts, output_tokens: counts.output_tokens + reasoning_tokens, reasoning_tokens };
}
