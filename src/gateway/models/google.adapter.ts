import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Dialect, effortOf, options } from "./language-model-dialect.ts";
import type { Provider } from "./models.types.ts";
import { checkedCounts } from "./usage-report.ts";

/** Google's Gemini API. */
export function createGoogleProvider(settings: { base_url: string | null; api_key: string }): Provider {
  const { base_url, api_key } = settings;
  return createLanguageModelProvider(GOOGLE, settings, async () => {
    const { createGoogle } = await import("@ai-sdk/google");
    return (provider_model, fetch) => {
      const connection = { apiKey: api_key, fetch, ...(base_url === null ? {} : { baseURL: base_url }) };
      return createGoogle(connection).languageModel(provider_model);
    };
  });
}

const GOOGLE: Dialect = {
  name: "google",
  format: "google-gemini-v1",
  hoists_system: true,
  takes_custom_tools: false,
  tool_prompt_tokens: 0,
  settings: {
    temperature: "temperature",
    top_p: "topP",
    seed: "seed",
    presence_penalty: "presencePenalty",
    frequency_penalty: "frequencyPenalty",
  },
  settings_in: "generationConfig",
  effort: effortOf,
  options(request) {
    const effort = effortOf(request);
    const thinks = effort !== undefined && effort !== "none";
    return options({ thinkingConfig: thinks ? { includeThoughts: true } : undefined });
  },
  countsSoFar(event) {
    const { promptTokenCount, cachedContentTokenCount, candidatesTokenCount, thoughtsTokenCount } = fieldsOf(
      fieldsOf(event).usageMetadata,
    );
    return checkedCounts({
      input_tokens: promptTokenCount,
      cached_input_tokens: cachedContentTokenCount ?? 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: 0,
      output_tokens: Number(candidatesTokenCount ?? 0) + Number(thoughtsTokenCount ?? 0),
      reasoning_tokens: thoughtsTokenCount ?? 0,
    });
  },
  /** The signature of a text is a block without a text; that of a call is in the call's `extra_content`. */
  details({ text, metadata: { thoughtSignature } }) {
    const signature = typeof thoughtSignature === "string" ? thoughtSignature : undefined;
    if (text === "" && signature !== undefined) return [{ type: "reasoning.encrypted", data: signature }];
    return [{ type: "reasoning.text", text, ...(signature === undefined ? {} : { signature }) }];
  },
  parts: (details) =>
    details.flatMap(({ type, text = "", signature, index = null }) => {
      // Thoughts without a signature are for people.
      if (type !== "reasoning.text" || typeof signature !== "string") return [];
      return [
        { part: { type: "reasoning", text, providerOptions: { google: { thoughtSignature: signature } } }, index },
      ];
    }),
  adjust: (body) => body,
};
