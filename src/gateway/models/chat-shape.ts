import type { ChatResponse, ToolCallDelta } from "../../api/contract/completions.ts";
import { newId } from "../../platform/lib/ids.ts";
import { isJsonObject, jsonOrUndefined } from "../../platform/lib/json.ts";
import { newIdentity } from "./answer-events.ts";
import { toEnding, toFinishReason } from "./dialects.ts";

/**
 * Puts choices of OpenAI-compatible servers into OpenAI's shape. Some give text as a list of parts, arguments of a call
 * as an object, finish reasons of their own, or leave out fields that clients need.
 */

type Fields = Record<string, unknown>;

const OPENAI_REASONS: ReadonlySet<unknown> = new Set([
  null,
  undefined,
  "stop",
  "length",
  "tool_calls",
  "content_filter",
]);

/** Changes a choice in place where its content, its calls or its finish reason have another shape. Returns whether. */
export function reshapeChoice(choice: Fields): boolean {
  let is_changed = false;
  const { finish_reason } = choice;
  // Some servers write an empty one or false in every chunk.
  if (!OPENAI_REASONS.has(finish_reason)) {
    choice.finish_reason = toEnding(finish_reason) === null ? null : toFinishReason(finish_reason);
    is_changed = true;
  }
  const said = choice.message ?? choice.delta;
  if (!isJsonObject(said)) return is_changed;
  // Clients read one field or the other.
  if (typeof said.reasoning === "string" && said.reasoning !== "" && !said.reasoning_content) {
    said.reasoning_content = said.reasoning;
    is_changed = true;
  }
  if (Array.isArray(said.content)) {
    Object.assign(said, spokenIn(said.content, said.reasoning_content));
    is_changed = true;
  } else if (said.content != null && typeof said.content !== "string") {
    said.content = typeof said.content === "number" ? String(said.content) : null;
    is_changed = true;
  }
  // The call of OpenAI's first API for functions. Callers that send `functions` are told to send `tools`.
  if (isJsonObject(said.function_call) && said.tool_calls == null) {
    said.tool_calls = [{ type: "function", function: said.function_call }];
    delete said.function_call;
    is_changed = true;
  }
  if (said.tool_calls != null && !(Array.isArray(said.tool_calls) && said.tool_calls.every(isJsonObject))) {
    said.tool_calls = objectsIn(said.tool_calls);
    is_changed = true;
  }
  for (const call of objectsIn(said.tool_calls)) {
    const called = call.function;
    if (!isJsonObject(called) || !isJsonObject(called.arguments)) continue;
    called.arguments = JSON.stringify(called.arguments);
    is_changed = true;
  }
  return is_changed;
}

/**
 * The choices of a chunk that say something: a list without nulls, and without choices that have neither a delta nor a
 * finish reason. Some servers send the whole answer as `message` instead of a delta, or repeat it at the end of a choice
 * that `hasSaid` something.
 */
export function saidChoices(choices: unknown, hasSaid: (choice: Fields, place: number) => boolean): Fields[] {
  return objectsIn(choices).flatMap<Fields>(({ message, ...choice }, place) => {
    if (isJsonObject(message) && !hasSaid(choice, place)) return { ...choice, delta: message };
    if (isJsonObject(choice.delta)) return choice;
    return toEnding(choice.finish_reason) === null ? [] : { ...choice, delta: {} };
  });
}

/** Whether the provider itself says that its answer failed. */
export function isFailedAnswer(answer: object): boolean {
  const { error, choices } = answer as Fields;
  return Boolean(error) || objectsIn(choices).some((choice) => toEnding(choice.finish_reason) === "failed");
}

/** Completes a whole answer whose choices all have a message: changes it in place. */
export function reshapeAnswer(answer: ChatResponse): void {
  const { id, created } = newIdentity();
  if (typeof answer.id !== "string" || answer.id === "") answer.id = id;
  if (!Number.isInteger(answer.created)) answer.created = created;
  answer.object = "chat.completion";
  for (const [at, choice] of answer.choices.entries()) {
    reshapeChoice(choice);
    const message = choice.message as unknown as Fields;
    if (!Number.isInteger(choice.index)) choice.index = at;
    message.role = "assistant";
    if (typeof message.content !== "string") message.content = null;
    if (message.tool_calls == null) delete message.tool_calls;
    const calls = objectsIn(message.tool_calls);
    completeCalls(calls);
    const has_reason = choice.finish_reason != null;
    choice.finish_reason = !has_reason && calls.length > 0 ? "tool_calls" : toFinishReason(choice.finish_reason);
  }
}

/** Gives each call a type, arguments, and an id of its own: the result of a call names it by the id. */
function completeCalls(calls: readonly Fields[]): void {
  const taken = new Set<unknown>();
  for (const call of calls) {
    if (typeof call.id !== "string" || call.id === "" || taken.has(call.id)) call.id = `call_${newId()}`;
    if (call.type !== "custom") call.type = "function";
    const called = call.function;
    if (isJsonObject(called) && typeof called.arguments !== "string") called.arguments = "{}";
    taken.add(call.id);
  }
}

/** The text and the thoughts in a list of parts (Mistral). */
function spokenIn(parts: readonly unknown[], thought: unknown): Fields {
  const thoughts = parts.filter((part) => isJsonObject(part) && part.type === "thinking");
  const content = parts.filter((part) => !thoughts.includes(part)).map(extractText);
  if (thoughts.length === 0) return { content: content.join("") };
  const before = typeof thought === "string" ? thought : "";
  return { content: content.join(""), reasoning_content: before + thoughts.map(extractText).join("") };
}

function extractText(part: unknown): string {
  if (typeof part === "string") return part;
  if (Array.isArray(part)) return part.map(extractText).join("");
  if (!isJsonObject(part)) return "";
  return extractText(part.text ?? part.thinking);
}

/** The objects in a list; none if it is no list. */
export function objectsIn(list: unknown): Fields[] {
  return Array.isArray(list) ? list.filter(isJsonObject) : [];
}

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
  return ({ index, id: given_id, function: called, custom }) => {
    const id = given_id ?? "";
    const name = called?.name ?? custom?.name ?? "";
    const text = called?.arguments ?? custom?.input ?? "";
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
  return text.trimEnd().endsWith("}") && jsonOrUndefined(text) !== undefined;
}
