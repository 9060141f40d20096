import type { ToolCallDelta } from "../contract/completions.ts";
import { newId } from "../platform/ids.ts";
import { fieldsOf } from "../platform/json.ts";
import { objectsIn } from "./answer-shape.ts";

/** Reads and completes the calls of a streamed answer, which some providers number or name in their own way. */

/**
 * Numbers the calls of an answer from 0, by their streamed pieces. Some providers give all parallel calls the index 0:
 * another id with a name begins another call. Without an index, another id begins a call, and a piece without it continues the last.
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
    const is_whole = (Boolean(id) && id !== last?.id) || (has_name && last?.has_name === true && last.id === "");
    const known = index == null ? (is_whole ? undefined : last) : by_index.get(index);
    const is_other = known?.has_name === true && has_name && Boolean(known.id && id) && known.id !== id;
    const call = known === undefined || is_other ? begin(index ?? count) : known;
    call.id ||= id ?? "";
    call.has_name ||= has_name;
    return call.at;
  };
}

/**
 * Gives each call of a stream the next index from 0, and its first piece an id and a type: OpenAI's clients fail without
 * them. Changes the chunks' choices in place and returns whether it changed any.
 */
export function createCallCompleter(): (choices: unknown) => boolean {
  /** One for each choice. */
  const completers = new Map<unknown, (call: ToolCallDelta) => boolean>();
  return (choices) => {
    let has_changed = false;
    for (const choice of objectsIn(choices)) {
      const complete = completers.get(choice.index) ?? createChoiceCompleter();
      completers.set(choice.index, complete);
      for (const call of objectsIn(fieldsOf(choice.delta).tool_calls)) has_changed = complete(call) || has_changed;
    }
    return has_changed;
  };
}

function createChoiceCompleter(): (call: ToolCallDelta) => boolean {
  const numberOf = createCallNumbers();
  let begun = 0;
  return (call) => {
    const index = numberOf(call);
    const is_first = index === begun;
    if (is_first) begun += 1;
    const is_named = Boolean(call.id && call.type);
    if (call.index === index && (is_named || !is_first)) return false;
    call.index = index;
    if (is_first) {
      call.id ||= `call_${newId()}`;
      call.type ||= call.custom == null ? "function" : "custom";
    }
    return true;
  };
}
