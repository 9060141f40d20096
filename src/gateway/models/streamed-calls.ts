import type { ToolCallDelta } from "../../api/contract/completions.ts";
import { newId } from "../../platform/lib/ids.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { objectsIn } from "./answer-shape.ts";

/** Reads and completes the calls of a streamed answer, which some providers number or name in their own way. */

/**
 * Numbers the calls of an answer from 0, by their streamed pieces. Some providers give all parallel calls the index 0:
 * another id or another name begins another call there, and so does a name after complete arguments. Without an index,
 * another id begins a call, and a piece without it continues the last.
 */
export function createCallNumbers(): (piece: ToolCallDelta) => number {
  interface Begun {
    at: number;
    id: string;
    name: string;
    text: string;
  }
  const by_index = new Map<number, Begun>();
  let last: Begun | undefined;
  let count = 0;

  function begin(index: number): Begun {
    last = { at: count, id: "", name: "", text: "" };
    by_index.set(index, last);
    count += 1;
    return last;
  }
  /** Whether a piece with a name begins a call after `known`, and is not a piece of it that repeats the name. */
  function isOther(known: Begun, id: string, name: string, text: string): boolean {
    if (known.name === "" || name === "") return false;
    if (known.id !== "" && id !== "" && known.id !== id) return true;
    if ((known.id === "") !== (id === "")) return false;
    return known.name !== name || (id === "" && text !== "" && isJsonObjectText(known.text));
  }
  return ({ index, id: given_id, function: called }) => {
    const id = given_id ?? "";
    const name = called?.name ?? "";
    const text = called?.arguments ?? "";
    // Calls without any id are whole ones.
    const is_whole =
      (id !== "" && id !== last?.id) || (name !== "" && last !== undefined && last.name !== "" && last.id === "");
    const known = index == null ? (is_whole ? undefined : last) : by_index.get(index);
    const call = known === undefined || isOther(known, id, name, text) ? begin(index ?? count) : known;
    call.id ||= id;
    call.name ||= name;
    if (call.id === "") call.text += text;
    return call.at;
  };
}

/** Whether the arguments of a call are complete. Most pieces do not end with a brace, and are not parsed. */
function isJsonObjectText(text: string): boolean {
  if (!text.trimEnd().endsWith("}")) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
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
  const taken = new Set<string>();
  return (call) => {
    const index = numberOf(call);
    let has_changed = call.index !== index;
    call.index = index;
    if (index < taken.size) return has_changed;
    if (!call.id || taken.has(call.id)) {
      call.id = `call_${newId()}`;
      has_changed = true;
    }
    if (!call.type) {
      call.type = call.custom == null ? "function" : "custom";
      has_changed = true;
    }
    taken.add(call.id);
    return has_changed;
  };
}
