import { fieldsOf } from "../../platform/lib/json.ts";
import { createLanguageModelProvider } from "./language-model.ts";
import { type Body, type Dialect, type DialectReader, options, toEffort } from "./language-model-dialect.ts";
import type { Counts, Provider } from "./models.types.ts";
import type { NativeAnswer } from "./native-answer.ts";
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
  effort: toEffort,
  options(request) {
    const effort = toEffort(request);
    const thinks = effort !== undefined && effort !== "none";
    return options({ thinkingConfig: thinks ? { includeThoughts: true } : undefined });
  },
  reader: contentReader,
  readWhole(body, answer) {
    const reader = contentReader(answer);
    reader.read(body);
    reader.close();
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

/** Reads chunks of generated content. A whole answer is one chunk. */
function contentReader(answer: NativeAnswer): DialectReader {
  /** The thoughts or the text that is being generated. */
  let open: { kind: "thought" | "text"; place: number; text: string; signature: unknown } | null = null;
  let calls = 0;
  let usage: Body | null = null;

  /** Thoughts are details once they are whole. */
  function endBlock(): void {
    if (open?.kind === "thought") {
      const signed = typeof open.signature === "string" ? { signature: open.signature } : {};
      answer.details([{ type: "reasoning.text", text: open.text, ...signed }], open.place);
    }
    open = null;
  }

  function readPart({ text, thought, thoughtSignature: signature, functionCall }: Body): void {
    if (functionCall != null) {
      const { id, name, args } = fieldsOf(functionCall);
      endBlock();
      calls += 1;
      const given = typeof args === "string" ? args : JSON.stringify(args ?? {});
      answer.call(calls, { id: String(id ?? ""), name: String(name), text: given, signature });
    } else if (typeof text === "string") readText(text, thought === true ? "thought" : "text", signature);
  }

  function readText(text: string, kind: "thought" | "text", signature: unknown): void {
    if (text !== "" && open?.kind !== kind) {
      endBlock();
      open = { kind, place: answer.block(), text: "", signature: null };
    }
    if (text !== "" && kind === "thought" && open !== null) {
      open.text += text;
      open.signature = signature ?? open.signature;
      answer.reasoning(text);
      return;
    }
    answer.text(text);
    // The signature of a text is a block without a text; that of a call is in the call's `extra_content`.
    if (typeof signature !== "string") return;
    if (open?.kind === "thought") endBlock();
    answer.details([{ type: "reasoning.encrypted", data: signature }], open?.place ?? answer.block());
  }

  function readChunk({ candidates, usageMetadata, promptFeedback }: Body): void {
    if (usageMetadata != null) {
      usage = fieldsOf(usageMetadata);
      answer.report(toCounts(usage), false);
    }
    const { blockReason } = fieldsOf(promptFeedback);
    if (typeof blockReason === "string" && !blockReason.endsWith("UNSPECIFIED")) answer.finish("content_filter");
    const [candidate] = Array.isArray(candidates) ? candidates.map(fieldsOf) : [];
    if (candidate === undefined) return;
    const { parts } = fieldsOf(candidate.content);
    for (const part of Array.isArray(parts) ? parts : []) readPart(fieldsOf(part));
    const { finishReason } = candidate;
    if (finishReason != null) answer.finish(finishReason === "STOP" && calls > 0 ? "tool_calls" : finishReason);
  }

  return {
    read(chunk) {
      readChunk(chunk);
      // A failure before any text is the provider's, so that another model may answer.
      if (answer.ending() !== "failed") answer.start();
    },
    isLast: () => false,
    close() {
      endBlock();
      if (usage !== null) answer.report(toCounts(usage), true);
    },
  };
}

/** Gemini's report in OpenAI's names. Some models count thoughts in the total only. */
function toCounts(usage: Body): Counts | null {
  const { promptTokenCount, toolUsePromptTokenCount, cachedContentTokenCount, totalTokenCount } = usage;
  const { candidatesTokenCount, thoughtsTokenCount } = usage;
  const has_output = candidatesTokenCount != null || thoughtsTokenCount != null;
  return countsOfUsage({
    prompt_tokens: Number(promptTokenCount ?? 0) + Number(toolUsePromptTokenCount ?? 0),
    completion_tokens: has_output ? Number(candidatesTokenCount ?? 0) + Number(thoughtsTokenCount ?? 0) : undefined,
    total_tokens: totalTokenCount,
    cached_tokens: cachedContentTokenCount,
    reasoning_tokens: thoughtsTokenCount,
  });
}
