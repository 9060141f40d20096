import type { Upstream } from "../upstream.ts";
import { createGeminiApi } from "./gemini.ts";
import { createMessagesApi } from "./messages.ts";
import { createResponsesApi } from "./responses.ts";
import type { Script } from "./turn.ts";

/** The three native APIs, each with the name of one of its models. */
export const NATIVE_APIS = {
  openai: { create: createResponsesApi, provider_model: "gpt-6.1-terra" },
  anthropic: { create: createMessagesApi, provider_model: "claude-haiku-4-5-20251001" },
  google: { create: createGeminiApi, provider_model: "gemini-3.5-flash" },
} as const;
export type NativeKind = keyof typeof NATIVE_APIS;
export const NATIVE_KINDS = Object.keys(NATIVE_APIS) as NativeKind[];

/** The variable that PURSER_CONFIG names for the providers' key. */
export const NATIVE_ENV = { NATIVE_KEY: "sk-native-0123456789" };

/** PURSER_CONFIG with a model `native/{kind}` for each API, and a second one, `native/{kind}-2`. */
export function nativeConfig(upstream: Upstream) {
  return {
    providers: NATIVE_KINDS.map((kind) => ({
      name: `${kind}-lab`,
      kind,
      base_url: upstream.url,
      api_key_env: "NATIVE_KEY",
    })),
    models: NATIVE_KINDS.flatMap((kind) =>
      ["", "-2"].map((suffix) => ({
        id: `native/${kind}${suffix}`,
        provider: `${kind}-lab`,
        provider_model: NATIVE_APIS[kind].provider_model + suffix,
        name: `${kind}${suffix}`,
        // For `auto` the first is the cheaper one.
        input_rate: suffix === "" ? 1 : 2,
        output_rate: suffix === "" ? 4 : 8,
        trial_eligible: true,
        context_window: 128_000,
        max_output_tokens: 8_000,
        supports: { tools: true, json_schema: true, vision: true, files: true, audio: true },
      })),
    ),
    limits: { requests_per_minute: 1_000_000 },
  };
}

/** Three calls of web_fetch, each after reasoning, and then an answer. */
export function threeFetches(url: string): Script {
  const paths = ["/one", "/two", "/three"];
  return (_, { body }) => {
    const sent = JSON.stringify(body);
    // The address as an argument of a call, in JSON or in a JSON string.
    const done = paths.filter((path) => new RegExp(`url\\\\*":\\\\*"[^"\\\\]*${path}\\b`).test(sent)).length;
    const path = paths[done];
    if (path === undefined) return { reasoning: "all is known", text: "It is green." };
    const calls = [{ name: "web_fetch", arguments: { url: url + path } }];
    return { reasoning: `thought ${done}`, text: "Let me see.", calls };
  };
}
