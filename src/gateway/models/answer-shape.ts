import type { ChatResponse, FinishReason } from "../../api/contract/completions.ts";
import { newId } from "../../platform/lib/ids.ts";
import { fieldsOf, isJsonObject } from "../../platform/lib/json.ts";
import { newIdentity } from "./chunks.ts";
import { endingOf, finishReasonOfEnding } from "./dialects.ts";

/**
 * Puts answers of OpenAI-compatible servers into OpenAI's shape. Some give text as a list of parts, arguments of a call
 * as an object, finish reasons of their own, or leave out fields that clients need.
 */

/**
 * Text of an event that may have to be changed: a list as `content`, but not of log probabilities, an object as
 * `arguments`, `reasoning`, a `delta` or a choice that is null, or a finish reason that OpenAI does not have.
 */
export const OTHER_SHAPE =
  /(?<!"logprobs"\s*:\s*\{\s*)"content"\s*:\s*\[|"arguments"\s*:\s*\{|"reasoning"\s*:\s*"[^"]|"delta"\s*:\s*null|"choices"\s*:\s*\[\s*null|"finish_reason"\s*:\s*"(?!(?:stop|length|tool_calls|content_filter)")[^"]/;

type Fields = Record<string, unknown>;

/** A provider's finish reason as one of OpenAI's. */
export function finishReasonOf(reason: unknown): FinishReason {
  return finishReasonOfEnding(endingOf(reason));
}

/** Changes `choices`, in place, where their content, their calls or their finish reason have another shape. */
export function reshapeChoices(choices: unknown): void {
  for (const choice of objectsIn(choices)) {
    // Some servers write an empty one in every chunk.
    if (typeof choice.finish_reason === "string") {
      choice.finish_reason = endingOf(choice.finish_reason) === null ? null : finishReasonOf(choice.finish_reason);
    }
    const said = choice.message ?? choice.delta;
    if (!isJsonObject(said)) continue;
    // Clients read one field or the other.
    if (typeof said.reasoning === "string") said.reasoning_content ||= said.reasoning;
    if (Array.isArray(said.content)) Object.assign(said, spokenIn(said.content, said.reasoning_content));
    for (const call of objectsIn(said.tool_calls)) {
      const called = call.function;
      if (isJsonObject(called) && isJsonObject(called.arguments)) called.arguments = JSON.stringify(called.arguments);
    }
  }
}

/**
 * The choices of a chunk that say something: a list without nulls, and without choices that have neither a delta nor a
 * finish reason. Some servers end with a choice whose `message` repeats the whole answer instead of a delta.
 */
export function saidChoices(choices: unknown): Fields[] {
  return objectsIn(choices).flatMap<Fields>(({ message: _, ...choice }) => {
    if (isJsonObject(choice.delta)) return choice;
    return endingOf(choice.finish_reason) === null ? [] : { ...choice, delta: {} };
  });
}

/**
 * Gives the first chunk of each choice of a stream its role, and choices without an index their place: OpenAI's clients
 * fail without them. `count`: the number of choices.
 */
export function createChoiceCompleter(count: number) {
  const begun = new Set<unknown>();
  let lacks_index = false;
  return {
    /** Whether no later chunk has to be completed. */
    isDone: () => begun.size >= count && !lacks_index,
    /** Changes the chunk's choices in place and returns whether it changed any. */
    complete(choices: unknown): boolean {
      let has_changed = false;
      for (const [at, choice] of objectsIn(choices).entries()) {
        if (!Number.isInteger(choice.index)) {
          choice.index = at;
          lacks_index = true;
          has_changed = true;
        }
        if (begun.has(choice.index)) continue;
        begun.add(choice.index);
        if (fieldsOf(choice.delta).role === "assistant") continue;
        choice.delta = { ...fieldsOf(choice.delta), role: "assistant" };
        has_changed = true;
      }
      return has_changed;
    },
  };
}

/** Whether the provider itself says that its answer failed. */
export function isFailedAnswer(answer: object): boolean {
  const { error, choices } = answer as Fields;
  return Boolean(error) || objectsIn(choices).some((choice) => endingOf(choice.finish_reason) === "failed");
}

/** Completes a whole answer whose choices all have a message: changes it in place. */
export function reshapeAnswer(answer: ChatResponse): void {
  reshapeChoices(answer.choices);
  const { id, created } = newIdentity();
  if (typeof answer.id !== "string" || answer.id === "") answer.id = id;
  if (!Number.isInteger(answer.created)) answer.created = created;
  answer.object = "chat.completion";
  for (const [at, choice] of answer.choices.entries()) {
    const message = choice.message as unknown as Fields;
    if (!Number.isInteger(choice.index)) choice.index = at;
    message.role = "assistant";
    if (typeof message.content !== "string") message.content = null;
    if (message.tool_calls == null) delete message.tool_calls;
    const calls = objectsIn(message.tool_calls);
    completeCalls(calls);
    const has_reason = choice.finish_reason != null;
    choice.finish_reason = !has_reason && calls.length > 0 ? "tool_calls" : finishReasonOf(choice.finish_reason);
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
  const content = parts.filter((part) => !thoughts.includes(part)).map(textOf);
  if (thoughts.length === 0) return { content: content.join("") };
  const before = typeof thought === "string" ? thought : "";
  return { content: content.join(""), reasoning_content: before + thoughts.map(textOf).join("") };
}

function textOf(part: unknown): string {
  if (typeof part === "string") return part;
  if (Array.isArray(part)) return part.map(textOf).join("");
  if (!isJsonObject(part)) return "";
  return textOf(part.text ?? part.thinking);
}

/** The objects in a list; none if it is no list. */
export function objectsIn(list: unknown): Fields[] {
  return Array.isArray(list) ? list.filter(isJsonObject) : [];
}
