import { type Chunk, createPieceReader, type Delta, type Piece } from "../completions/answer-pieces.ts";
import type { AnswerWriter } from "../completions/endpoint.ts";
import type { Envelope } from "../completions/reasoning-envelope.ts";
import type { ChatResponse, FinishReason, Routing, Usage } from "../contract/completions.ts";
import type { AnswerBlock, MessageRecord, MessageUsage } from "../contract/messages.ts";
import { anthropicError } from "../contract/messages-error.ts";
import type { ErrorShape } from "../errors.ts";
import { createBlockEvents } from "./block-events.ts";

/** Writes a chat completion as a message of Anthropic's API. A whole answer takes the same way as a stream. */

export interface MessageContext {
  model: string;
  newId(): string;
  paramOf(param: string): string;
  /** Seals what the model's provider needs back. */
  seal(envelope: Envelope): string;
}

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
  usage: MessageUsage;
  routing?: Routing;
}

/** The writer of one answer. Its events and its whole message have the same content. */
export function createMessageWriter({ model, newId, paramOf, seal }: MessageContext): AnswerWriter {
  const id = `msg_${newId()}`;
  const seen: Seen = { model, finish_reason: "stop", usage: NO_USAGE };
  const piecesOf = createPieceReader();
  const blocks = createBlockEvents((found) => seal({ ...found, model: seen.model }));
  let has_begun = false;

  const record = (content: AnswerBlock[], stop_reason: MessageRecord["stop_reason"]): MessageRecord => ({
    ...{ id, type: "message", role: "assistant", model: seen.model, content, stop_reason, stop_sequence: null },
    usage: seen.usage,
    ...(seen.routing === undefined ? {} : { routing: seen.routing }),
  });
  const begin = (): object[] => {
    if (has_begun) return [];
    has_begun = true;
    return [{ type: "message_start", message: record([], null) }];
  };
  const take = (delta: Delta): object[] => {
    blocks.noteSignatures(delta);
    return piecesOf(delta).flatMap((piece: Piece) => blocks.add(piece));
  };

  return {
    paramOf,
    chunk(chunk: Chunk): string {
      note(chunk, seen);
      return written([...begin(), ...(chunk.choices ?? []).slice(0, 1).flatMap(({ delta }) => take(delta ?? {}))]);
    },
    end(): string {
      const stop_reason = STOP[seen.finish_reason];
      const routing = seen.routing === undefined ? {} : { routing: seen.routing };
      const ended = {
        type: "message_delta",
        delta: { stop_reason, stop_sequence: null },
        usage: seen.usage,
        ...routing,
      };
      return written([...begin(), ...blocks.close(), ended, { type: "message_stop" }]);
    },
    failed(error: Pick<ErrorShape, "type" | "code" | "message">): string {
      return written([anthropicError(error, null)]);
    },
    whole(response: ChatResponse): MessageRecord {
      const [choice] = response.choices;
      note({ ...response, choices: [{ finish_reason: choice?.finish_reason ?? null }] } as unknown as Chunk, seen);
      take((choice?.message ?? {}) as Delta);
      blocks.close();
      return record(blocks.content(), STOP[seen.finish_reason]);
    },
  };
}

function note({ model, usage, routing, choices }: Chunk, seen: Seen): void {
  if (typeof model === "string") seen.model = model;
  if (usage != null) seen.usage = messageUsage(usage);
  if (routing !== undefined) seen.routing = routing;
  seen.finish_reason = choices?.[0]?.finish_reason ?? seen.finish_reason;
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
