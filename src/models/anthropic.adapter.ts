import { boundedFetch, CAP_HEADER, createLanguageModelProvider } from "./language-model.ts";
import type { Provider } from "./models.types.ts";

/** Anthropic's Messages API. */
export function createAnthropicProvider(settings: { base_url: string | null; api_key: string }): Provider {
  const { base_url, api_key } = settings;
  return createLanguageModelProvider(async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const anthropic = createAnthropic({
      apiKey: api_key,
      fetch: cappedFetch,
      ...(base_url === null ? {} : { baseURL: base_url }),
    });
    return (provider_model) => anthropic.languageModel(provider_model);
  });
}

/** The smallest thinking budget that Anthropic accepts. */
const LEAST_THINKING_TOKENS = 1_024;

/**
 * Keeps the thinking budget within the output cap. The AI SDK adds the budget to the cap: tens of thousands of output
 * tokens without a hold.
 */
const cappedFetch: typeof fetch = (input, init = {}) => {
  const headers = new Headers(init.headers);
  const cap = Number(headers.get(CAP_HEADER));
  headers.delete(CAP_HEADER);
  const body = typeof init.body === "string" ? { body: within(cap, init.body) } : {};
  return boundedFetch(input, { ...init, ...body, headers: Object.fromEntries(headers) });
};

function within(cap: number, body: string): string {
  // Quotes in texts are escaped, so this matches only a field of the request.
  if (!body.includes('"thinking":{"type":"enabled"')) return body;
  const { thinking, ...request } = JSON.parse(body) as { thinking?: { budget_tokens?: number } };
  const budget_tokens = Math.min(thinking?.budget_tokens ?? 0, Math.floor(cap / 2));
  const thinks = budget_tokens >= LEAST_THINKING_TOKENS ? { thinking: { ...thinking, budget_tokens } } : {};
  return JSON.stringify({ ...request, max_tokens: cap, ...thinks });
}
