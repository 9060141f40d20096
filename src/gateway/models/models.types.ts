import type { ChatRequest, ChatResponse } from "../../api/contract/completions.ts";
import type { EmbeddingInput } from "../../api/contract/embeddings.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { Renaming } from "../../platform/lib/tool-schema.ts";
import type { AnswerPart } from "./answer-events.ts";
import type { ProviderKind, ProviderSettings } from "./providers.ts";

/** The quality class of a model, for `auto`. */
export type Tier = "economy" | "standard" | "premium";

/** What a model is called for: chat completions, or vectors of texts. */
export type ModelKind = "chat" | "embedding";

/** A model in the operator's file. */
export interface ModelSettings extends Rates {
  id: string;
  model_kind: ModelKind;
  /** Rates for a time. While none is in force, the model's own rates are. */
  prices: readonly DatedRates[];
  /** The provider's prices for the operator; null: unknown. */
  upstream: Rates | null;
  /** null: the price decides. */
  tier: Tier | null;
  /** With `routes`, the first route's provider and name of the model. */
  provider: string;
  provider_model: string;
  /** The ways to the model; none: only `provider`. */
  routes: readonly RouteSettings[];
  name: string;
  trial_eligible: boolean;
  context_window: number;
  max_output_tokens: number;
  supports: Supports;
  part_tokens: PartTokens;
  forward: readonly string[];
}

/** One of several ways to a model in the operator's file. */
interface RouteSettings {
  provider: string;
  provider_model: string;
  /** The share of the callers that begin with this route, relative to the others; 0: it only replaces failed ones. */
  weight: number;
  /** The provider's prices for the operator; null: unknown. */
  upstream: Rates | null;
}

/** The part of the configuration that defines the models on offer. */
export interface ModelsConfig {
  providers: readonly ProviderSettings[];
  models: readonly ModelSettings[];
  /** Absent: the built-in catalogue. */
  catalogue?: readonly CatalogueEntry[];
  /** Absent: flat. */
  cache_pricing?: CachePricing;
  /** Factor on catalogue prices. */
  margin: number;
  /** The keys that are set, by variable name. */
  provider_keys: Readonly<Record<string, string>>;
}

/** US dollars per million tokens, as decimal text. An absent class of input has the price of input. */
export interface UsdPrices {
  input: string;
  cached_input?: string | undefined;
  cache_write?: string | undefined;
  cache_write_1h?: string | undefined;
  output: string;
}

/** The prices of whole requests with more input than `above_input_tokens`. The model's own apply to absent classes. */
interface UsdTier extends UsdPrices {
  above_input_tokens: number;
}

/** The prices of a model from `valid_from` on and before `valid_until`; null: without that bound. */
export interface CataloguePrice {
  valid_from: Instant | null;
  valid_until: Instant | null;
  usd_per_million: UsdPrices;
  tiers: readonly UsdTier[];
  /** Where the prices were read. */
  source: string;
  /** The day of the source, YYYY-MM-DD. */
  as_of: string;
  /** What the source does not say, and where it was read. */
  note?: string | undefined;
}

/** The provider's announcement that a model ends. */
export interface Deprecation {
  /** The day from which it is no longer served, YYYY-MM-DD; null: not announced. */
  retires_on: string | null;
  /** The id of the model that the provider names instead. */
  replacement: string | null;
}

export interface CatalogueEntry {
  id: string;
  model_kind: ModelKind;
  /** The name of a built-in provider, or of one in PURSER_CONFIG. */
  provider: string;
  name: string;
  /** The last one that is in force applies. While none is, the model is not offered. */
  prices: readonly CataloguePrice[];
  context_window: number;
  max_output_tokens: number;
  trial_eligible: boolean;
  supports: Supports;
  part_tokens: PartTokens;
  deprecation: Deprecation | null;
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

/** The ids that a model may have in the catalogue and in PURSER_CONFIG. */
export const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/;

/** What an embedding model supports of chat completions. */
export const NO_SUPPORT: Supports = {
  tools: false,
  streaming: false,
  json_schema: false,
  vision: false,
  files: false,
  audio: false,
};

/** The most input tokens that one part costs; null: the rest of the context window. */
export interface PartTokens {
  image: number | null;
  file: number | null;
  audio: number | null;
}

/** `flat`: every input token costs the input rate. `provider`: each class of input has its own rate. */
export type CachePricing = "flat" | "provider";

/** The rates of one request by class, in millionths of a billed token per raw token; whole, never negative. */
export interface ClassRates {
  input_rate_micro: number;
  /** null: cached input costs what other input costs. */
  cached_input_rate_micro: number | null;
  /** null: input that is written to the cache costs what other input costs. */
  cache_write_rate_micro: number | null;
  /** For input that the cache keeps for an hour. null: the rate of other cache writes. */
  cache_write_1h_rate_micro: number | null;
  output_rate_micro: number;
}

/** The rates of a whole request whose input has more than `above_input_tokens`. */
export interface RateTier extends ClassRates {
  above_input_tokens: number;
}

/** The rates of a model: for short requests, and in tiers for longer ones, in ascending order. */
export interface Rates extends ClassRates {
  tiers: readonly RateTier[];
}

/** Rates from `valid_from` on and before `valid_until`; null: without that bound. */
export interface DatedRates extends Rates {
  valid_from: Instant | null;
  valid_until: Instant | null;
}

/** A model on offer, with the rates that are in force. A change of its rates is a new object. */
export interface Model extends Rates {
  id: string;
  model_kind: ModelKind;
  /** Names the price list in force: the rates of all models of the configuration. */
  price_version: string;
  /**
   * The provider's prices for the operator, before the margin, in millionths of a micro-dollar per raw token, which is
   * the same number as micro-dollars per million tokens. Null: unknown.
   */
  upstream: Rates | null;
  deprecation: Deprecation | null;
  uuid: string;
  name: string;
  /** The provider's name. */
  owned_by: string;
  kind: ProviderKind;
  /** Request fields that the operator allows in addition to the list of the provider's kind. */
  forward: readonly string[];
  /** The provider's name for the model. */
  provider_model: string;
  /** The route that this model is called by: its provider's name. Null: the configuration lists no routes. */
  route: string | null;
  /** All routes of the model; none: the configuration lists none. */
  routes: readonly ModelRoute[];
  part_tokens: PartTokens;
  context_window: number;
  /** 0 for an embedding model. */
  max_output_tokens: number;
  trial_eligible: boolean;
  supports: Supports;
  tier: Tier;
  /** Built in and offline: routing uses it only if no other model is on offer. */
  rehearsal: boolean;
}

/** One of several ways to a model: the fields of `Model` that differ between them. */
export interface ModelRoute extends Pick<Model, "owned_by" | "kind" | "forward" | "provider_model" | "upstream"> {
  route: string;
  weight: number;
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
  /** Of a sum of several calls: the input of one, which decides the tier. Absent: one call. */
  call_input_tokens?: number;
  /** The provider reported no counts or invalid ones: the service counts ceil(UTF-8 bytes / 4). */
  estimated: boolean;
}

/** The caller's own request, for a provider with the same API. Its fields replace the converted ones in the body. */
export interface NativeRequest {
  readonly kind: ProviderKind;
  /** `model`: the model that is called. It gets only its own reasoning back, by the same route. */
  fields(model: NativeTarget): Record<string, unknown>;
}
export type NativeTarget = Pick<Model, "id" | "route">;

/** Names of the caller that a provider does not take, so it got others. */
export interface CallersNames {
  /** The caller's ids of calls, by the provider's. */
  ids: ReadonlyMap<string, string>;
  /** The tools whose arguments have other names, by the tool's name. */
  tools: ReadonlyMap<string, Renaming>;
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
  readonly native?: NativeRequest;
  /** The caller's own check of an answer in JSON. */
  readonly findJsonFault?: (value: unknown) => string | null;
}

/** One request in a provider's own terms. It is built before the hold, because its size determines the hold. */
export interface ProviderRequest extends ModelRequest {
  /** The hold for the input. It is above the real count, except for text that was built against one tokenizer. */
  readonly input_tokens: number;
  /** The part of it for one call, if it is for two: it decides the tiers that the request can reach. */
  readonly call_input_tokens?: number;
  /** The answer may be sent back as input of the second call. */
  readonly resends_output?: true;
  /** The part of `input_tokens` for pictures, files and audio. */
  readonly media_tokens: number;
  /** The tokens of the context window that the input is expected to fill. */
  readonly likely_tokens: number;
  /**
   * The longest time to live that the request asks of the provider's cache, which decides the dearest price that its
   * input can have. Absent: unknown, so any that the model has a rate for.
   */
  readonly cache_writes?: "none" | "5m" | "1h";
  /** The service checks the answer, because the provider does not. */
  readonly checkJson?: (value: unknown) => string | null;
  /** The fields of `native` for this model, if its provider has that API. */
  readonly native_fields?: Readonly<Record<string, unknown>>;
  /** The bytes of `native_fields` that `request` does not have. They are billed as text if the provider reports nothing. */
  readonly native_bytes?: number;
  /** What the answer has under other names than the caller's. Absent: nothing. */
  readonly callers_names?: CallersNames;
  /** For providers that get our JSON: the body without its last fields, which depend on `max_output_tokens`. */
  readonly body_start?: Buffer;
}

export interface CallOptions {
  /** Aborted when the answer is no longer needed: the provider's connection is closed at once. */
  signal: AbortSignal;
  /** `monotonicMs` at which the call times out, fallbacks included. */
  deadline_ms: number;
  /** Aborted when the caller has hung up. The answer may still be read for its usage, but no other call begins. */
  hung_up?: AbortSignal;
  /** Called when the request is written to the provider's connection: from then on the provider may bill it. */
  onSent?: () => void;
  /** Called with a usage report that is not believed (`token-count.ts`). A stream may have several. */
  onDisbelieved?: (report: Counts) => void;
}

export interface Completion {
  /** OpenAI's chat.completion with our `model` name; the caller sets `usage`. */
  response: ChatResponse;
  counts: Counts;
}

export interface ProviderStream {
  /** The answer in parts, from its start to its finish. Throws a PurserError if the provider fails during the stream. */
  readonly parts: AsyncIterator<AnswerPart>;
  /** The counts so far: from the provider's last usage report, otherwise estimated. */
  counts(): Counts;
  /** Closes the provider's connection; no effect if it is already closed. */
  cancel(): void;
}

/** A call for vectors. */
export interface EmbeddingCall {
  readonly model: Model;
  readonly inputs: readonly EmbeddingInput[];
  readonly encoding_format: "float" | "base64";
  /** The request's other fields, as the provider gets them. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Vectors {
  /** The JSON text of each input's vector, in the format that was asked for. */
  vectors: string[];
  /** null: the provider reported no count. */
  input_tokens: number | null;
}

export type Embed = (call: EmbeddingCall, options: CallOptions) => Promise<Vectors>;

/** One provider, with any protocol. Failures are PurserErrors that do not contain the provider's own text. */
export interface Provider {
  /** Builds the request. It may be sent with a lower `max_output_tokens`. */
  prepare(call: ModelRequest): Promise<ProviderRequest>;
  complete(request: ProviderRequest, options: CallOptions): Promise<Completion>;
  stream(request: ProviderRequest, options: CallOptions): Promise<ProviderStream>;
  /** Absent: the provider sells no embeddings. */
  embed?: Embed;
}
