import type { ChatResponse, FinishReason, Routing, Usage } from "../../api/contract/completions.ts";
import type { AnswerBlock, MessageRecord, MessageUsage } from "../../api/contract/messages.ts";
import { anthropicError } from "../../api/contract/messages.ts";
import type { PurserError } from "../../kernel/errors.ts";
import type { AnswerWriter } from "../completions/completions.types.ts";
import type { Envelope } from "../completions/reasoning-envelope.ts";
import type { AnswerEvent, AnswerPart } from "../models/answer-events.ts";
import { responseEvents } from "../models/answer-message.ts";
import { createBlockEvents } from "./block-events.ts";

/** Writes an answer as a message of Anthropic's API. A whole answer takes the same way as a stream. */

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

/** What the events have told so far, besides the content. */
interface Seen {
  model: string;
  finish_reason: FinishReason;
  /** The caller's sequence that ended the answer; null: it ended otherwise. */
  stop_sequence: string | null;
  usage: MessageUsage;
  routing: Routing | null;
}

/** The writer of one answer. Its events and its whole message have the same content. */
export function createMessageWriter({ model, stop_sequences, newId, paramOf, seal }: MessageContext): AnswerWriter {
  const id = `msg_${newId()}`;
  const seen: Seen = { model, finish_reason: "stop", stop_sequence: null, usage: NO_USAGE, routing: null };
  const asked_stops = new Set<string | null>(stop_sequences);
  const blocks = createBlockEvents((found) => seal({ ...found, model: seen.model }));

  function record(content: AnswerBlock[], stop: Stop): MessageRecord {
    const routing = seen.routing === null ? {} : { routing: seen.routing };
    const { model, usage } = seen;
    return { id, type: "message", role: "assistant", model, content, ...stop, usage, ...routing };
  }

  /** The events of Anthropic's API for one of the answer. */
  function take(event: AnswerEvent): object[] {
    switch (event.type) {
      case "start":
        seen.model = event.model;
        return [{ type: "message_start", message: record([], { stop_reason: null, stop_sequence: null }) }];
      case "model":
        seen.model = event.model;
        return [];
      case "text":
      case "refusal":
      case "reasoning":
      case "reasoning_details":
        return blocks.add(event);
      case "call":
        return blocks.call(event);
      case "arguments":
        return blocks.addArguments(event);
      case "finish":
        seen.finish_reason = event.reason;
        // Other servers give other things in this field.
        if (asked_stops.has(event.stop_sequence)) seen.stop_sequence = event.stop_sequence;
        return [];
      case "service_tier":
        return [];
      case "end": {
        if (event.usage !== null) seen.usage = messageUsage(event.usage);
        const routing = event.routing === null ? {} : { routing: event.routing };
        const delta = toStop(seen, blocks.hasCall());
        const ended = { type: "message_delta", delta, usage: seen.usage, ...routing };
        return [...blocks.close(), ended, { type: "message_stop" }];
      }
      case "error":
        return [anthropicError(event.error.shape, null)];
    }
  }

  return {
    paramOf,
    write({ events }: AnswerPart): string {
      blocks.noteSignatures(events);
      return written(events.flatMap((event) => ("choice" in event && event.choice !== 0 ? [] : take(event))));
    },
    failed: (error: PurserError): string => written([anthropicError(error.shape, null)]),
    whole(response: ChatResponse): MessageRecord {
      const events = responseEvents(response);
      blocks.noteSignatures(events);
      for (const event of events) take(event);
      if (response.usage !== undefined) seen.usage = messageUsage(response.usage);
      seen.routing = response.routing ?? null;
      blocks.close();
      return record(blocks.content(), toStop(seen, blocks.hasCall()));
    },
  };
}

/** Some providers end an answer that has calls with `stop`; OpenAI does so after a forced call. */
function toStop({ finish_reason, stop_sequence }: Seen, has_call: boolean): Stop {
  if (finish_reason === "stop" && has_call) {
    return { stop_reason: "tool_use", stop_sequence: null };
  }
  if (finish_reason === "stop" && stop_sequence !== null) return { stop_reason: "stop_sequence", stop_sequence };
  return { stop_reason: STOP[finish_reason], stop_sequence: null };
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
