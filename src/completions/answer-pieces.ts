import type { ChatChunk, ChatDelta, ToolCallDelta } from "../contract/completions.ts";
import type { ErrorShape } from "../errors.ts";
import { newId } from "../platform/ids.ts";

export { finishReasonOf } from "../models/answer-shape.ts";

/** Reads chat completions for the endpoints that answer in another shape. Pure, but for new ids. */

/** What a message or a chunk adds to the answer. */
export type Delta = ChatDelta;

/** A chunk of a chat completion, or the error that ends its stream. */
export type Chunk = Partial<ChatChunk> & { error?: Pick<ErrorShape, "type" | "code" | "message"> };

/** `at` names the call of the answer, counted from 0. */
export type Piece =
  | { type: "reasoning" | "text" | "refusal"; text: string }
  /** Data of the model's provider, to be sent back with the answer and not shown. */
  | { type: "details"; details: unknown[] }
  | { type: "call"; at: number; id: string; name: string }
  | { type: "arguments"; at: number; text: string };

/**
 * Numbers the calls of an answer from 0, by their streamed pieces. Some providers give all parallel calls the index 0:
 * another id with a name begins another call. Without an index, an id begins a call, and a piece without one continues the last.
 */
export function createCallNumbers(): (piece: ToolCallDelta) => number {
  interface Begun {
    at: number;
    id: string;
    has_name: boolean;
  }
  const by_index = new Map<number, Begun>();
  let last: Begun | undefined;
  let count = 0;

  function begin(index: number): Begun {
    last = { at: count, id: "", has_name: false };
    by_index.set(index, last);
    count += 1;
    return last;
  }
  return ({ index, id, function: called }) => {
    const has_name = (called?.name ?? "") !== "";
    // Calls without any id are whole ones.
    const is_whole = id !== undefined || (has_name && last?.has_name === true && last.id === "");
    const known = index == null ? (is_whole ? undefined : last) : by_index.get(index);
    const is_other = known?.has_name === true && has_name && Boolean(known.id && id) && known.id !== id;
    const call = known === undefined || is_other ? begin(index ?? count) : known;
    call.id ||= id ?? "";
    call.has_name ||= has_name;
    return call.at;
  };
}

/** Splits what chunks add into pieces of one kind each. */
export function createPieceReader(): (delta: Delta) => Piece[] {
  const begun = new Map<number, { named: boolean; id: string; early: string }>();
  const numberOf = createCallNumbers();

  function ofCall(delta: ToolCallDelta): Piece[] {
    const { id, function: called } = delta;
    const at = numberOf(delta);
    const call = begun.get(at) ?? { named: false, id: id || `call_${newId()}`, early: "" };
    begun.set(at, call);
    const text = called?.arguments ?? "";
    const name = called?.name ?? "";
    if (call.named) return text === "" ? [] : [{ type: "arguments", at, text }];
    call.early += text;
    // Some providers repeat the name in every piece, so only the first begins the call.
    if (name === "") return [];
    call.named = true;
    const start: Piece = { type: "call", at, id: call.id, name };
    return call.early === "" ? [start] : [start, { type: "arguments", at, text: call.early }];
  }

  return ({ content, refusal, reasoning_content, reasoning, reasoning_details, tool_calls }) => {
    const thought = reasoning_content ?? reasoning;
    const pieces: Piece[] = [];
    if (typeof thought === "string" && thought !== "") pieces.push({ type: "reasoning", text: thought });
    if (Array.isArray(reasoning_details)) pieces.push({ type: "details", details: reasoning_details });
    if (typeof content === "string" && content !== "") pieces.push({ type: "text", text: content });
    if (typeof refusal === "string" && refusal !== "") pieces.push({ type: "refusal", text: refusal });
    if (Array.isArray(tool_calls)) pieces.push(...tool_calls.flatMap(ofCall));
    return pieces;
  };
}

/** The chunks in a block of server-sent events. `null` is the end marker. */
export function chunksOf(block: string): (Chunk | null)[] {
  return block.split("\n\n").flatMap((event) => {
    const lines = event.split("\n").filter((line) => line.startsWith("data:"));
    if (lines.length === 0) return [];
    const data = lines.map((line) => line.slice("data:".length).trimStart()).join("\n");
    return [data === "[DONE]" ? null : (JSON.parse(data) as Chunk)];
  });
}
