import type { FinishReason } from "../../api/contract/completions.ts";
import { fieldsOf } from "../../platform/lib/json.ts";

/**
 * What differs between providers and servers, as tables: what their requests must look like, their words for a prompt
 * that is too long, and the words and places of their answers. A new one is a word or a line here, and a row in
 * test/unit/models/dialects.test.ts.
 */

/** How a request to a server or for a model must look, where that differs from OpenAI's API. */
export interface RequestDialect {
  /** Takes the role `developer`. The others get `system`, which all take. */
  readonly takes_developer: boolean;
  /** The field with the output cap; null: it takes both, so the caller's. */
  readonly output_cap: "max_tokens" | "max_completion_tokens" | null;
  /** The ids of calls that it takes: others are replaced by ids of at most `length` characters. Null: any. */
  readonly call_ids: { readonly pattern: RegExp; readonly length: number } | null;
  /** The names of arguments that it takes. Null: any. */
  readonly argument_names: RegExp | null;
  /** Takes texts that are empty or blank. */
  readonly takes_blank_texts: boolean;
  /** Fields of a request that it rejects although they only are hints. */
  readonly dropped_fields: readonly string[];
  /** Fields of a request that it knows by another name. */
  readonly renamed_fields: Readonly<Record<string, string>>;
  /** Fields of an assistant's message that it rejects. */
  readonly dropped_message_fields: readonly string[];
}

const USUAL: RequestDialect = {
  takes_developer: false,
  output_cap: null,
  call_ids: null,
  argument_names: null,
  takes_blank_texts: true,
  dropped_fields: [],
  renamed_fields: {},
  dropped_message_fields: [],
};

/** One provider, server, or family of models. */
interface DialectRow extends Partial<RequestDialect> {
  /** Also the beginning or a word of the name that an operator gives to the provider in PURSER_CONFIG. */
  readonly name: string;
  /** It stands for a kind of providers, whatever their name is. */
  readonly kind?: string;
  /** Ends of its hosts, or ports. */
  readonly hosts?: readonly string[];
  /** The models that behave so at any server. */
  readonly models?: RegExp;
  /** Its words for a prompt that is too long. They count at every server, because gateways pass them on. */
  readonly too_long?: RegExp;
}

const CLAUDE_NAMES = /^[a-zA-Z0-9_.-]{1,64}$/;

export const DIALECTS: readonly DialectRow[] = [
  // Families of models.
  {
    name: "claude",
    models: /claude/i,
    call_ids: { pattern: /^[a-zA-Z0-9_-]{1,64}$/, length: 64 },
    argument_names: CLAUDE_NAMES,
    takes_blank_texts: false,
    too_long:
      /prompt is too long|input length and .?max_tokens.? exceed context limit|request exceeds the maximum size/i,
  },
  {
    name: "mistral models",
    models: /(?:mi(?:s|x|nis)tral|codestral|devstral|magistral|pixtral|voxtral)/i,
    output_cap: "max_tokens",
    call_ids: { pattern: /^[a-zA-Z0-9]{9}$/, length: 9 },
  },
  {
    name: "openai reasoning models",
    models: /(?:^|\/)(?:o\d|gpt-[5-9]|gpt-[12]\d)(?!\d)/i,
    output_cap: "max_completion_tokens",
  },
  // Kinds of providers, and OpenAI's own servers.
  {
    name: "anthropic",
    kind: "anthropic",
    hosts: ["api.anthropic.com"],
    call_ids: { pattern: /^[a-zA-Z0-9_-]{1,64}$/, length: 64 },
    argument_names: CLAUDE_NAMES,
    takes_blank_texts: false,
  },
  {
    name: "google",
    kind: "google",
    hosts: ["generativelanguage.googleapis.com", "aiplatform.googleapis.com"],
    argument_names: CLAUDE_NAMES,
    too_long:
      /input token count.{0,60}(?:exceeds the maximum|only supports up to)|exceeds the maximum number of tokens/i,
  },
  {
    name: "openai",
    kind: "openai",
    hosts: ["api.openai.com"],
    takes_developer: true,
    output_cap: "max_completion_tokens",
    call_ids: { pattern: /^.{1,40}$/s, length: 40 },
    too_long: /exceeds the context window|string too long.{0,60}maximum length \d{6}/i,
  },
  {
    name: "azure",
    hosts: [".openai.azure.com", ".cognitiveservices.azure.com"],
    takes_developer: true,
    output_cap: "max_completion_tokens",
    call_ids: { pattern: /^.{1,40}$/s, length: 40 },
    too_long: /input tokens exceed the configured limit|your messages resulted in [\d,]+ tokens/i,
  },
  // Providers.
  {
    name: "mistral",
    hosts: ["api.mistral.ai"],
    output_cap: "max_tokens",
    call_ids: { pattern: /^[a-zA-Z0-9]{9}$/, length: 9 },
    dropped_fields: ["user"],
    renamed_fields: { seed: "random_seed" },
    dropped_message_fields: ["reasoning_content", "reasoning", "reasoning_details", "name"],
    too_long: /too large for model with [\d,]+ maximum context length/i,
  },
  { name: "xai", hosts: ["api.x.ai"], too_long: /maximum prompt length is [\d,]+/i },
  {
    name: "groq",
    hosts: ["api.groq.com"],
    too_long: /reduce the length of the messages|reduce your message size/i,
  },
  {
    name: "deepseek",
    hosts: ["api.deepseek.com"],
    output_cap: "max_tokens",
    too_long: /maximum context length is [\d,]+ tokens/i,
  },
  {
    name: "moonshot",
    hosts: ["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
    output_cap: "max_tokens",
    too_long: /exceeded model token limit|total message size \d+ exceeds limit/i,
  },
  {
    name: "together",
    hosts: ["api.together.xyz", "api.together.ai"],
    output_cap: "max_tokens",
    too_long: /inputs.? tokens \+ .?max_new_tokens.? must be|is longer than the model.?s context length/i,
  },
  { name: "fireworks", hosts: ["api.fireworks.ai"], too_long: /prompt is too long: [\d,]+, model maximum/i },
  {
    name: "cerebras",
    hosts: ["api.cerebras.ai"],
    output_cap: "max_completion_tokens",
    too_long: /current length is [\d,]+ while limit is/i,
  },
  {
    name: "dashscope",
    hosts: [".aliyuncs.com"],
    output_cap: "max_tokens",
    too_long: /range of input length should be/i,
  },
  {
    name: "zai",
    hosts: ["api.z.ai", "open.bigmodel.cn"],
    output_cap: "max_tokens",
    too_long: /prompt exceeds max length|prompt too long|tokens in request more than max tokens allowed|prompt ?超长/i,
  },
  { name: "minimax", hosts: ["api.minimax.io", "api.minimaxi.com"], too_long: /context window exceeds limit/i },
  {
    name: "bedrock",
    hosts: [".amazonaws.com", ".api.aws"],
    call_ids: { pattern: /^[a-zA-Z0-9_-]{1,64}$/, length: 64 },
    too_long: /input is too long for requested model|too many input tokens|expected maxlength: [\d,]+/i,
  },
  {
    name: "openrouter",
    hosts: ["openrouter.ai"],
    too_long: /maximum context length is [\d,]+ tokens|exceeds the maximum allowed input length/i,
  },
  {
    name: "cohere",
    hosts: ["api.cohere.com", "api.cohere.ai"],
    output_cap: "max_tokens",
    too_long: /too many tokens: (?:total|size)|token limit exceeded/i,
  },
  {
    name: "github",
    hosts: ["models.github.ai", "models.inference.ai.azure.com", "api.githubcopilot.com"],
    too_long: /prompt token count of [\d,]+ exceeds the limit|request body too large for .{1,80} max size/i,
  },
  {
    name: "qianfan",
    hosts: ["qianfan.baidubce.com"],
    too_long: /the max (?:input characters|length of current question)/i,
  },
  { name: "cloudflare", hosts: ["api.cloudflare.com"], too_long: /exceeded this model context window limit/i },
  { name: "nvidia", hosts: ["integrate.api.nvidia.com"], output_cap: "max_tokens" },
  { name: "perplexity", hosts: ["api.perplexity.ai"], output_cap: "max_tokens" },
  { name: "deepinfra", hosts: ["api.deepinfra.com"], output_cap: "max_tokens" },
  // Own servers.
  {
    name: "llamacpp",
    too_long: /exceeds? the available context size|context size has been exceeded/i,
  },
  {
    name: "lmstudio",
    hosts: [":1234"],
    output_cap: "max_tokens",
    too_long: /greater than the context length|context length of only|n_keep.{0,40}n_ctx|reached context length of/i,
  },
  {
    name: "vllm",
    too_long:
      /maximum (?:context|model|input) length|context length is only [\d,]+|exceeds? (?:the )?model.?s maximum context/i,
  },
  { name: "sglang", too_long: /requested token count exceeds|longer than the model.?s context length/i },
  {
    name: "ollama",
    hosts: [":11434"],
    output_cap: "max_tokens",
    too_long: /exceeded (?:max )?context length|input length exceeds|input exceeds maximum context/i,
  },
  { name: "tgi", output_cap: "max_tokens", too_long: /.?inputs.? must have less than [\d,]+ tokens/i },
  { name: "tensorrt", too_long: /exceeds? (?:the )?maximum input length/i },
];

/** Which server a request goes to. `name` and `kind` are the provider's in the configuration. */
export interface Server {
  readonly name: string;
  readonly kind: string;
  readonly base_url: string | null;
}

/** The request dialect of a model at a server. What a server is known for counts more than what its model is. */
export function requestDialect(server: Server, provider_model: string): RequestDialect {
  const of_model = DIALECTS.filter(({ models }) => models?.test(provider_model));
  const of_kind = DIALECTS.filter(({ kind }) => kind === server.kind);
  return Object.assign({}, USUAL, ...of_model, ...of_kind, serverRow(server)) as RequestDialect;
}

/** The row of a server: by its address, otherwise by the name that the operator gave it. */
function serverRow({ name, base_url }: Server): DialectRow | undefined {
  const host = base_url === null ? "" : new URL(base_url).host.toLowerCase();
  const ends = (end: string) =>
    host === end || host.endsWith(end.startsWith(".") || end.startsWith(":") ? end : `.${end}`);
  const words = name.toLowerCase().split(/[^a-z0-9]+/);
  const whole = words.join("");
  return (
    DIALECTS.find(({ hosts }) => hosts?.some(ends)) ??
    DIALECTS.find(
      (row) =>
        row.models === undefined && row.kind === undefined && (words.includes(row.name) || whole.startsWith(row.name)),
    )
  );
}

/** Other words for a prompt that is too long, of servers without a row. */
const TOO_LONG = [
  /context.?(?:length|window|size|limit).{0,60}(?:exceed|overflow)|exceed.{0,80}context.?(?:length|window|size|limit)/i,
  /(?:prompt|input|conversation|messages?|context)(?:[ _](?:length|tokens?|text|sequence|prompt|messages?))*(?: ?\([^)]{0,60}\))? (?:is |are |was )?too (?:long|large)/i,
  /(?:prompt|input|message|total)[ _](?:length|tokens?|token count).{0,60}(?:exceed|must be (?:less|smaller) than)/i,
  /exceed.{0,60}(?:prompt|input|sequence|message)[ _](?:length|tokens)|prompt is [\d,]+ tokens, max/i,
  /max(?:imum)?(?: supported| allowed)? (?:sequence|prompt|input) length|too many (?:input |prompt )tokens/i,
  /maximum context|(?:larger|longer|greater) than (?:the )?(?:model.?s )?(?:max(?:imum)? )?context/i,
  ...DIALECTS.flatMap(({ too_long }) => too_long ?? []),
];
const TOO_LONG_CODES: ReadonlySet<string> = new Set([
  ...["context_length_exceeded", "context_window_exceeded", "model_context_window_exceeded"],
  ...["exceed_context_size_error", "model_max_prompt_tokens_exceeded", "tokens_limit_reached", "request_too_large"],
  ...["prompt_too_long", "input_too_long"],
  // z.ai.
  "1261",
]);
/** The same request can never fit into the limit of a minute, so only a shorter one helps. */
const NEVER_FITS = /request too large for|must be reduced in order to run/i;
const RATE_LIMITED = /rate.?limit|too many requests|(?:tokens|requests) per|please wait|throttl|quota/i;

/** Whether a provider's error says that the prompt is too long. */
export function saysTooLong({ codes, message }: { codes: readonly string[]; message: string }): boolean {
  if (NEVER_FITS.test(message)) return true;
  if (RATE_LIMITED.test(message)) return false;
  return codes.some((code) => TOO_LONG_CODES.has(code)) || TOO_LONG.some((words) => words.test(message));
}

/** How an answer ended: as one of OpenAI's reasons, or because the provider failed. */
export type Ending = FinishReason | "failed";

/** Finish reasons in lower case, with letters and digits only: `MAX_TOKENS` and `maxTokens` are one word. */
const FINISH_WORDS: Readonly<Record<Ending, readonly string[]>> = {
  stop: [
    ...["stop", "end", "endturn", "eos", "eostoken", "eosfound", "eog", "endoftext", "normal", "success"],
    ...["complete", "completed", "finish", "finished", "done"],
    ...["stopsequence", "stoptoken", "stopstring", "stopstringfound", "stopcriteriamet"],
  ],
  length: [
    ...["length", "maxtokens", "maxoutputtokens", "maxlength", "modellength", "tokenlimit", "timelimit"],
    ...["modelcontextwindowexceeded", "errorlimit", "continuation", "incomplete", "notfinished", "pauseturn"],
  ],
  tool_calls: ["toolcalls", "toolcall", "tooluse", "functioncall", "functioncalls"],
  content_filter: [
    ...["contentfilter", "contentfiltered", "safety", "recitation", "sensitive", "blocklist", "prohibitedcontent"],
    ...["spii", "language", "refusal", "guardrailintervened", "errortoxic"],
  ],
  failed: [
    ...["error", "networkerror", "abort", "cancelled", "timeout", "insufficientsystemresource", "modelunloaded"],
    ...["malformedfunctioncall", "unexpectedtoolcall", "toomanytoolcalls", "missingthoughtsignature", "userstopped"],
  ],
};

/** Parts of other words, in this order: Gemini writes `function_call_filter: MALFORMED_FUNCTION_CALL`. */
const FINISH_PARTS: readonly (readonly [Ending, RegExp])[] = [
  ["failed", /malformed|error|fail|abort|cancel|timeout|interrupt|insufficient|unavailable|overload|exception/],
  ["content_filter", /filter|safety|unsafe|sensitive|recitation|block|prohibit|guardrail|moderat|refus|toxic|policy/],
  ["length", /length|max|limit|truncat|context|incomplete/],
  ["tool_calls", /toolcall|tooluse|functioncall/],
];

/** A model's own token, such as `<|eot_id|>`, that ended its answer. */
const END_TOKEN = /^<.*>$/s;
/** No provider has a longer word. */
const MAX_WORD = 100;

/** A map, because providers choose the words: `constructor` is in every object. */
const ENDINGS: ReadonlyMap<string, Ending> = new Map(
  Object.entries(FINISH_WORDS).flatMap(([ending, words]) => words.map((word) => [word, ending as Ending] as const)),
);

/**
 * How a provider's finish reason says that the answer ended; null: it goes on. An unknown word counts as cut off,
 * because the answer may be incomplete.
 */
export function toEnding(reason: unknown): Ending | null {
  if (typeof reason !== "string" || reason === "" || reason === "null") return null;
  const word = reason.slice(0, MAX_WORD).toLowerCase();
  if (END_TOKEN.test(word)) return "stop";
  const plain = word.replaceAll(/[^a-z0-9]/g, "");
  return ENDINGS.get(plain) ?? FINISH_PARTS.find(([, part]) => part.test(plain))?.[0] ?? "length";
}

/** An ending as OpenAI's finish reason: `stop` for an answer whose provider did not say how it ended. */
export function finishReasonOfEnding(ending: Ending | null): FinishReason {
  return ending === null || ending === "failed" ? "stop" : ending;
}

/** A provider's finish reason as one of OpenAI's. */
export function toFinishReason(reason: unknown): FinishReason {
  return finishReasonOfEnding(toEnding(reason));
}

/** Where a report of usage stands in an answer or a chunk, besides `usage` of its choices (Moonshot). */
export const USAGE_PLACES = ["usage", "x_groq.usage"] as const;

/** The names of the figures in a report. Of several names the first one above 0 counts. */
export const USAGE_NAMES = {
  input: ["prompt_tokens", "input_tokens"],
  output: ["completion_tokens", "output_tokens"],
  /** Some servers count thoughts here only. */
  total: ["total_tokens"],
  cached: [
    ...["prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"],
    // DeepSeek, Moonshot.
    ...["prompt_cache_hit_tokens", "cached_tokens"],
    // Anthropic, LiteLLM.
    "cache_read_input_tokens",
  ],
  written: [
    ...["prompt_tokens_details.cache_write_tokens", "input_tokens_details.cache_write_tokens"],
    "cache_creation_input_tokens",
  ],
  written_1h: ["prompt_tokens_details.cache_write_1h_tokens"],
  reasoning: [
    ...["completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"],
    "reasoning_tokens",
  ],
} as const;

/** Anthropic's report has what it read from and wrote to its cache beside its input, not within it. */
export const BESIDE_INPUT = ["cache_read_input_tokens", "cache_creation_input_tokens"] as const;

/** The value at a path of names. */
export function field(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((found, name) => fieldsOf(found)[name], value);
}
