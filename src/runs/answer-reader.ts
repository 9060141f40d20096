import type { FinishReason, ToolCall } from "../contract/completions.ts";
import { type ErrorType, PurserError } from "../errors.ts";
import type { AssistantMessage } from "./transcript.ts";

/** A tool call, or a piece of one. `index` names the call of a piece; some providers omit it for whole calls. */
type CallPiece = { index?: number; function?: Partial<ToolCall["function"]> } & Partial<Omit<ToolCall, "function">>;

/** What a chunk adds to the answer. */
interface Delta {
  content?: string | null;
  tool_calls?: CallPiece[];
}

interface Chunk {
  choices?: { delta?: Delta; finish_reason?: FinishReason | null }[];
  error?: { type: ErrorType; code: string; message: string };
}

/** Assembles a streamed answer: takes server-sent events, returns the assistant's message. */
export function createAnswerReader() {
  let content = "";
  let finish_reason: FinishReason = "stop";
  const calls = new Map<number, ToolCall>();

  const addCall = ({ index, function: piece, ...rest }: CallPiece) => {
    const at = index ?? (rest.id === undefined ? calls.size - 1 : calls.size);
    const begun = calls.get(at) ?? {
      id: `call_${at}`,
      type: "function" as const,
      function: { name: "", arguments: "" },
    };
    // Some providers repeat the name in every piece.
    const name = begun.function.name || (piece?.name ?? "");
    const text = begun.function.arguments + (piece?.arguments ?? "");
    calls.set(at, {
      ...begun,
      ...rest,
      id: rest.id || begun.id,
      type: "function",
      function: { ...begun.function, ...piece, name, arguments: text },
    });
  };
  const add = (chunk: Chunk): string => {
    if (chunk.error !== undefined) throw new PurserError({ status: 502, ...chunk.error });
    const choice = chunk.choices?.[0];
    finish_reason = choice?.finish_reason ?? finish_reason;
    for (const call of choice?.delta?.tool_calls ?? []) addCall(call);
    const text = choice?.delta?.content ?? "";
    content += text;
    return text;
  };

  return {
    /** Takes complete events and returns the text that they add. Throws the failure that an event reports. */
    read(events: string): string {
      const data = events.split("\n").filter((line) => line.startsWith("data: ") && line !== "data: [DONE]");
      return data.map((line) => add(JSON.parse(line.slice("data: ".length)) as Chunk)).join("");
    },
    /** The answer received so far. */
    message(): AssistantMessage {
      const tool_calls = [...calls].sort(([one], [other]) => one - other).map(([, call]) => call);
      return {
        role: "assistant",
        content: content === "" ? null : content,
        ...(tool_calls.length > 0 ? { tool_calls } : {}),
      };
    },
    finishReason: () => finish_reason,
  };
}
