import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Dialect, effortOf, options } from "./language-model-dialect.ts";
import type { Counts, Provider } from "./models.types.ts";
import { countsOfUsage } from "./usage-report.ts";

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
  countsOf,
  countsSoFar: (event) => countsOf(fieldsOf(event).usageMetadata),
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

/** Gemini's report in OpenAI's names. Some models count thoughts in the total only. */
function countsOf(usage: unknown): Counts | null {
  const { promptTokenCount, toolUsePromptTokenCount, cachedContentTokenCount, totalTokenCount } = fieldsOf(usage);
  const { candidatesTokenCount, thoughtsTokenCount } = fieldsOf(usage);
  const has_output = candidatesTokenCount != null || thoughtsTokenCount != null;
  return countsOfUsage({
    prompt_tokens: Number(promptTokenCount ?? 0) + Number(toolUsePromptTokenCount ?? 0),
    completion_tokens: has_output ? Number(candidatesTokenCount ?? 0) + Number(thoughtsTokenCount ?? 0) : undefined,
    total_tokens: totalTokenCount,
    cached_tokens: cachedContentTokenCount,
    reasoning_tokens: thoughtsTokenCount,
  });
}
