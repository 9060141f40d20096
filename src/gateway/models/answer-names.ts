import { fieldsOf } from "../../platform/lib/json.ts";
import { changedArguments } from "../../platform/lib/tool-schema.ts";
import type { AnswerEvent, AnswerPart } from "./answer-events.ts";
import type { CallersNames } from "./models.types.ts";

/** Puts the caller's own ids and names of arguments into an answer. */

/** A call whose arguments are held back until they are whole. */
interface HeldCall {
  choice: number;
  at: number;
  name: string;
  text: string;
}

/** Changes a whole call in place. */
export function restoreCall(call: object, { ids, tools }: CallersNames): void {
  const fields = call as Record<string, unknown>;
  fields.id = ids.get(String(fields.id)) ?? fields.id;
  const called = fieldsOf(fields.function);
  const renaming = tools.get(String(called.name));
  if (renaming !== undefined) called.arguments = changedArguments(String(called.arguments ?? ""), renaming.forTool);
}

/** The parts of a stream with the caller's names. */
export async function* restoredParts(
  parts: AsyncIterator<AnswerPart>,
  { ids, tools }: CallersNames,
): AsyncGenerator<AnswerPart, undefined> {
  let held: HeldCall[] = [];

  function released(choice: number | null): AnswerEvent[] {
    const [ended, open] = [held.filter((call) => isOf(call, choice)), held.filter((call) => !isOf(call, choice))];
    held = open;
    return ended.flatMap((call): AnswerEvent[] => {
      const renaming = tools.get(call.name);
      if (renaming === undefined || call.text === "") return [];
      const text = changedArguments(call.text, renaming.forTool);
      return [{ type: "arguments", choice: call.choice, at: call.at, tool: "function", text }];
    });
  }

  function restored(event: AnswerEvent): AnswerEvent[] {
    switch (event.type) {
      case "call": {
        const named = { ...event, id: ids.get(event.id) ?? event.id };
        if (!tools.has(event.name)) return [named];
        held.push({ choice: event.choice, at: event.at, name: event.name, text: event.text });
        return [{ ...named, text: "" }];
      }
      case "arguments": {
        const call = held.find(({ choice, at }) => choice === event.choice && at === event.at);
        if (call === undefined) return [event];
        call.text += event.text;
        return [];
      }
      case "finish":
        return [...released(event.choice), event];
      default:
        return [event];
    }
  }

  for (let step = await parts.next(); step.done !== true; step = await parts.next()) {
    const { events, chat_text } = step.value;
    const has_calls = held.length > 0 || events.some(({ type }) => type === "call");
    if (chat_text !== undefined && !has_calls) yield step.value;
    else yield { events: events.flatMap(restored) };
  }
  const rest = released(null);
  if (rest.length > 0) yield { events: rest };
}

function isOf(call: HeldCall, choice: number | null): boolean {
  return choice === null || call.choice === choice;
}
