import type { ChatMessage } from "../contract/completions.ts";
import { type RunConfig, type RunInput, type RunStep, transcript } from "../runs/transcript.ts";

/** The part of a thread's earlier turns that the model receives. Pure. */

/** Bytes per token. Holds use the same ratio, and natural text has at least as many bytes per token. */
const BYTES_PER_TOKEN = 2;
/** The share of a model's context that a turn's first prompt may fill. The rest is for its tools and its answer. */
const PROMPT_SHARE = 0.75;

/** The messages of a turn, unchanged: the user's messages, the model's answers, the tool calls and results. */
export function turnMessages(input: RunInput, steps: readonly RunStep[]): ChatMessage[] {
  return transcript({ system_prompt: null, run_prompt: null } as RunConfig, input, steps);
}

/** The number of bytes of earlier turns that fit beside the content that is always sent. */
export function roomForHistory(context_window: number, config: RunConfig, input: RunInput): number {
  const sent = bytesOf([config.system_prompt, input.messages]);
  return Math.floor(context_window * PROMPT_SHARE) * BYTES_PER_TOKEN - sent;
}

/** The turns that fit, latest first: whole turns without a gap. */
export function fitting<Turn>(turns: readonly Turn[], room_bytes: number): Turn[] {
  let left = room_bytes;
  const first_out = turns.findIndex((turn) => {
    left -= bytesOf(turn);
    return left < 0;
  });
  return first_out === -1 ? [...turns] : turns.slice(0, first_out);
}

/** The size of a value as JSON. */
export function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
