import type {
  ChatDelta,
  FinishReason,
  ReasoningDetail,
  ToolCall,
  ToolCallDelta,
} from "../../api/contract/completions.ts";
import { type Chunk, chunksOf, createCallNumbers, finishReasonOf } from "../../gateway/completions/answer-pieces.ts";
import { PurserError } from "../../kernel/errors.ts";
import type { AssistantMessage } from "./transcript.ts";

/** Assembles a streamed answer: takes server-sent events, returns the assistant's message. */
export function createAnswerReader() {
  let content = "";
  let finish_reason: FinishReason = "stop";
  const reasoning = createReasoningReader();
  const numberOf = createCallNumbers();
  /** In the order in which they began. `index`: the provider's. */
  const calls: { index: number; call: ToolCall }[] = [];

  const addCall = (delta: ToolCallDelta) => {
    const at = numberOf(delta);
    const { index, function: piece, ...rest } = delta;
    const { call: begun, index: place } = calls[at] ?? {
      index: index ?? at,
      call: { id: `call_${index ?? at}`, type: "function" as const, function: { name: "", arguments: "" } },
    };
    // Some providers repeat the name in every piece.
    const name = begun.function.name || (piece?.name ?? "");
    const text = begun.function.arguments + (piece?.arguments ?? "");
    const call = {
      ...begun,
      ...rest,
      id: rest.id || begun.id,
      type: "function" as const,
      function: { ...begun.function, ...piece, name, arguments: text },
    };
    calls[at] = { index: place, call };
  };
  const add = (chunk: Chunk): string => {
    if (chunk.error != null) {
      const { type, code, message } = chunk.error;
      throw new PurserError({ status: 502, type, code, message });
    }
    const choice = chunk.choices?.[0];
    if (choice?.finish_reason != null) finish_reason = finishReasonOf(choice.finish_reason);
    for (const call of choice?.delta?.tool_calls ?? []) addCall(call);
    if (choice?.delta != null) reasoning.add(choice.delta);
    const text = choice?.delta?.content ?? "";
    content += text;
    return text;
  };

  return {
    /** Takes complete events and returns the text that they add. Throws the failure that an event reports. */
    read(events: string): string {
      return chunksOf(events)
        .map((chunk) => (chunk === null ? "" : add(chunk)))
        .join("");
    },
    /** The answer received so far. */
    message(): AssistantMessage {
      const tool_calls = calls.toSorted((one, other) => one.index - other.index).map(({ call }) => call);
      return {
        role: "assistant",
        content: content === "" ? null : content,
        ...reasoning.fields(),
        ...(tool_calls.length > 0 ? { tool_calls } : {}),
      };
    },
    finishReason: () => finish_reason,
  };
}

/** The fields that hold readable reasoning. A provider uses one of them, and expects it back under the same name. */
const READABLE = ["reasoning_content", "reasoning"] as const;
/** The fields of a piece that continue the piece before. */
const CONTINUED = ["text", "summary", "data"] as const;

/** Assembles the reasoning of a streamed answer. */
function createReasoningReader() {
  const readable = { reasoning_content: "", reasoning: "" };
  const details: ReasoningDetail[] = [];

  const addDetail = (piece: ReasoningDetail) => {
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
      const is_text = (CONTINUED as readonly string[]).includes(field) && typeof value === "string";
      if (is_text) last[field] = String(last[field] ?? "") + value;
      else if (value != null) last[field] = value;
    }
  };
  return {
    add(delta: ChatDelta): void {
      for (const field of READABLE) {
        const text = delta[field];
        if (typeof text === "string") readable[field] += text;
      }
      if (Array.isArray(delta.reasoning_details)) for (const piece of delta.reasoning_details) addDetail(piece);
    },
    fields(): Partial<AssistantMessage> {
      const read = Object.fromEntries(
        READABLE.flatMap((field) => (readable[field] === "" ? [] : [[field, readable[field]]])),
      );
      return { ...read, ...(details.length === 0 ? {} : { reasoning_details: details }) };
    },
  };
}
