import type { ChatResponse, ExtraContent, ReasoningDetail } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { AnswerEvent, CallEvent } from "./answer-events.ts";
import { createMessageBuilder } from "./answer-message.ts";
import { type Ending, endingOf, finishReasonOfEnding } from "./dialects.ts";
import type { Dialect, LanguageModel } from "./language-model-dialect.ts";
import type { Counts } from "./models.types.ts";
import { checkedCounts } from "./usage-report.ts";

/** Converts answers of the AI SDK's language models (their specification v4) to events. Pure. */

type Result = Awaited<ReturnType<LanguageModel["doGenerate"]>>;
export type StreamPart =
  Awaited<ReturnType<LanguageModel["doStream"]>>["stream"] extends ReadableStream<infer Part> ? Part : never;

type SdkReason = Result["finishReason"];

const FINISH: Record<Exclude<SdkReason["unified"], "other">, Ending> = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls",
  error: "failed",
  interrupted: "failed",
};

/**
 * How the answer ended; null: the provider did not say. A word that the SDK does not know is in our table, and so is one
 * that it takes for `stop`: Anthropic's `pause_turn` ends an answer that is not complete.
 */
export function endingOfResult({ unified, raw }: SdkReason): Ending | null {
  if (unified === "other") return endingOf(raw);
  return unified === "stop" ? (endingOf(raw) ?? "stop") : FINISH[unified];
}

const finishOf = (reason: SdkReason) => finishReasonOfEnding(endingOfResult(reason));

export interface AnswerOptions {
  dialect: Dialect;
  /** The route that the model is called by; null: it has no routes. */
  route: string | null;
  /** The names of the request's `custom` tools. */
  custom_tools: ReadonlySet<string>;
}

/** A whole answer as a chat.completion, without usage. */
export function responseOf(
  result: Result,
  { id, created, model }: { id: string; created: number; model: string },
  options: AnswerOptions,
): ChatResponse {
  const message = createMessageBuilder();
  const eventsOf = createEventMapper(model, options);
  for (const [at, part] of result.content.entries()) {
    if (part.type === "text" || part.type === "reasoning") {
      const { text: delta, type, providerMetadata } = part;
      const metadata = providerMetadata === undefined ? {} : { providerMetadata };
      const pieces: StreamPart[] = [
        { type: `${type}-start`, id: String(at) },
        { type: `${type}-delta`, id: String(at), delta },
        { type: `${type}-end`, id: String(at), ...metadata },
      ];
      for (const piece of pieces) eventsOf(piece).forEach(message.add);
    }
    if (part.type === "tool-call") eventsOf(part).forEach(message.add);
  }
  const said = message.message();
  const content = said.content === null && said.tool_calls === undefined ? "" : said.content;
  const stop_sequence = stopSequence(result.providerMetadata, options);
  const stop = stop_sequence === null ? {} : { stop_reason: stop_sequence };
  const ended = { finish_reason: finishOf(result.finishReason), ...stop };
  const choices = [{ index: 0, message: { ...said, content }, logprobs: null, ...ended }];
  return { id, created, model, object: "chat.completion", choices };
}

type Metadata = Record<string, unknown> | undefined;

/** The SDK gives the text of a custom tool as JSON. */
function textInput(input: string): string {
  try {
    const text: unknown = JSON.parse(input);
    return typeof text === "string" ? text : input;
  } catch {
    return input;
  }
}

/** The stop sequence that ended the answer. Anthropic names it. */
function stopSequence(metadata: Metadata, { dialect }: AnswerOptions): string | null {
  const stop_sequence = fieldsOf(fieldsOf(metadata)[dialect.name]).stopSequence;
  return typeof stop_sequence === "string" ? stop_sequence : null;
}

/** Gemini's signature of a call. */
function signatureOf(
  metadata: Metadata,
  model: string,
  { dialect, route }: AnswerOptions,
): { extra_content?: ExtraContent } {
  const { thoughtSignature } = fieldsOf(fieldsOf(metadata)[dialect.name]);
  if (typeof thoughtSignature !== "string") return {};
  return { extra_content: { google: { thought_signature: thoughtSignature, ...makerOf(model, route) } } };
}

/** The marks of reasoning by which it finds its way back. */
function makerOf(model: string, route: string | null): { model: string; route?: string } {
  return route === null ? { model } : { model, route };
}

/** Collects the reasoning of one answer as details. */
function createDetails(model: string, { dialect, route }: AnswerOptions) {
  const all: ReasoningDetail[] = [];
  const encrypted = new Set<string>();
  const add = (text: string, metadata: Metadata, index: number): ReasoningDetail[] => {
    const pieces: Partial<ReasoningDetail>[] = dialect.details({
      text,
      metadata: fieldsOf(fieldsOf(metadata)[dialect.name]),
    });
    const added = pieces
      // The SDK repeats the encrypted content with each summary of an item.
      .filter(({ type, data }) => type !== "reasoning.encrypted" || data === undefined || !encrypted.has(data))
      .filter(({ text, summary, data, signature }) => Boolean(text || summary || data || signature))
      .map((piece) => ({ ...piece, format: dialect.format, index, ...makerOf(model, route) }) as ReasoningDetail);
    for (const { data } of added) if (data !== undefined) encrypted.add(data);
    all.push(...added);
    return added;
  };
  return {
    add,
    /** Gemini signs its text too. Returns the signature as a detail. */
    sign(metadata: Metadata): ReasoningDetail[] {
      const { thoughtSignature } = fieldsOf(fieldsOf(metadata)[dialect.name]);
      if (typeof thoughtSignature !== "string") return [];
      return add("", metadata, all.length);
    },
  };
}

/** The counts of an answer, or null if they are missing or invalid. */
export function countsOfResult(usage: Result["usage"], { countsOf }: Dialect): Counts | null {
  if (countsOf !== undefined) return countsOf(usage.raw);
  return checkedCounts({
    input_tokens: usage.inputTokens.total,
    cached_input_tokens: usage.inputTokens.cacheRead ?? 0,
    cache_write_tokens: usage.inputTokens.cacheWrite ?? 0,
    cache_write_1h_tokens: hourlyWrites(usage.raw),
    output_tokens: usage.outputTokens.total,
    reasoning_tokens: usage.outputTokens.reasoning ?? 0,
  });
}

/** Anthropic reports its cache writes by time to live. The SDK keeps that in the raw report only. */
function hourlyWrites(raw: Result["usage"]["raw"]): unknown {
  const written = raw?.cache_creation;
  return typeof written === "object" && written !== null && "ephemeral_1h_input_tokens" in written
    ? written.ephemeral_1h_input_tokens
    : 0;
}

/** A block of reasoning that is being streamed. */
interface OpenBlock {
  text: string;
  metadata: Metadata;
  index: number;
}

/** Converts parts to events. A block of reasoning is sent as details once it is whole. */
export function createEventMapper(
  model_id: string,
  options: AnswerOptions,
): (part: StreamPart) => readonly AnswerEvent[] {
  const { dialect, custom_tools } = options;
  const tools = new Map<string, { at: number; tool: CallEvent["tool"] }>();
  const details = createDetails(model_id, options);
  const open = new Map<string, OpenBlock>();
  let blocks = 0;

  function called(id: string, name: string, input: string, metadata: Metadata): AnswerEvent[] {
    const at = tools.size;
    const tool = custom_tools.has(name) ? "custom" : "function";
    tools.set(id, { at, tool });
    blocks += 1;
    const signature = signatureOf(metadata, model_id, options);
    return [{ type: "call", choice: 0, at, tool, id, name, text: input, ...signature }];
  }
  function detailed(added: ReasoningDetail[]): AnswerEvent[] {
    return added.length === 0 ? [] : [{ type: "reasoning_details", choice: 0, details: added }];
  }
  function note(part: { id: string; providerMetadata?: Metadata }, text: string): void {
    const block = open.get(part.id);
    if (block === undefined) return;
    block.text += text;
    const own = fieldsOf(fieldsOf(part.providerMetadata)[dialect.name]);
    const before = fieldsOf(fieldsOf(block.metadata)[dialect.name]);
    const set = Object.entries(own).filter(([, value]) => value != null);
    block.metadata = { [dialect.name]: { ...before, ...Object.fromEntries(set) } };
  }

  return (part) => {
    switch (part.type) {
      case "text-start":
        blocks += 1;
        return detailed(details.sign(part.providerMetadata));
      case "text-delta":
        return [
          ...(part.delta === "" ? [] : [{ type: "text" as const, choice: 0, text: part.delta }]),
          ...detailed(details.sign(part.providerMetadata)),
        ];
      case "text-end":
        return detailed(details.sign(part.providerMetadata));
      case "reasoning-start":
        open.set(part.id, { text: "", metadata: undefined, index: blocks });
        blocks += 1;
        note(part, "");
        return [];
      case "reasoning-delta":
        note(part, part.delta);
        return part.delta === "" ? [] : [{ type: "reasoning", choice: 0, text: part.delta }];
      case "reasoning-end": {
        note(part, "");
        const block = open.get(part.id);
        open.delete(part.id);
        return block === undefined ? [] : detailed(details.add(block.text, block.metadata, block.index));
      }
      case "tool-input-start":
        return part.providerExecuted === true ? [] : called(part.id, part.toolName, "", part.providerMetadata);
      case "tool-input-delta": {
        const call = tools.get(part.id);
        return call === undefined ? [] : [{ type: "arguments", choice: 0, ...call, text: part.delta }];
      }
      case "tool-call":
        // The stream has already sent its input, unless the provider gave it in one piece.
        if (part.providerExecuted === true || tools.has(part.toolCallId)) return [];
        return called(part.toolCallId, part.toolName, wholeInput(part), part.providerMetadata);
      case "finish": {
        const stop_sequence = stopSequence(part.providerMetadata, options);
        return [{ type: "finish", choice: 0, reason: finishOf(part.finishReason), stop_sequence }];
      }
      default:
        return [];
    }
  };

  /** The SDK gives the input of a custom tool as JSON. */
  function wholeInput({ toolName, input }: { toolName: string; input: string }): string {
    return custom_tools.has(toolName) ? textInput(input) : input;
  }
}
