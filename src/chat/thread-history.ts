import type { ChatMessage } from "../contract/completions.ts";
import { type RunConfig, type RunInput, type RunStep, transcript } from "../runs/transcript.ts";

/** What the model is sent of a thread's earlier turns. Pure. */

/** Bytes a token: the measure that calls are held by, which nothing natural exceeds. */
const BYTES_PER_TOKEN = 2;
/** Of a model's context, what the prompt of a turn may fill at first; the rest is for its tools and its answer. */
const PROMPT_SHARE = 0.75;

/** A turn as it was sent and answered: the user's messages, the model's answers, tool calls and results, as they were. */
export function turnMessages(input: RunInput, steps: readonly RunStep[]): ChatMessage[] {
  return transcript({ system_prompt: null, run_prompt: null } as RunConfig, input, steps);
}

/** How many bytes of earlier turns fit in beside what is sent in any case. */
export function roomForHistory(context_window: number, config: RunConfig, input: RunInput): number {
  const sent = bytesOf([config.system_prompt, input.messages]);
  return Math.floor(context_window * PROMPT_SHARE) * BYTES_PER_TOKEN - sent;
}

/** Of turns, the latest first, as many as fit in: whole ones, without a gap. */
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
