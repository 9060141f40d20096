import type { FinishReason } from "../contract/completions.ts";
import { fieldsOf } from "../platform/json.ts";

/**
 * What providers and servers say in words and places of their own, as tables: a new one is a word or a line here, and a
 * row in test/unit/models/dialects.test.ts.
 */

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
    ...["modelcontextwindowexceeded", "errorlimit", "continuation", "incomplete", "notfinished"],
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
export function endingOf(reason: unknown): Ending | null {
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
  ],
  written: ["prompt_tokens_details.cache_write_tokens"],
  written_1h: ["prompt_tokens_details.cache_write_1h_tokens"],
  reasoning: [
    ...["completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"],
    "reasoning_tokens",
  ],
} as const;

/** The value at a path of names. */
export function field(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((found, name) => fieldsOf(found)[name], value);
}
