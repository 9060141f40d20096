import type { createAnthropic } from "@ai-sdk/anthropic";
import type { ChatRequest, ReasoningDetail, ReasoningFormat } from "../../api/contract/completions.ts";
import { REASONING_EFFORTS } from "../../kernel/constants.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { Model, ProviderRequest } from "./models.types.ts";
import type { NativeAnswer } from "./native-answer.ts";

/** One model of a provider of the AI SDK. The type is the same for all providers. */
export type LanguageModel = ReturnType<ReturnType<typeof createAnthropic>["languageModel"]>;
export type LanguageModelCall = Parameters<LanguageModel["doGenerate"]>[0];
export type PromptMessage = LanguageModelCall["prompt"][number];
export type AssistantPart = Extract<PromptMessage, { role: "assistant" }>["content"][number];
export type ProviderOptions = NonNullable<LanguageModelCall["providerOptions"]>[string];

/** A JSON object of a provider: a request's body, an answer, or an event. */
export type Body = Record<string, unknown>;

/** Reads the events of one stream into an answer. */
export interface DialectReader {
  read(event: Body): void;
  /** Whether the answer is complete with this event. */
  isLast(event: Body): boolean;
  /** Called once at the end of the answer. */
  close(): void;
}

/** How one provider's API differs from the other APIs of the AI SDK. */
export interface Dialect {
  /** The SDK's name for the provider's options and metadata. */
  readonly name: "openai" | "anthropic" | "google";
  readonly format: ReasoningFormat;
  /** System messages are sent before all others, because the API takes them nowhere else. */
  readonly hoists_system: boolean;
  /** Sends `custom` tools as a tool of the SDK. */
  readonly takes_custom_tools: boolean;
  /** At most as many tokens of instructions are added by the provider to a request with tools, and billed. */
  readonly tool_prompt_tokens: number;
  /**
   * The body's names of settings that the SDK drops or changes for some models. They are sent as given: the provider
   * decides, and its rejection names the field.
   */
  readonly settings: Readonly<Record<string, string>>;
  /** The object in the body that holds the settings; null: the body itself. */
  readonly settings_in: string | null;
  /** The SDK's options for a request. */
  options(request: ChatRequest, model: Model): ProviderOptions;
  /** The SDK's own reasoning setting, where the options do not have it. */
  effort(request: ChatRequest): LanguageModelCall["reasoning"];
  reader(answer: NativeAnswer): DialectReader;
  /** Reads a whole answer. */
  readWhole(body: Body, answer: NativeAnswer): void;
  /** The SDK's parts for reasoning of this provider, in the order of `details`. */
  parts(details: readonly ReasoningDetail[]): { part: AssistantPart; index: number | null }[];
  /** Corrects the body that the SDK built. */
  adjust(body: Body, request: ProviderRequest): Body;
}

/** The effort that a request names in any of the usual fields; undefined: none, or an unknown one. */
export function toEffort(request: ChatRequest): (typeof REASONING_EFFORTS)[number] | undefined {
  const named = [request.reasoning_effort, fieldsOf(request.reasoning).effort, fieldsOf(request.output_config).effort];
  return REASONING_EFFORTS.find((each) => named.includes(each));
}

/** The options that are set; null is a setting. */
export function options(fields: Record<string, unknown>): ProviderOptions {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ProviderOptions;
}
