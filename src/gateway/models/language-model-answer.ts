import type {
  AnyToolCall,
  ChatDelta,
  ChatResponse,
  FinishReason,
  ReasoningDetail,
  ToolCallDelta,
} from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { type Ending, endingOf, finishReasonOfEnding } from "./dialects.ts";
import type { Dialect, LanguageModel } from "./language-model-dialect.ts";
import type { Counts } from "./models.types.ts";
import { checkedCounts } from "./usage-report.ts";

/** Converts answers of the AI SDK's language models (their specification v4) to OpenAI's shape. Pure. */

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
  identity: { id: string; created: number; model: string },
  options: AnswerOptions,
): ChatResponse {
  let content = "";
  let reasoning = "";
  const details = createDetails(identity.model, options);
  const tool_calls: AnyToolCall[] = [];
  for (const [index, part] of result.content.entries()) {
    if (part.type === "text") {
      content += part.text;
      details.sign(part.providerMetadata);
    } else if (part.type === "reasoning") {
      reasoning += part.text;
      details.add(part.text, part.providerMetadata, index);
    } else if (part.type === "tool-call" && part.providerExecuted !== true) {
      tool_calls.push(callOf(part, identity.model, options));
    }
  }
  const reasoning_details = details.all();
  const message = {
    role: "assistant" as const,
    content: content === "" && tool_calls.length > 0 ? null : content,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(reasoning_details.length === 0 ? {} : { reasoning_details }),
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
  };
  const ended = { finish_reason: finishOf(result.finishReason), ...stopOf(result.providerMetadata, options) };
  const choices = [{ index: 0, message, logprobs: null, ...ended }];
  return { ...identity, object: "chat.completion", choices };
}

type Metadata = Record<string, unknown> | undefined;

function callOf(
  {
    toolCallId: id,
    toolName: name,
    input,
    providerMetadata,
  }: Extract<Result["content"][number], { type: "tool-call" }>,
  model_id: string,
  options: AnswerOptions,
): AnyToolCall {
  const { custom_tools } = options;
  const signed = signatureOf(providerMetadata, model_id, options);
  if (custom_tools.has(name)) return { id, type: "custom", custom: { name, input: textInput(input) }, ...signed };
  return { id, type: "function", function: { name, arguments: input }, ...signed };
}

/** The SDK gives the text of a custom tool as JSON. */
function textInput(input: string): string {
  try {
    const text: unknown = JSON.parse(input);
    return typeof text === "string" ? text : input;
  } catch {
    return input;
  }
}

/** The stop sequence that ended the answer, in vLLM's field. Anthropic names it. */
function stopOf(metadata: Metadata, { dialect }: AnswerOptions): { stop_reason?: string } {
  const { stopSequence } = fieldsOf(fieldsOf(metadata)[dialect.name]);
  return typeof stopSequence === "string" ? { stop_reason: stopSequence } : {};
}

/** Gemini's signature of a call. */
function signatureOf(
  metadata: Metadata,
  model: string,
  { dialect, route }: AnswerOptions,
): Pick<ToolCallDelta, "extra_content"> {
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
    all: () => all,
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

/** A choice of a streamed chunk. */
export interface ChunkChoice {
  index: 0;
  delta: ChatDelta;
  finish_reason: FinishReason | null;
  stop_reason?: string;
}

/** A block of reasoning that is being streamed. */
interface OpenBlock {
  text: string;
  metadata: Metadata;
  index: number;
}

/**
 * Converts parts to choices of chunks and remembers the index of each tool call. Returns null for hidden parts. A
 * block of reasoning is sent as details once it is whole.
 */
export function createChoiceMapper(model_id: string, options: AnswerOptions): (part: StreamPart) => ChunkChoice | null {
  const { dialect, custom_tools } = options;
  const tools = new Map<string, { index: number; is_custom: boolean }>();
  const details = createDetails(model_id, options);
  const open = new Map<string, OpenBlock>();
  let blocks = 0;
  const choice = (delta: ChatDelta, finish_reason: FinishReason | null = null): ChunkChoice => ({
    index: 0,
    delta,
    finish_reason,
  });
  const called = (id: string, name: string, input: string, metadata: Metadata): ChunkChoice => {
    const index = tools.size;
    const is_custom = custom_tools.has(name);
    tools.set(id, { index, is_custom });
    blocks += 1;
    const given: ToolCallDelta = is_custom
      ? { type: "custom", custom: { name, input } }
      : { type: "function", function: { name, arguments: input } };
    return choice({ tool_calls: [{ index, id, ...given, ...signatureOf(metadata, model_id, options) }] });
  };
  const detailed = (added: ReasoningDetail[]) => (added.length === 0 ? null : choice({ reasoning_details: added }));
  const noted = (part: { id: string; providerMetadata?: Metadata }, text: string) => {
    const block = open.get(part.id);
    if (block === undefined) return;
    block.text += text;
    const own = fieldsOf(fieldsOf(part.providerMetadata)[dialect.name]);
    const before = fieldsOf(fieldsOf(block.metadata)[dialect.name]);
    const set = Object.entries(own).filter(([, value]) => value != null);
    block.metadata = { [dialect.name]: { ...before, ...Object.fromEntries(set) } };
  };

  const reasoned = (part: Extract<StreamPart, { type: `reasoning-${string}` }>): ChunkChoice | null => {
    switch (part.type) {
      case "reasoning-start":
        open.set(part.id, { text: "", metadata: undefined, index: blocks });
        blocks += 1;
        noted(part, "");
        return null;
      case "reasoning-delta":
        noted(part, part.delta);
        return part.delta === "" ? null : choice({ reasoning_content: part.delta });
      case "reasoning-end": {
        noted(part, "");
        const block = open.get(part.id);
        open.delete(part.id);
        return block === undefined ? null : detailed(details.add(block.text, block.metadata, block.index));
      }
      default:
        return null;
    }
  };

  return (part) => {
    switch (part.type) {
      case "stream-start":
        return choice({ role: "assistant", content: "" });
      case "text-start":
        blocks += 1;
        return detailed(details.sign(part.providerMetadata));
      case "text-delta":
        return withDetails(choice({ content: part.delta }), details.sign(part.providerMetadata));
      case "text-end":
        return detailed(details.sign(part.providerMetadata));
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end":
        return reasoned(part);
      case "tool-input-start":
        return part.providerExecuted === true ? null : called(part.id, part.toolName, "", part.providerMetadata);
      case "tool-input-delta": {
        const call = tools.get(part.id);
        if (call === undefined) return null;
        const { index, is_custom } = call;
        const piece = is_custom ? { custom: { input: part.delta } } : { function: { arguments: part.delta } };
        return choice({ tool_calls: [{ index, ...piece }] });
      }
      case "tool-call":
        // The stream has already sent its input, unless the provider gave it in one piece.
        if (part.providerExecuted === true || tools.has(part.toolCallId)) return null;
        return called(part.toolCallId, part.toolName, part.input, part.providerMetadata);
      case "finish":
        return { ...choice({}, finishOf(part.finishReason)), ...stopOf(part.providerMetadata, options) };
      default:
        return null;
    }
  };
}

function withDetails(choice: ChunkChoice, details: ReasoningDetail[]): ChunkChoice {
  return details.length === 0 ? choice : { ...choice, delta: { ...choice.delta, reasoning_details: details } };
}
