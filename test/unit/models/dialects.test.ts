import { expect, it } from "vitest";
import { type Ending, endingOf } from "../../../src/models/dialects.ts";

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
    ...["time_limit", "NOT_FINISHED", "incomplete", "truncated"],
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
    expect(endingOf(word)).toBe(ending);
  },
);

it.each([null, undefined, "", "null", 1])("an answer with the finish reason %j goes on", (reason) => {
  expect(endingOf(reason)).toBeNull();
});
