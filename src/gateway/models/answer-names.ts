import { fieldsOf, isJsonObject } from "../../platform/lib/json.ts";
import { changedArguments } from "../../platform/lib/tool-schema.ts";
import { objectsIn } from "./answer-shape.ts";
import { CALLS, payloadOf } from "./event-relay.ts";
import type { CallersNames } from "./models.types.ts";

/** Puts the caller's own ids and names of arguments into an answer. */

type Fields = Record<string, unknown>;

/** Arguments that are held back until they are whole. */
interface HeldCall {
  name: string;
  text: string;
}

/** For one answer. `restore` changes a whole call in place. */
export function createAnswerNames({ ids, tools }: CallersNames) {
  /** By the choice and the place of the call in it. */
  const held = new Map<string, HeldCall>();
  let last: Fields = {};

  function restore(call: object): void {
    const fields = call as Fields;
    fields.id = ids.get(String(fields.id)) ?? fields.id;
    const called = fieldsOf(fields.function);
    const renaming = tools.get(String(called.name));
    if (renaming !== undefined) called.arguments = changedArguments(String(called.arguments ?? ""), renaming.forTool);
  }

  /** A piece of a call. The arguments of a tool with other names are taken out of it. */
  function takePiece(piece: Fields, key: string): void {
    if (typeof piece.id === "string") piece.id = ids.get(piece.id) ?? piece.id;
    const called = fieldsOf(piece.function);
    if (typeof called.name === "string" && tools.has(called.name) && !held.has(key)) {
      held.set(key, { name: called.name, text: "" });
    }
    const call = held.get(key);
    if (call === undefined) return;
    call.text += typeof called.arguments === "string" ? called.arguments : "";
    called.arguments = "";
  }

  /** The held arguments of a choice as pieces of its calls. */
  function released(choice_index: unknown): Fields[] {
    return [...held].flatMap(([key, { name, text }]) => {
      const [choice, index] = key.split(" ");
      if (choice !== String(choice_index)) return [];
      held.delete(key);
      const renaming = tools.get(name);
      const given = renaming === undefined || text === "" ? text : changedArguments(text, renaming.forTool);
      return [{ index: Number(index), function: { arguments: given } }];
    });
  }

  function changedEvent(event: string): string {
    const payload = payloadOf(event);
    if (!payload.startsWith("{") || (held.size === 0 && !CALLS.test(payload))) return `${event}\n\n`;
    const chunk = JSON.parse(payload) as Fields;
    last = chunk;
    for (const choice of objectsIn(chunk.choices)) {
      const delta = isJsonObject(choice.delta) ? choice.delta : {};
      const pieces = objectsIn(delta.tool_calls);
      for (const piece of pieces) {
        if (piece.index === undefined) restore(piece);
        else takePiece(piece, `${choice.index} ${piece.index}`);
      }
      const has_ended = typeof choice.finish_reason === "string" && choice.finish_reason !== "";
      const whole = has_ended ? released(choice.index) : [];
      if (whole.length > 0) choice.delta = { ...delta, tool_calls: [...pieces, ...whole] };
    }
    return `data: ${JSON.stringify(chunk)}\n\n`;
  }

  /** The arguments of calls that the provider ended without a finish reason. */
  function rest(): string {
    if (held.size === 0) return "";
    const places = new Set([...held.keys()].map((key) => Number(key.split(" ")[0])));
    const choices = [...places].map((index) => ({
      index,
      delta: { tool_calls: released(index) },
      finish_reason: null,
    }));
    return `data: ${JSON.stringify({ ...last, choices })}\n\n`;
  }

  async function* changedBlocks(blocks: AsyncIterator<string>): AsyncGenerator<string, void> {
    for (let step = await blocks.next(); step.done !== true; step = await blocks.next()) {
      const events = step.value.split("\n\n").filter((event) => event !== "");
      yield events.map(changedEvent).join("");
    }
    const end = rest();
    if (end !== "") yield end;
  }

  return { restore, blocks: changedBlocks };
}
