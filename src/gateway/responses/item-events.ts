import type { OutputItem } from "../../api/contract/responses.ts";
import { type Envelope, isEmpty } from "../completions/reasoning-envelope.ts";
import type { AnswerEvent } from "../models/answer-events.ts";
import { isLocalToolType, type LocalToolType, localCall } from "./local-tools.ts";
import type { ResponseContext } from "./responses.types.ts";
import { customInput } from "./tool-names.ts";

type ItemOf<Type extends OutputItem["type"]> = Extract<OutputItem, { type: Type }>;

type CallStart = Extract<AnswerEvent, { type: "call" }>;

/** An item that is being generated. */
interface OpenItem {
  kind: "reasoning" | "text" | "refusal" | "call";
  opening: object[];
  append(text: string): object[];
  close(): object[];
}
interface Placed<Item extends OutputItem> {
  item: Item;
  output_index: number;
}

/** The output items of a response, and the events that build them. `envelopeOf` adds the model to what a reasoning item seals. */
export function createItemEvents(context: ResponseContext, envelopeOf: (found: Envelope) => Envelope) {
  const { asked, newId } = context;
  const output: OutputItem[] = [];
  const calls = new Map<number, OpenItem>();
  /** The reasoning or the text that is being generated. An event of another kind ends it. */
  let current: OpenItem | null = null;
  let details: unknown[] = [];

  const place = <Item extends OutputItem>(item: Item): Placed<Item> => {
    output.push(item);
    return { item, output_index: output.length - 1 };
  };
  const endCurrent = (): object[] => {
    const events = current?.close() ?? [];
    current = null;
    return events;
  };
  const opened = (kind: OpenItem["kind"], open: () => OpenItem): object[] => {
    if (current?.kind === kind) return [];
    const before = endCurrent();
    current = open();
    return [...before, ...current.opening];
  };
  const sealed = (found: Envelope): { encrypted_content?: string } => {
    const is_wanted = asked.store !== false || asked.include?.includes("reasoning.encrypted_content") === true;
    return is_wanted && !isEmpty(found) ? { encrypted_content: context.seal(envelopeOf(found)) } : {};
  };
  const openReasoning = (): OpenItem => {
    details = [];
    const placed = place<ItemOf<"reasoning">>({ type: "reasoning", id: `rs_${newId()}`, summary: [] });
    return reasoningItem(placed, (reasoning_content) => sealed({ reasoning_content, reasoning_details: details }));
  };
  const openText = (kind: "text" | "refusal"): OpenItem => {
    const fields = { role: "assistant" as const, status: "in_progress" as const, content: [] };
    return textItem(place<ItemOf<"message">>({ type: "message", id: `msg_${newId()}`, ...fields }), kind);
  };

  return {
    output: () => output,
    reasoning: (text: string) => [...opened("reasoning", openReasoning), ...(current?.append(text) ?? [])],
    details(more: unknown[]): object[] {
      const events = opened("reasoning", openReasoning);
      details.push(...more);
      return events;
    },
    text: (kind: "text" | "refusal", text: string) => [
      ...opened(kind, () => openText(kind)),
      ...(current?.append(text) ?? []),
    ],
    call(start: CallStart): object[] {
      const before = endCurrent();
      const call = openCall(context, start, place);
      calls.set(start.at, call);
      return [...before, ...call.opening, ...(start.text === "" ? [] : call.append(start.text))];
    },
    callArguments: ({ at, text }: Extract<AnswerEvent, { type: "arguments" }>) => calls.get(at)?.append(text) ?? [],
    /** Ends all items. The signatures of calls go into a last reasoning item, because calls have no field for them. */
    close(signatures: Envelope): object[] {
      const events = [...endCurrent(), ...[...calls.values()].flatMap((call) => call.close())];
      const secret = sealed(signatures);
      if (secret.encrypted_content === undefined) return events;
      const placed = place<ItemOf<"reasoning">>({ type: "reasoning", id: `rs_${newId()}`, summary: [], ...secret });
      return [...events, added(placed), done(placed)];
    },
  };
}

/** A call under the caller's own name of its tool. */
function openCall(
  { callees, newId }: ResponseContext,
  { id: call_id, name }: CallStart,
  place: <Item extends OutputItem>(item: Item) => Placed<Item>,
): OpenItem {
  const { type, name: own, namespace } = callees.get(name) ?? { type: "function", name, namespace: null };
  if (isLocalToolType(type)) {
    return localItem(type, { id: `lc_${newId()}`, call_id }, place);
  }
  const named = { call_id, name: own, ...(namespace === null ? {} : { namespace }), status: "in_progress" as const };
  return type === "custom"
    ? customItem(place({ type: "custom_tool_call", id: `ctc_${newId()}`, ...named, input: "" }))
    : functionItem(place({ type: "function_call", id: `fc_${newId()}`, ...named, arguments: "" }));
}

function added({ item, output_index }: Placed<OutputItem>): object {
  return { type: "response.output_item.added", output_index, item: structuredClone(item) };
}

function done({ item, output_index }: Placed<OutputItem>): object {
  return { type: "response.output_item.done", output_index, item };
}

function reasoningItem(
  placed: Placed<ItemOf<"reasoning">>,
  seal: (text: string) => { encrypted_content?: string },
): OpenItem {
  const { item, output_index } = placed;
  const at = { item_id: item.id, output_index, summary_index: 0 };
  const part = { type: "summary_text" as const, text: "" };
  return {
    kind: "reasoning",
    opening: [added(placed)],
    append(text) {
      const begins = item.summary.length === 0;
      if (begins) item.summary.push(part);
      part.text += text;
      const begun = { type: "response.reasoning_summary_part.added", ...at, part: { type: "summary_text", text: "" } };
      return [...(begins ? [begun] : []), { type: "response.reasoning_summary_text.delta", ...at, delta: text }];
    },
    close() {
      Object.assign(item, seal(part.text));
      const ended = [
        { type: "response.reasoning_summary_text.done", ...at, text: part.text },
        { type: "response.reasoning_summary_part.done", ...at, part },
      ];
      return [...(item.summary.length === 0 ? [] : ended), done(placed)];
    },
  };
}

function textItem(placed: Placed<ItemOf<"message">>, kind: "text" | "refusal"): OpenItem {
  const { item, output_index } = placed;
  const at = { item_id: item.id, output_index, content_index: 0 };
  const empty =
    kind === "text"
      ? { type: "output_text" as const, text: "", annotations: [], logprobs: [] }
      : { type: "refusal" as const, refusal: "" };
  const event = kind === "text" ? "response.output_text" : "response.refusal";
  let all = "";
  return {
    kind,
    opening: [added(placed), { type: "response.content_part.added", ...at, part: empty }],
    append(text) {
      all += text;
      return [{ type: `${event}.delta`, ...at, delta: text, ...(kind === "text" ? { logprobs: [] } : {}) }];
    },
    close() {
      const part = { ...empty, [kind]: all } as ItemOf<"message">["content"][number];
      item.content.push(part);
      item.status = "completed";
      const ended = { type: `${event}.done`, ...at, [kind]: all, ...(kind === "text" ? { logprobs: [] } : {}) };
      return [ended, { type: "response.content_part.done", ...at, part }, done(placed)];
    },
  };
}

function functionItem(placed: Placed<ItemOf<"function_call">>): OpenItem {
  const { item, output_index } = placed;
  const at = { item_id: item.id, output_index };
  return {
    kind: "call",
    opening: [added(placed)],
    append(text) {
      item.arguments += text;
      return [{ type: "response.function_call_arguments.delta", ...at, delta: text }];
    },
    close() {
      item.status = "completed";
      if (item.arguments === "") item.arguments = "{}";
      const { name, arguments: text } = item;
      return [{ type: "response.function_call_arguments.done", ...at, name, arguments: text }, done(placed)];
    },
  };
}

/** Its action or operation is known with the last piece of the JSON, and the item that is done has it. */
function localItem(
  type: LocalToolType,
  call: { id: string; call_id: string },
  place: <Item extends OutputItem>(item: Item) => Placed<Item>,
): OpenItem {
  const placed = place(localCall(type, { ...call, status: "in_progress" }, ""));
  let json = "";
  return {
    kind: "call",
    opening: [added(placed)],
    append(text) {
      json += text;
      return [];
    },
    close() {
      Object.assign(placed.item, localCall(type, { ...call, status: "completed" }, json));
      return [done(placed)];
    },
  };
}

/** A custom tool's input is inside JSON until its last piece, so it is sent at once. */
function customItem(placed: Placed<ItemOf<"custom_tool_call">>): OpenItem {
  const { item, output_index } = placed;
  const at = { item_id: item.id, output_index };
  let json = "";
  return {
    kind: "call",
    opening: [added(placed)],
    append(text) {
      json += text;
      return [];
    },
    close() {
      item.input = customInput(json);
      item.status = "completed";
      return [
        { type: "response.custom_tool_call_input.delta", ...at, delta: item.input },
        { type: "response.custom_tool_call_input.done", ...at, input: item.input },
        done(placed),
      ];
    },
  };
}
