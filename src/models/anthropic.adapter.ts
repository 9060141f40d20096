import { boundedFetch, createLanguageModelProvider } from "./language-model.ts";
import type { Provider } from "./models.types.ts";

/** Anthropic's Messages API. */
export function createAnthropicProvider(settings: { base_url: string | null; api_key: string }): Provider {
  const { base_url, api_key } = settings;
  return createLanguageModelProvider(async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const anthropic = createAnthropic({
      apiKey: api_key,
      fetch: boundedFetch,
      ...(base_url === null ? {} : { baseURL: base_url }),
    });
    return (provider_model) => anthropic.languageModel(provider_model);
  });
}
