import type { createAnthropic } from "@ai-sdk/anthropic";
import type { ChatRequest, ReasoningDetail, ReasoningFormat } from "../../api/contract/completions.ts";
import { REASONING_EFFORTS } from "../../kernel/constants.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import type { Counts, Model, ProviderRequest } from "./models.types.ts";

/** One model of a provider of the AI SDK. The type is the same for all providers. */
export type LanguageModel = ReturnType<ReturnType<typeof createAnthropic>["languageModel"]>;
export type LanguageModelCall = Parameters<LanguageModel["doGenerate"]>[0];
export type PromptMessage = LanguageModelCall["prompt"][number];
export type AssistantPart = Extract<PromptMessage, { role: "assistant" }>["content"][number];
export type ProviderOptions = NonNullable<LanguageModelCall["providerOptions"]>[string];

/** The body of a provider's request, as the SDK built it. */
export type Body = Record<string, unknown>;

/** A block of reasoning that the SDK read from an answer. `metadata` is the provider's own data. */
export interface ReasoningBlock {
  text: string;
  metadata: Record<string, unknown>;
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
  /** The counts of the provider's own report. Absent: the SDK reads all of it. */
  countsOf?(usage: unknown): Counts | null;
  /** The counts so far in an event before the end of a stream; null: it has none. Absent: the API has no such event. */
  countsSoFar?(event: unknown): Counts | null;
  /** Whether a stream goes on after an event that the SDK does not know. Absent: it knows all, or ignores others. */
  isIgnored?(event: unknown): boolean;
  /** A whole answer without what the SDK does not know and rejects. Absent: it ignores that. */
  known?(answer: Body): Body;
  /** The same for the events of a stream that `concerns` finds; null: the SDK does not need the event. */
  readonly knownEvent?: { readonly concerns: RegExp; of(event: Body): Body | null };
  /** Whether a whole answer is a failure that the SDK takes for an answer. Absent: the API has no such answer. */
  isFailed?(answer: unknown): boolean;
  /** A block of reasoning in OpenRouter's shape. */
  details(block: ReasoningBlock): Omit<ReasoningDetail, "format" | "index" | "model">[];
  /** The SDK's parts for reasoning of this provider, in the order of `details`. */
  parts(details: readonly ReasoningDetail[]): { part: AssistantPart; index: number | null }[];
  /** Corrects the body that the SDK built. */
  adjust(body: Body, request: ProviderRequest): Body;
}

/** The effort that a request names in any of the usual fields; undefined: none, or an unknown one. */
export function effortOf(request: ChatRequest): (typeof REASONING_EFFORTS)[number] | undefined {
  const named = [request.reasoning_effort, fieldsOf(request.reasoning).effort, fieldsOf(request.output_config).effort];
  return REASONING_EFFORTS.find((each) => named.includes(each));
}

/** The options that are set; null is a setting. */
export function options(fields: Record<string, unknown>): ProviderOptions {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ProviderOptions;
}
