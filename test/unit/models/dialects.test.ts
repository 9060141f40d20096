import { expect, it } from "vitest";
import type { ChatRequest } from "../../../src/api/contract/completions.ts";
import { type Ending, toEnding } from "../../../src/gateway/models/dialects.ts";
import type { Provider } from "../../../src/gateway/models/models.types.ts";
import { withDialect } from "../../../src/gateway/models/request-dialect.ts";
import { REQUEST_ROWS } from "../../support/request-dialects.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

it.each(REQUEST_ROWS)(
  "a request in the dialect of its server: %s",
  async (_, { model = "m", ...server }, asked, sent) => {
    const passing = { prepare: async (call: object) => call } as unknown as Provider;
    const at = { name: "lab", kind: "openai-compatible", base_url: "http://127.0.0.1:8000/v1", ...server };
    const { request } = await withDialect(passing, at).prepare({
      model: modelOf({ provider_model: model }),
      request: requestOf(asked as Partial<ChatRequest>),
      max_output_tokens: 100,
      stream: false,
    });
    for (const [field, value] of Object.entries(sent)) expect([field, request[field]]).toEqual([field, value]);
  },
);

const WORDS: Record<Ending, string[]> = {
  stop: [
    ...["stop", "STOP", "eos", "eos_token", "end_turn", "endoftext", "stop_sequence", "STOP_SEQUENCE", "COMPLETE"],
    ...["FINISH", "finished", "done", "stopStringFound", "eosFound", "stop_criteria_met", "normal"],
    ...["<|eot_id|>", "<|im_end|>", "<｜end▁of▁sentence｜>", "</s>"],
  ],
  length: [
    ...[
      "length",
      "LENGTH",
      "max_tokens",
      "MAX_TOKENS",
      "model_length",
      "max_output_tokens",
      "max_length",
      "token_limit",
    ],
    ...["model_context_window_exceeded", "contextLengthReached", "maxPredictedTokensReached", "ERROR_LIMIT"],
    ...["time_limit", "NOT_FINISHED", "incomplete", "truncated", "pause_turn"],
    // Unknown words.
    ...["OTHER", "FINISH_REASON_UNSPECIFIED", "constructor", "a word that nobody knows"],
  ],
  tool_calls: ["tool_calls", "tool_call", "tool_use", "TOOL_CALL", "function_call", "toolCalls"],
  content_filter: [
    ...["content_filter", "CONTENT_FILTERED", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"],
    ...["IMAGE_SAFETY", "LANGUAGE", "sensitive", "refusal", "guardrail_intervened", "ERROR_TOXIC"],
    "content_filter: RECITATION",
  ],
  failed: [
    ...["error", "ERROR", "network_error", "abort", "aborted", "cancelled", "CANCELED", "USER_CANCEL", "timeout"],
    ...["insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "modelUnloaded"],
    ...[
      "function_call_filter: MALFORMED_FUNCTION_CALL",
      "internal_error",
      "failed",
      "interrupted",
      "service_unavailable",
    ],
  ],
};

it.each(Object.entries(WORDS).flatMap(([ending, words]) => words.map((word) => [word, ending])))(
  "the finish reason %s means %s",
  (word, ending) => {
    expect(toEnding(word)).toBe(ending);
  },
);

it.each([null, undefined, "", "null", 1])("an answer with the finish reason %j goes on", (reason) => {
  expect(toEnding(reason)).toBeNull();
});
