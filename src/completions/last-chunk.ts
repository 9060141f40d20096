import { CALLS, FINISH_REASON, payloadOf } from "../models/event-relay.ts";
import type { CompletionOutcome } from "./completions.types.ts";

const EVENT_END = "\n\n";
const ROLE = /"role"\s*:\s*"assistant"/;

/**
 * The end of a stream. The usage has a chunk of its own if the caller asked for it with `include_usage`. Otherwise the
 * chunk with the finish reason carries it, because many clients read `choices[0]` of every chunk. A provider that sends
 * no finish reason gets one here: OpenAI's clients need it.
 */
export function createLastChunk(has_own_chunk: boolean) {
  let held = "";
  let has_role = false;
  let has_calls = false;
  let has_finished = false;
  return {
    /** The events of a block that can be written now. */
    pass(block: string): string {
      has_role ||= ROLE.test(block);
      has_calls ||= CALLS.test(block);
      has_finished ||= FINISH_REASON.test(block);
      if (has_own_chunk || !has_finished) return block;
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
      const own = (choices: object[]) => ({ ...identity, object: "chat.completion.chunk", choices });
      const delta = has_role ? {} : { role: "assistant", content: "" };
      const finish_reason = has_calls ? "tool_calls" : "stop";
      const finish = held === "" ? own([{ index: 0, delta, finish_reason }]) : withId(held, identity.id);
      if (!has_own_chunk) return `${eventOf({ ...finish, ...added })}data: [DONE]\n\n`;
      return `${has_finished ? "" : eventOf(finish)}${eventOf({ ...own([]), ...added })}data: [DONE]\n\n`;
    },
  };
}

/** The chunk of an event. OpenAI's clients ignore the usage of one without an id. */
function withId(event: string, id: string): object {
  const chunk = JSON.parse(payloadOf(event)) as { id?: unknown };
  return chunk.id ? chunk : { ...chunk, id };
}

function eventOf(chunk: object): string {
  return `data: ${JSON.stringify(chunk)}${EVENT_END}`;
}
