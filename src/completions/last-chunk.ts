import { FINISH_REASON, payloadOf } from "../models/event-relay.ts";
import type { CompletionOutcome } from "./completions.types.ts";

const EVENT_END = "\n\n";

/**
 * The end of a stream. The usage has a chunk of its own if the caller asked for it with `include_usage`. Otherwise the
 * chunk with the finish reason carries it, because many clients read `choices[0]` of every chunk.
 */
export function createLastChunk(has_own_chunk: boolean) {
  let held = "";
  return {
    /** The events of a block that can be written now. */
    pass(block: string): string {
      if (has_own_chunk) return block;
      let out = "";
      let rest = block;
      for (let at = rest.search(FINISH_REASON); at !== -1; at = rest.search(FINISH_REASON)) {
        const before = rest.lastIndexOf(EVENT_END, at);
        const start = before === -1 ? 0 : before + EVENT_END.length;
        const end = rest.indexOf(EVENT_END, at);
        out += rest.slice(0, start) + held;
        held = end === -1 ? rest.slice(start) : rest.slice(start, end + EVENT_END.length);
        rest = rest.slice(start + held.length);
      }
      return out + rest;
    },
    /** The event with the finish reason, which waits for the usage. */
    held: () => held,
    /** The last events: the usage, and the end marker. */
    withUsage(outcome: CompletionOutcome | null, identity: { id: string; created: number; model: string }): string {
      const added = { usage: outcome?.usage, routing: outcome?.routing };
      const choices = has_own_chunk ? [] : [{ index: 0, delta: {}, finish_reason: "stop" }];
      const own = { ...identity, object: "chat.completion.chunk", choices };
      const chunk = held === "" ? own : (JSON.parse(payloadOf(held)) as object);
      return `data: ${JSON.stringify({ ...chunk, ...added })}\n\ndata: [DONE]\n\n`;
    },
  };
}
