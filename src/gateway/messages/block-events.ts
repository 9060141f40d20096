import type { ReasoningDetail } from "../../api/contract/completions.ts";
import type { AnswerBlock } from "../../api/contract/messages.ts";
import { isTooDeep, jsonOrUndefined } from "../../platform/lib/json.ts";
import { type Envelope, isEmpty } from "../completions/reasoning-envelope.ts";
import type { AnswerEvent } from "../models/answer-events.ts";

type TextEvent = Extract<AnswerEvent, { type: "text" | "refusal" | "reasoning" | "reasoning_details" }>;
type CallStart = Extract<AnswerEvent, { type: "call" }>;
type CallArguments = Extract<AnswerEvent, { type: "arguments" }>;

/** A block that is being generated. `json`: the arguments of a call, as text. */
interface OpenBlock {
  kind: "thinking" | "text" | "tool_use";
  block: AnswerBlock;
  index: number;
  json: string;
}
/** A call that began while another one was open. Its events wait, because blocks do not overlap. */
interface WaitingCall {
  at: number;
  id: string;
  name: string;
  json: string;
}

/** The content blocks of a message, and the events that build them. `seal`: for what the model's provider needs back. */
export function createBlockEvents(seal: (found: Envelope) => string) {
  const content: AnswerBlock[] = [];
  let open: OpenBlock | null = null;
  let open_call: number | null = null;
  let details: ReasoningDetail[] = [];
  const waiting: WaitingCall[] = [];
  /** Text and thinking that came while a call was open whose arguments are not whole: more of them may follow. */
  const late: TextEvent[] = [];
  let calls: Record<string, unknown> = {};
  /** The arguments of finished calls, which only a whole answer needs as JSON: 10 MB take 0.1 s. */
  const inputs = new Map<AnswerBlock, string>();

  function start(kind: OpenBlock["kind"], block: AnswerBlock): object[] {
    const before = end();
    content.push(block);
    open = { kind, block, index: content.length - 1, json: "" };
    return [...before, { type: "content_block_start", index: open.index, content_block: structuredClone(block) }];
  }
  const toDelta = (delta: object): object[] => [{ type: "content_block_delta", index: open?.index, delta }];

  function stop(): object[] {
    if (open === null) return [];
    const { kind, block, index, json } = open;
    const before = kind === "thinking" ? signed(block) : [];
    if (kind === "tool_use") inputs.set(block, json);
    open = null;
    open_call = null;
    return [...before, { type: "content_block_stop", index }];
  }
  /** Ends the open block, and writes the texts that waited for it. */
  function end(): object[] {
    const events = stop();
    for (const text of late.splice(0)) events.push(...add(text));
    return [...events, ...stop()];
  }
  /** The block's signature: Anthropic's own, or our envelope. */
  function signed(block: AnswerBlock): object[] {
    if (block.type !== "thinking") return [];
    const [only] = details;
    const is_own = details.length === 1 && only?.format === "anthropic-claude-v1" && isEmpty({ calls });
    const own = is_own ? (only?.signature ?? null) : null;
    block.signature = own ?? seal({ reasoning_content: block.thinking, reasoning_details: details, calls });
    details = [];
    calls = {};
    return toDelta({ type: "signature_delta", signature: block.signature });
  }
  function think(): object[] {
    // Anthropic signs each block by itself, and sends the signature when its text is whole.
    const is_signed = details.some(({ format }) => format === "anthropic-claude-v1");
    return open?.kind === "thinking" && !is_signed
      ? []
      : start("thinking", { type: "thinking", thinking: "", signature: "" });
  }
  function append(text: string): object[] {
    if (open === null || text === "") return [];
    if (open.block.type === "text") open.block.text += text;
    if (open.block.type === "thinking") open.block.thinking += text;
    if (open.kind === "text") return toDelta({ type: "text_delta", text });
    if (open.kind === "thinking") return toDelta({ type: "thinking_delta", thinking: text });
    open.json += text;
    return toDelta({ type: "input_json_delta", partial_json: text });
  }
  function call({ at, id, name, text }: CallStart): object[] {
    if (open_call !== null) {
      waiting.push({ at, id, name, json: text });
      return [];
    }
    const events = startCall(id, name);
    open_call = at;
    return [...events, ...append(text)];
  }
  /** A tool_use block has no field for its signature, so a thinking block before it carries it. */
  function startCall(id: string, name: string): object[] {
    const before = calls[id] === undefined ? [] : think();
    return [...before, ...start("tool_use", { type: "tool_use", id, name, input: {} })];
  }
  /** Anthropic's redacted thinking, or another provider's data without readable text. */
  function addDetails(more: ReasoningDetail[]): object[] {
    const events: object[] = [];
    for (const detail of more) {
      if (detail.type === "reasoning.encrypted" && detail.format === "anthropic-claude-v1") {
        events.push(...start("text", { type: "redacted_thinking", data: detail.data ?? "" }), ...stop());
        continue;
      }
      events.push(...think());
      details.push(detail);
    }
    return events;
  }

  function add(said: TextEvent): object[] {
    if (open?.kind === "tool_use" && (late.length > 0 || !isWhole(open.json))) {
      late.push(said);
      return [];
    }
    if (said.type === "reasoning_details") return addDetails(said.details);
    if (said.type === "reasoning") return [...think(), ...append(said.text)];
    return [...(open?.kind === "text" ? [] : start("text", { type: "text", text: "" })), ...append(said.text)];
  }
  function addArguments({ at, text }: CallArguments): object[] {
    if (at === open_call) return append(text);
    const later = waiting.find((call) => call.at === at);
    if (later !== undefined) later.json += text;
    return [];
  }

  return {
    /** The blocks so far, with the inputs of finished calls. */
    content(): AnswerBlock[] {
      for (const [block, json] of inputs) if (block.type === "tool_use") block.input = toInput(json);
      return content;
    },
    hasCall: () => content.some(({ type }) => type === "tool_use"),
    /** Keeps the signatures of calls for the next thinking block. */
    noteSignatures(events: readonly AnswerEvent[]): void {
      for (const event of events) {
        if (event.type === "call" && event.extra_content !== undefined) {
          calls = { ...calls, [event.id]: event.extra_content };
        }
      }
    },
    add,
    call,
    addArguments,
    close(): object[] {
      const events = end();
      for (const { id, name, json } of waiting.splice(0)) {
        events.push(...startCall(id, name), ...append(json), ...stop());
      }
      return events;
    },
  };
}

function isWhole(json: string): boolean {
  return jsonOrUndefined(json) !== undefined;
}

function toInput(json: string): unknown {
  // The answer could not be written, after its charge.
  if (isTooDeep(json)) return { arguments: json };
  const given = json.trim() === "" ? {} : jsonOrUndefined(json);
  // Arguments that are not JSON: the tool's own check tells the model so.
  return given === undefined ? { arguments: json } : given;
}
