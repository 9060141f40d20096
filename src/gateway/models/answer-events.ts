import type { ExtraContent, FinishReason, ReasoningDetail, Routing, Usage } from "../../api/contract/completions.ts";
import type { PurserError } from "../../kernel/errors.ts";
import { realNowMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";

/**
 * A model's answer as typed events. A reader makes them from what a provider sends, in any dialect; a writer turns them
 * into the stream or the whole answer of a caller's API.
 */

/** `choice`: one of several answers to a request with `n`, counted from 0. `at`: one of the calls of a choice. */
export type AnswerEvent =
  /** Comes first. `fields`: further fields that each chunk of the answer has. */
  | { type: "start"; id: string; created: number; model: string; fields?: Readonly<Record<string, unknown>> }
  /** `auto` has chosen another model than `start` named. */
  | { type: "model"; model: string }
  | { type: "text" | "refusal"; choice: number; text: string }
  /** Readable reasoning. `field`: the other name for it, by which a provider sent it and wants it back. */
  | { type: "reasoning"; choice: number; text: string; field?: "reasoning" }
  /** Data that the provider needs back with the answer. It is not shown. */
  | { type: "reasoning_details"; choice: number; details: ReasoningDetail[] }
  | CallEvent
  /** The next piece of a call's arguments, or of the input of a custom tool. */
  | { type: "arguments"; choice: number; at: number; tool: CallEvent["tool"]; text: string }
  | { type: "service_tier"; tier: string }
  /** `stop_sequence`: the one that ended the choice, if the provider names it. */
  | { type: "finish"; choice: number; reason: FinishReason; stop_sequence: string | null }
  /** The answer is complete and charged. */
  | { type: "end"; usage: Usage | null; routing: Routing | null }
  | { type: "error"; error: PurserError };

/** A call begins. `text`: the beginning of its arguments, or all of them. `extra_content`: what the provider needs back. */
export interface CallEvent {
  type: "call";
  choice: number;
  at: number;
  tool: "function" | "custom";
  id: string;
  name: string;
  text: string;
  extra_content?: ExtraContent;
}

/** Events that arrived together. The `end` and an `error` have a part of their own. */
export interface AnswerPart {
  readonly events: readonly AnswerEvent[];
  /** The same events as the provider wrote them, from a provider with chat completions. A finish has a part of its own. */
  readonly chat_text?: string;
}

/** The id and the second of a new completion, for an answer whose provider gives it none. */
export function newIdentity(): { id: string; created: number } {
  return { id: `chatcmpl-${newId()}`, created: Math.floor(realNowMs() / 1000) };
}

/** The UTF-8 bytes of the text that the model generated. */
export function generatedBytes(events: readonly AnswerEvent[]): number {
  let bytes = 0;
  for (const event of events) {
    if ("text" in event) bytes += Buffer.byteLength(event.text);
    if (event.type === "call") bytes += Buffer.byteLength(event.name);
  }
  return bytes;
}
