import { objectsIn } from "../models/answer-shape.ts";
import { CALLS, chunksIn, FINISH_REASON, payloadOf } from "../models/event-relay.ts";
import type { CompletionOutcome } from "./completions.types.ts";

const EVENT_END = "\n\n";
const ROLE = /"role"\s*:\s*"assistant"/;

/** What the events of a choice have shown so far. */
interface ChoiceState {
  has_role: boolean;
  has_calls: boolean;
  has_finished: boolean;
}

/**
 * Follows the choices of a stream. The text of one choice is only searched; several choices are told apart by parsing.
 * Choices beyond `count` are ignored: a provider could send any number of them.
 */
function createChoiceStates(count: number) {
  const newState = (): ChoiceState => ({ has_role: false, has_calls: false, has_finished: false });
  const first = newState();
  const states = new Map([[0, first]]);
  const note = (state: ChoiceState, text: string) => {
    state.has_role ||= ROLE.test(text);
    state.has_calls ||= CALLS.test(text);
    state.has_finished ||= FINISH_REASON.test(text);
  };
  return {
    see(block: string): void {
      if (count === 1) {
        note(first, block);
        return;
      }
      for (const choice of chunksIn(block).flatMap(({ choices }) => objectsIn(choices))) {
        const index = choice.index as number;
        if (!(Number.isInteger(index) && index >= 0 && index < count)) continue;
        const state = states.get(index) ?? newState();
        states.set(index, state);
        note(state, JSON.stringify(choice));
      }
    },
    hasFinish: () => [...states.values()].some(({ has_finished }) => has_finished),
    /** The end of each choice that has no finish reason. */
    ends: (): object[] =>
      [...states].flatMap(([index, { has_role, has_calls, has_finished }]) => {
        const delta = has_role ? {} : { role: "assistant", content: "" };
        return has_finished ? [] : [{ index, delta, finish_reason: has_calls ? "tool_calls" : "stop" }];
      }),
  };
}

/**
 * The end of a stream. The usage has a chunk of its own if the caller asked for it with `include_usage`. Otherwise the
 * chunk with the finish reason carries it, because many clients read `choices[0]` of every chunk. A choice whose provider
 * sends no finish reason gets one here: OpenAI's clients need it. `count`: the number of choices.
 */
export function createLastChunk(has_own_chunk: boolean, count: number) {
  let held = "";
  const choices = createChoiceStates(count);
  return {
    /** The events of a block that can be written now. */
    pass(block: string): string {
      choices.see(block);
      if (has_own_chunk || !choices.hasFinish()) return block;
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
      const ends = choices.ends();
      const finish = own(ends);
      const last = has_own_chunk ? own([]) : held === "" ? finish : withId(held, identity.id);
      const before = last === finish || ends.length === 0 ? "" : eventOf(finish);
      return `${before}${eventOf({ ...last, ...added })}data: [DONE]\n\n`;
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
