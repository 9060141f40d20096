import type { ChatRequest, ChatResponse } from "../contract/completions.ts";
import type { ProviderKind, ProviderSettings } from "./providers.ts";

/** What a model is good for, as `auto` sees it. */
export type Tier = "economy" | "standard" | "premium";

/** A model of the operator's file. */
export interface ModelSettings extends Rates {
  id: string;
  /** null: by its price. */
  tier: Tier | null;
  provider: string;
  provider_model: string;
  name: string;
  trial_eligible: boolean;
  context_window: number;
  max_output_tokens: number;
  supports: Supports;
  part_tokens: PartTokens;
  forward: readonly string[];
}

/** The part of the configuration that says what is on offer. */
export interface ModelsConfig {
  providers: readonly ProviderSettings[];
  models: readonly ModelSettings[];
  /** Factor on catalogue prices. */
  margin: number;
  /** The keys that are set, by the name of their variable. */
  provider_keys: Readonly<Record<string, string>>;
}

export interface Supports {
  tools: boolean;
  streaming: boolean;
  json_schema: boolean;
  /** Takes pictures (`image_url`), files (`file`), audio (`input_audio`) in messages. */
  vision: boolean;
  files: boolean;
  audio: boolean;
}

/** The most input tokens that one part costs; null: the rest of the context window. */
export interface PartTokens {
  image: number | null;
  file: number | null;
  audio: number | null;
}

/** Millionths of a billed token per raw token; whole, never negative. */
export interface Rates {
  input_rate_micro: number;
  output_rate_micro: number;
  /** null: cached input costs what input costs. */
  cached_input_rate_micro: number | null;
}

/** A model on offer. */
export interface Model extends Rates {
  id: string;
  uuid: string;
  name: string;
  /** The provider's name. */
  owned_by: string;
  kind: ProviderKind;
  /** Fields of a request that the operator lets through beside its kind's list. */
  forward: readonly string[];
  /** What the provider calls it. */
  provider_model: string;
  part_tokens: PartTokens;
  context_window: number;
  max_output_tokens: number;
  trial_eligible: boolean;
  supports: Supports;
  tier: Tier;
  /** Built in and offline: routing takes it only where nothing else is on offer. */
  rehearsal: boolean;
}

/** Raw tokens of one call. `input_tokens` includes the cached ones, `output_tokens` the reasoning ones. */
export interface Counts {
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** The provider did not say (or what it said was nonsense): counted here as ceil(UTF-8 bytes / 4). */
  estimated: boolean;
}

/** A request and the model that is to answer it. */
export interface ModelRequest {
  readonly model: Model;
  readonly request: ChatRequest;
  /** The most the provider may generate, always sent along. */
  readonly max_output_tokens: number;
  readonly stream: boolean;
}

/** One request in a provider's own terms, made before the hold because its size is what the hold is estimated from. */
export interface ProviderRequest extends ModelRequest {
  /** What the input is held for; above what it will count in all but adversarial text. */
  readonly input_tokens: number;
  /** The part of it that pictures, files and audio are held for. */
  readonly media_tokens: number;
  /** How much of the context window the input is expected to fill. */
  readonly likely_tokens: number;
  /** Where the provider takes JSON from us: the body but for its last fields, which depend on `max_output_tokens`. */
  readonly body_start?: Buffer;
}

export interface CallOptions {
  /** Aborted when nobody waits for the answer any more: the provider's connection is closed at once. */
  signal: AbortSignal;
  /** `monotonicMs` at which the call is given up, fallbacks included. */
  deadline_ms: number;
  /** Called when the request is written to the provider's connection: from then on the provider may bill it. */
  onSent?: () => void;
}

export interface Completion {
  /** OpenAI's chat.completion, `model` already ours; `usage` is the caller's to set. */
  response: ChatResponse;
  counts: Counts;
}

export interface ProviderStream {
  /**
   * Whole server-sent events in OpenAI's shape, often several in one string, ready to be written out: `model` ours,
   * usage and `[DONE]` left out. Throws a PurserError when the provider fails on the way.
   */
  readonly blocks: AsyncIterator<string>;
  /** `id` and `created` of the stream's chunks, known after the first block. */
  identity(): { id: string; created: number };
  /** What was generated so far: the provider's last usage report, else the estimate. */
  counts(): Counts;
  /** Closes the provider's connection; harmless when it is closed. */
  cancel(): void;
}

/** One provider, whatever it speaks. Failures are PurserErrors without the provider's words in them. */
export interface Provider {
  /** What it returns may be sent with a lower `max_output_tokens`. */
  prepare(call: ModelRequest): Promise<ProviderRequest>;
  complete(request: ProviderRequest, options: CallOptions): Promise<Completion>;
  stream(request: ProviderRequest, options: CallOptions): Promise<ProviderStream>;
}
