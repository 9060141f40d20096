import type { ChatChunk, ChatDelta, ToolCallDelta } from "../../api/contract/completions.ts";
import type { ErrorShape } from "../../kernel/errors.ts";
import { newId } from "../../platform/lib/ids.ts";
import { createCallNumbers } from "../models/streamed-calls.ts";

export { finishReasonOf } from "../models/answer-shape.ts";
export { createCallNumbers } from "../models/streamed-calls.ts";

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
    const thought = reasoning_content || reasoning;
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
