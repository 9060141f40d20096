import { boundedFetch, createLanguageModelProvider } from "./language-model.ts";
import type { Provider } from "./models.types.ts";

/** Google's Gemini API. */
export function createGoogleProvider(settings: { base_url: string | null; api_key: string }): Provider {
  const { base_url, api_key } = settings;
  return createLanguageModelProvider(async () => {
    const { createGoogle } = await import("@ai-sdk/google");
    const google = createGoogle({
      apiKey: api_key,
      fetch: boundedFetch,
      ...(base_url === null ? {} : { baseURL: base_url }),
    });
    return (provider_model) => google.languageModel(provider_model);
  });
}
