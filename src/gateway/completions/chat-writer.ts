import type { ChatDelta, ChatResponse, ToolCallDelta } from "../../api/contract/completions.ts";
import { errorEvent } from "../../platform/net/event-stream.ts";
import type { AnswerEvent, AnswerPart } from "../models/answer-events.ts";
import type { AnswerWriter } from "./completions.types.ts";

/** Writes an answer as chunks of a chat completion. Chunks of a provider with the same API are passed on as they are. */

/**
 * The usage has a chunk of its own if the caller asked for it with `include_usage`. Otherwise the chunk with the finish
 * reason has it, because many clients read `choices[0]` of every chunk.
 */
export function createChatWriter({
  request_id,
  include_usage,
}: {
  request_id: string;
  include_usage: boolean;
}): AnswerWriter {
  let identity: Record<string, unknown> = {};
  /** The choices whose first chunk is written. */
  const begun = new Set<number>();
  /** The chunk with the finish reason, which waits for the usage. */
  let held = "";

  function toChunk(choices: object[], fields: object = {}): string {
    return eventText({ ...identity, object: "chat.completion.chunk", choices, ...fields });
  }

  function choiceChunk(index: number, delta: ChatDelta): string {
    return toChunk([{ index, delta: { ...firstFields(index), ...delta }, finish_reason: null }]);
  }

  /** The fields that the first chunk of a choice has. */
  function firstFields(index: number): ChatDelta {
    if (begun.has(index)) return {};
    begun.add(index);
    return { role: "assistant" };
  }

  function chunk(event: AnswerEvent): string {
    switch (event.type) {
      case "start":
        return choiceChunk(0, { content: "" });
      case "text":
        return choiceChunk(event.choice, { content: event.text });
      case "refusal":
        return choiceChunk(event.choice, { refusal: event.text });
      case "reasoning":
        return choiceChunk(event.choice, reasoningFields(event));
      case "reasoning_details":
        return choiceChunk(event.choice, { reasoning_details: event.details });
      case "call":
      case "arguments":
        return choiceChunk(event.choice, { tool_calls: [callPiece(event)] });
      case "end":
        return ending(event);
      case "error":
        return held + errorEvent(event.error, { request_id });
      case "model":
      case "service_tier":
      case "finish":
        return "";
    }
  }

  /** One chunk with all ends of a part. */
  function finishChunk(events: readonly AnswerEvent[]): string {
    const choices = events.flatMap((event) => {
      if (event.type !== "finish") return [];
      const stop = event.stop_sequence === null ? {} : { stop_reason: event.stop_sequence };
      return [{ index: event.choice, delta: firstFields(event.choice), finish_reason: event.reason, ...stop }];
    });
    return choices.length === 0 ? "" : hold(toChunk(choices), true);
  }

  function note(event: AnswerEvent): void {
    if (event.type === "start") {
      identity = { id: event.id, created: event.created, model: event.model, ...event.fields };
    }
    if (event.type === "model") identity = { ...identity, model: event.model };
  }

  /** Keeps the chunk with the finish reason, if the usage will be in it, and returns what can be written now. */
  function hold(text: string, has_finish: boolean): string {
    if (include_usage || !has_finish) return text;
    const before = held;
    held = text;
    return before;
  }

  /** The last chunks, with the usage and the end marker. */
  function ending({ usage, routing }: Extract<AnswerEvent, { type: "end" }>): string {
    const added = { ...(usage === null ? {} : { usage }), ...(routing === null ? {} : { routing }) };
    const last = include_usage || held === "" ? toChunk([], added) : withFields(held, added);
    return `${last}data: [DONE]\n\n`;
  }

  /** The chunk with further fields. OpenAI's clients ignore the usage of one without an id. */
  function withFields(text: string, fields: object): string {
    const chunk = JSON.parse(text.slice("data: ".length)) as { id?: unknown };
    return eventText({ ...chunk, id: chunk.id || identity.id, ...fields });
  }

  return {
    write({ events, chat_text }: AnswerPart): string {
      for (const event of events) note(event);
      const has_finish = events.some(({ type }) => type === "finish");
      if (chat_text !== undefined) {
        for (const event of events) if ("choice" in event) begun.add(event.choice);
        return hold(chat_text, has_finish);
      }
      return [...events.map(chunk), finishChunk(events)].join("");
    },
    failed: (error) => errorEvent(error, { request_id }),
    whole: (response: ChatResponse) => response,
    paramOf: (param) => param,
  };
}

function reasoningFields({ text, field }: Extract<AnswerEvent, { type: "reasoning" }>): ChatDelta {
  return { reasoning_content: text, ...(field === undefined ? {} : { [field]: text }) };
}

function callPiece(event: Extract<AnswerEvent, { type: "call" | "arguments" }>): ToolCallDelta {
  const { at: index, tool, text } = event;
  if (event.type === "arguments") {
    return { index, ...(tool === "custom" ? { custom: { input: text } } : { function: { arguments: text } }) };
  }
  const { id, name, extra_content } = event;
  const called = tool === "custom" ? { custom: { name, input: text } } : { function: { name, arguments: text } };
  return { index, id, type: tool, ...called, ...(extra_content === undefined ? {} : { extra_content }) };
}

function eventText(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
