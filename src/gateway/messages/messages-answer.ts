import type { ChatResponse, FinishReason, Routing, Usage } from "../../api/contract/completions.ts";
import type { AnswerBlock, MessageRecord, MessageUsage } from "../../api/contract/messages.ts";
import { anthropicError } from "../../api/contract/messages-error.ts";
import type { ErrorShape } from "../../kernel/errors.ts";
import { type Chunk, createPieceReader, type Delta, finishReasonOf, type Piece } from "../completions/answer-pieces.ts";
import type { AnswerWriter } from "../completions/endpoint.ts";
import type { Envelope } from "../completions/reasoning-envelope.ts";
import { createBlockEvents } from "./block-events.ts";

/** Writes a chat completion as a message of Anthropic's API. A whole answer takes the same way as a stream. */

export interface MessageContext {
  model: string;
  stop_sequences: readonly string[];
  newId(): string;
  paramOf(param: string): string;
  /** Seals what the model's provider needs back. */
  seal(envelope: Envelope): string;
}

type Stop = Pick<MessageRecord, "stop_reason" | "stop_sequence">;

const STOP: Record<FinishReason, NonNullable<MessageRecord["stop_reason"]>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal",
};
const NO_USAGE: MessageUsage = {
  input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
  output_tokens: 0,
};

/** What the chunks have told so far, besides the content. */
interface Seen {
  model: string;
  finish_reason: FinishReason;
  /** The caller's sequence that ended the answer; null: it ended otherwise. */
  stop_sequence: string | null;
  usage: MessageUsage;
  routing?: Routing;
}

/** The writer of one answer. Its events and its whole message have the same content. */
export function createMessageWriter({ model, stop_sequences, newId, paramOf, seal }: MessageContext): AnswerWriter {
  const id = `msg_${newId()}`;
  const seen: Seen = { model, finish_reason: "stop", stop_sequence: null, usage: NO_USAGE };
  const asked_stops = new Set<unknown>(stop_sequences);
  const piecesOf = createPieceReader();
  const blocks = createBlockEvents((found) => seal({ ...found, model: seen.model }));
  let has_begun = false;

  const record = (content: AnswerBlock[], stop: Stop): MessageRecord => ({
    id,
    type: "message",
    role: "assistant",
    model: seen.model,
    content,
    ...stop,
    usage: seen.usage,
    ...(seen.routing === undefined ? {} : { routing: seen.routing }),
  });
  const begin = (): object[] => {
    if (has_begun) return [];
    has_begun = true;
    return [{ type: "message_start", message: record([], { stop_reason: null, stop_sequence: null }) }];
  };
  const take = (delta: Delta): object[] => {
    blocks.noteSignatures(delta);
    return piecesOf(delta).flatMap((piece: Piece) => blocks.add(piece));
  };

  return {
    paramOf,
    chunk(chunk: Chunk): string {
      note(chunk, seen, asked_stops);
      return written([...begin(), ...(chunk.choices ?? []).slice(0, 1).flatMap(({ delta }) => take(delta ?? {}))]);
    },
    end(): string {
      const closing = blocks.close();
      const routing = seen.routing === undefined ? {} : { routing: seen.routing };
      const ended = {
        type: "message_delta",
        delta: stopOf(seen, blocks.hasCall()),
        usage: seen.usage,
        ...routing,
      };
      return written([...begin(), ...closing, ended, { type: "message_stop" }]);
    },
    failed(error: Pick<ErrorShape, "type" | "code" | "message">): string {
      return written([anthropicError(error, null)]);
    },
    whole(response: ChatResponse): MessageRecord {
      const [choice] = response.choices;
      note(
        { ...response, choices: [{ ...choice, finish_reason: choice?.finish_reason ?? null }] } as unknown as Chunk,
        seen,
        asked_stops,
      );
      take((choice?.message ?? {}) as Delta);
      blocks.close();
      return record(blocks.content(), stopOf(seen, blocks.hasCall()));
    },
  };
}

/** Some providers end an answer that has calls with `stop`; OpenAI does so after a forced call. */
function stopOf({ finish_reason, stop_sequence }: Seen, has_call: boolean): Stop {
  if (finish_reason === "stop" && has_call) {
    return { stop_reason: "tool_use", stop_sequence: null };
  }
  if (finish_reason === "stop" && stop_sequence !== null) return { stop_reason: "stop_sequence", stop_sequence };
  return { stop_reason: STOP[finish_reason], stop_sequence: null };
}

function note({ model, usage, routing, choices }: Chunk, seen: Seen, asked_stops: ReadonlySet<unknown>): void {
  if (typeof model === "string") seen.model = model;
  if (usage != null) seen.usage = messageUsage(usage);
  if (routing !== undefined) seen.routing = routing;
  const choice = choices?.[0];
  if (choice?.finish_reason != null) seen.finish_reason = finishReasonOf(choice.finish_reason);
  // Other servers give other things in this field.
  if (asked_stops.has(choice?.stop_reason)) seen.stop_sequence = choice?.stop_reason as string;
}

/** Anthropic counts input that was read from a cache or written to one apart. */
function messageUsage({ input_tokens, output_tokens, cost_tokens, prompt_tokens_details }: Usage): MessageUsage {
  const { cached_tokens, cache_write_tokens } = prompt_tokens_details;
  return {
    input_tokens: Math.max(0, input_tokens - cached_tokens - cache_write_tokens),
    cache_read_input_tokens: cached_tokens,
    cache_creation_input_tokens: cache_write_tokens,
    output_tokens,
    cost_tokens,
  };
}

function written(events: readonly object[]): string {
  return events
    .map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join("");
}
