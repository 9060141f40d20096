import type { ChatRequest, ChatResponse } from "../contract/completions.ts";
import type { ProviderKind, ProviderSettings } from "./providers.ts";

/** The quality class of a model, for `auto`. */
export type Tier = "economy" | "standard" | "premium";

/** A model in the operator's file. */
export interface ModelSettings extends Rates {
  id: string;
  /** null: the price decides. */
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

/** The part of the configuration that defines the models on offer. */
export interface ModelsConfig {
  providers: readonly ProviderSettings[];
  models: readonly ModelSettings[];
  /** Factor on catalogue prices. */
  margin: number;
  /** The keys that are set, by variable name. */
  provider_keys: Readonly<Record<string, string>>;
}

export interface Supports {
  tools: boolean;
  streaming: boolean;
  json_schema: boolean;
  /** `vision`, `files`, `audio`: accepts pictures (`image_url`), files (`file`), audio (`input_audio`) in messages. */
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
  /** null: cached input has the price of input. */
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
  /** Request fields that the operator allows in addition to the list of the provider's kind. */
  forward: readonly string[];
  /** The provider's name for the model. */
  provider_model: string;
  part_tokens: PartTokens;
  context_window: number;
  max_output_tokens: number;
  trial_eligible: boolean;
  supports: Supports;
  tier: Tier;
  /** Built in and offline: routing uses it only if no other model is on offer. */
  rehearsal: boolean;
}

/** Raw tokens of one call. Cached and written input are disjoint parts of the input; reasoning is part of the output. */
export interface Counts {
  /** The whole prompt. */
  input_tokens: number;
  /** The part of the input that the provider read from its cache. */
  cached_input_tokens: number;
  /** The part of the input that the provider wrote to its cache, for any time to live. */
  cache_write_tokens: number;
  /** The part of `cache_write_tokens` that the cache keeps for an hour. */
  cache_write_1h_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** The provider reported no counts or invalid ones: the service counts ceil(UTF-8 bytes / 4). */
  estimated: boolean;
}

/** A request and the model that should answer it. */
export interface ModelRequest {
  readonly model: Model;
  readonly request: ChatRequest;
  /** The most tokens that the provider may generate; always sent. */
  readonly max_output_tokens: number;
  readonly stream: boolean;
  /** Headers of the caller for a provider with Anthropic's API. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** One request in a provider's own terms. It is built before the hold, because its size determines the hold. */
export interface ProviderRequest extends ModelRequest {
  /** The hold for the input. It is above the real count, except for adversarial text. */
  readonly input_tokens: number;
  /** The part of `input_tokens` for pictures, files and audio. */
  readonly media_tokens: number;
  /** The tokens of the context window that the input is expected to fill. */
  readonly likely_tokens: number;
  /**
   * The longest time to live that the request asks of the provider's cache, which decides the dearest price that its
   * input can have. Absent: unknown, so any that the model has a rate for.
   */
  readonly cache_writes?: "none" | "5m" | "1h";
  /** For providers that get our JSON: the body without its last fields, which depend on `max_output_tokens`. */
  readonly body_start?: Buffer;
}

export interface CallOptions {
  /** Aborted when the answer is no longer needed: the provider's connection is closed at once. */
  signal: AbortSignal;
  /** `monotonicMs` at which the call times out, fallbacks included. */
  deadline_ms: number;
  /** Called when the request is written to the provider's connection: from then on the provider may bill it. */
  onSent?: () => void;
}

export interface Completion {
  /** OpenAI's chat.completion with our `model` name; the caller sets `usage`. */
  response: ChatResponse;
  counts: Counts;
}

export interface ProviderStream {
  /**
   * Whole server-sent events in OpenAI's shape, often several in one string, ready to write out, with our `model` name
   * and without usage and `[DONE]`. Throws a PurserError if the provider fails during the stream.
   */
  readonly blocks: AsyncIterator<string>;
  /** `id` and `created` of the stream's chunks, known after the first block. */
  identity(): { id: string; created: number };
  /** The counts so far: from the provider's last usage report, otherwise estimated. */
  counts(): Counts;
  /** Closes the provider's connection; no effect if it is already closed. */
  cancel(): void;
}

/** One provider, with any protocol. Failures are PurserErrors that do not contain the provider's own text. */
export interface Provider {
  /** Builds the request. It may be sent with a lower `max_output_tokens`. */
  prepare(call: ModelRequest): Promise<ProviderRequest>;
  complete(request: ProviderRequest, options: CallOptions): Promise<Completion>;
  stream(request: ProviderRequest, options: CallOptions): Promise<ProviderStream>;
}
