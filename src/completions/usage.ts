import type { Usage } from "../contract/completions.ts";
import type { Counts, Rates } from "../models/models.types.ts";
import { costTokens } from "../models/pricing.ts";

/** The usage object of an answer: the four fields of contract 4.4 and OpenAI's names. Pure. */
export function usageOf(rates: Rates, counts: Counts): Usage {
  const { input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, estimated } = counts;
  const { cache_write_tokens, cache_write_1h_tokens } = counts;
  return {
    input_tokens,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
    cost_tokens: costTokens(rates, counts),
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    prompt_tokens_details: {
      cached_tokens: cached_input_tokens,
      cache_write_tokens,
      ...(cache_write_1h_tokens === 0 ? {} : { cache_write_1h_tokens }),
    },
    completion_tokens_details: { reasoning_tokens },
    ...(estimated ? { estimated: true as const } : {}),
  };
}
