import type { AnyToolCall, ChatResponse, FinishReason, ReasoningDetail } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { type AnswerEvent, type CallEvent, generatedBytes } from "./answer-events.ts";
import { toFinishReason } from "./dialects.ts";

/** Answers as whole messages, from events and back. */

type AnswerMessage = ChatResponse["choices"][number]["message"];

/** The fields of a piece of reasoning that continue the piece before. */
const CONTINUED: ReadonlySet<string> = new Set(["text", "summary", "data"]);

/** Assembles the first choice of an answer. */
export function createMessageBuilder() {
  const texts = { content: "", refusal: "", reasoning_content: "", reasoning: "" };
  const details: ReasoningDetail[] = [];
  const calls: AnyToolCall[] = [];
  let finish_reason: FinishReason = "stop";
  let stop_sequence: string | null = null;

  function addDetail(piece: ReasoningDetail): void {
    const last = details.at(-1);
    // Other providers stream a piece in parts, which have the same place; ours are whole and name their model.
    const continues =
      piece.model === undefined &&
      last !== undefined &&
      last.type === piece.type &&
      last.index === piece.index &&
      (piece.id == null || last.id == null || last.id === piece.id);
    if (!continues) return void details.push({ ...piece });
    for (const [field, value] of Object.entries(piece)) {
      if (CONTINUED.has(field) && typeof value === "string") last[field] = String(last[field] ?? "") + value;
      else if (value != null) last[field] = value;
    }
  }

  return {
    add(event: AnswerEvent): void {
      if ("choice" in event && event.choice !== 0) return;
      switch (event.type) {
        case "text":
          texts.content += event.text;
          break;
        case "refusal":
          texts.refusal += event.text;
          break;
        case "reasoning":
          texts.reasoning_content += event.text;
          if (event.field !== undefined) texts[event.field] += event.text;
          break;
        case "reasoning_details":
          for (const piece of event.details) addDetail(piece);
          break;
        case "call": {
          const { at, tool, id, name, text, extra_content } = event;
          const extra = extra_content === undefined ? {} : { extra_content };
          calls[at] =
            tool === "custom"
              ? { id, type: tool, custom: { name, input: text }, ...extra }
              : { id, type: tool, function: { name, arguments: text }, ...extra };
          break;
        }
        case "arguments": {
          const call = calls[event.at];
          if (call === undefined) break;
          if (call.type === "custom") call.custom.input += event.text;
          else call.function.arguments += event.text;
          break;
        }
        case "finish":
          finish_reason = event.reason;
          stop_sequence = event.stop_sequence;
      }
    },
    /** The message so far. */
    message(): AnswerMessage {
      const { content, refusal, reasoning_content, reasoning } = texts;
      const tool_calls = calls.filter((call) => call !== undefined);
      return {
        role: "assistant",
        content: content === "" ? null : content,
        ...(refusal === "" ? {} : { refusal }),
        ...(reasoning_content === "" ? {} : { reasoning_content }),
        ...(reasoning === "" ? {} : { reasoning }),
        ...(details.length === 0 ? {} : { reasoning_details: details }),
        ...(tool_calls.length === 0 ? {} : { tool_calls }),
      };
    },
    finishReason: () => finish_reason,
    stopSequence: () => stop_sequence,
  };
}

/** The first choice of a whole answer as events. */
export function responseEvents(response: ChatResponse): AnswerEvent[] {
  const { id, created, model, service_tier } = response as ChatResponse & { service_tier?: unknown };
  const [choice] = response.choices;
  const tier: AnswerEvent[] = typeof service_tier === "string" ? [{ type: "service_tier", tier: service_tier }] : [];
  const said = choice === undefined ? [] : choiceEvents(choice);
  return [{ type: "start", id, created, model }, ...tier, ...said];
}

/** The UTF-8 bytes of the text that the model generated, in all choices. */
export function responseBytes({ choices }: ChatResponse): number {
  return generatedBytes(choices.flatMap(choiceEvents));
}

function choiceEvents({ message, finish_reason, stop_reason }: ChatResponse["choices"][number]): AnswerEvent[] {
  const { content, refusal, reasoning_content, reasoning, reasoning_details: details, tool_calls } = message;
  const thought = reasoning_content || reasoning;
  const events: AnswerEvent[] = [];
  if (typeof thought === "string" && thought !== "") events.push({ type: "reasoning", choice: 0, text: thought });
  if (Array.isArray(details)) events.push({ type: "reasoning_details", choice: 0, details });
  if (content) events.push({ type: "text", choice: 0, text: content });
  if (typeof refusal === "string" && refusal !== "") events.push({ type: "refusal", choice: 0, text: refusal });
  const stop_sequence = typeof stop_reason === "string" ? stop_reason : null;
  return [
    ...events,
    ...(tool_calls ?? []).map(callEvent),
    { type: "finish", choice: 0, reason: toFinishReason(finish_reason), stop_sequence },
  ];
}

/** A whole call. `at`: its place in the answer. */
export function callEvent({ id, type: tool, extra_content, ...call }: AnyToolCall, at: number): CallEvent {
  const { name, arguments: given, input } = fieldsOf("custom" in call ? call.custom : call.function);
  const text = String(given ?? input ?? "");
  const extra = extra_content == null ? {} : { extra_content };
  return { type: "call", choice: 0, at, tool, id, name: String(name ?? ""), text, ...extra };
}
