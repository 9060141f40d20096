import type { ReasoningFormat } from "../../api/contract/completions.ts";

/**
 * The kinds of providers and the providers that are built in, with their keys. Pure. A kind is one entry here and, where it
 * does not share another kind's adapter, one `x.adapter.ts` with its line in `adapters.ts`.
 */

/** What the service knows about one kind of provider. */
interface KindTraits {
  /** The variable that by convention holds the key; null: no key unless the operator names a variable. */
  readonly api_key_env: string | null;
  /** The operator must give `base_url`: the kind has no public address. */
  readonly needs_address: boolean;
  /** Request fields that are sent in addition to `SERVED_FIELDS`. */
  readonly forwarded_fields: readonly string[];
  /** `SERVED_FIELDS` that the provider's API does not have. */
  readonly lacked_fields: readonly string[];
  /** The operator may allow more fields (`forward`), because the request is sent as JSON, not through an SDK. */
  readonly takes_other_fields: boolean;
  /** Accepts http addresses of pictures. Also false if an address could lead to a film, which costs far more. */
  readonly takes_image_addresses: boolean;
  /** The shape of the reasoning that its models sign or encrypt; null: unknown, it is relayed as it came. */
  readonly reasoning_format: ReasoningFormat | null;
  /** Accepts tools of type `custom`. */
  readonly takes_custom_tools: boolean;
  /** Accepts `cache_control`. */
  readonly takes_cache_control: boolean;
  /** Sells embeddings. */
  readonly sells_embeddings: boolean;
  /** Its embedding models accept token numbers in place of texts. */
  readonly takes_token_inputs: boolean;
}

const OPENAI_FIELDS = ["user", "parallel_tool_calls", "reasoning_effort"];
const REASONING_SETTINGS = ["reasoning_effort", "reasoning", "output_config"];
const OPENAI_SHAPED = {
  takes_other_fields: true,
  takes_image_addresses: true,
  takes_custom_tools: true,
  takes_cache_control: false,
  sells_embeddings: true,
  takes_token_inputs: true,
};
const BY_SDK = {
  needs_address: false,
  takes_other_fields: false,
  takes_custom_tools: false,
  takes_token_inputs: false,
};

export const PROVIDER_KINDS = {
  openai: {
    ...OPENAI_SHAPED,
    api_key_env: "OPENAI_API_KEY",
    needs_address: false,
    forwarded_fields: [
      ...OPENAI_FIELDS,
      ...["reasoning", "verbosity", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"],
    ],
    lacked_fields: ["stop", "seed", "presence_penalty", "frequency_penalty"],
    reasoning_format: "openai-responses-v1",
  },
  anthropic: {
    ...BY_SDK,
    api_key_env: "ANTHROPIC_API_KEY",
    forwarded_fields: [
      ...REASONING_SETTINGS,
      ...["parallel_tool_calls", "thinking", "cache_control", "context_management", "metadata", "top_k"],
    ],
    lacked_fields: ["seed", "presence_penalty", "frequency_penalty"],
    takes_image_addresses: true,
    reasoning_format: "anthropic-claude-v1",
    takes_cache_control: true,
    sells_embeddings: false,
  },
  google: {
    ...BY_SDK,
    api_key_env: "GOOGLE_GENERATIVE_AI_API_KEY",
    forwarded_fields: REASONING_SETTINGS,
    lacked_fields: [],
    reasoning_format: "google-gemini-v1",
    takes_cache_control: false,
    takes_image_addresses: false,
    sells_embeddings: true,
  },
  "openai-compatible": {
    ...OPENAI_SHAPED,
    api_key_env: null,
    needs_address: true,
    forwarded_fields: [
      ...OPENAI_FIELDS,
      ...["n", "logit_bias", "logprobs", "top_logprobs", "top_k", "min_p", "repetition_penalty"],
    ],
    lacked_fields: [],
    reasoning_format: null,
  },
} as const satisfies Record<string, KindTraits>;

/** The kind of a provider, which selects its adapter. */
export type ProviderKind = keyof typeof PROVIDER_KINDS;

/** What the service knows about a kind. */
export function traitsOf(kind: ProviderKind): KindTraits {
  return PROVIDER_KINDS[kind];
}

/** A provider from the operator's file, or a built-in one. */
export interface ProviderSettings {
  name: string;
  kind: ProviderKind;
  /** Without a trailing slash; null: the kind's public address. */
  base_url: string | null;
  /** The variable that holds the key; null: no key is sent. */
  api_key_env: string | null;
  /** Request fields that the operator allows in addition to the list of the provider's kind. */
  forward?: readonly string[];
}

/** Known providers. A key in the environment makes their models available. */
export const BUILT_IN_PROVIDERS = [
  ofKind("openai"),
  ofKind("anthropic"),
  ofKind("google"),
  compatible("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
  compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
  compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
];

/** The variables that hold keys of built-in providers. */
export const PROVIDER_KEYS = BUILT_IN_PROVIDERS.flatMap(({ api_key_env }) => api_key_env ?? []);

function ofKind(kind: ProviderKind): ProviderSettings {
  return { name: kind, kind, base_url: null, api_key_env: traitsOf(kind).api_key_env };
}

function compatible(name: string, base_url: string, api_key_env: string): ProviderSettings {
  return { name, kind: "openai-compatible", base_url, api_key_env };
}
