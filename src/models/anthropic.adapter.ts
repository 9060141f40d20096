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

/** Anthropic accepts no smaller budget. */
const LEAST_THINKING_TOKENS = 1_024;

/**
 * Thinks within the output cap. For models that think by a budget, the AI SDK adds that budget to the cap: tens of
 * thousands of output tokens that nothing is held for.
 */
const cappedFetch: typeof fetch = (input, init = {}) => {
  const headers = new Headers(init.headers);
  const cap = Number(headers.get(CAP_HEADER));
  headers.delete(CAP_HEADER);
  const body = typeof init.body === "string" ? { body: within(cap, init.body) } : {};
  return boundedFetch(input, { ...init, ...body, headers: Object.fromEntries(headers) });
};

function within(cap: number, body: string): string {
  // Quotes in texts are escaped: only a field of the request is written like this.
  if (!body.includes('"thinking":{"type":"enabled"')) return body;
  const { thinking, ...request } = JSON.parse(body) as { thinking?: { budget_tokens?: number } };
  const budget_tokens = Math.min(thinking?.budget_tokens ?? 0, Math.floor(cap / 2));
  const thinks = budget_tokens >= LEAST_THINKING_TOKENS ? { thinking: { ...thinking, budget_tokens } } : {};
  return JSON.stringify({ ...request, max_tokens: cap, ...thinks });
}
