import { type ChatRequest, createCompletionRoute } from "../contract/completions.ts";
import type { ModelEndpoint } from "../contract/model-endpoint.ts";
import type { Completions } from "./completions.types.ts";
import { answerCall } from "./endpoint.ts";

/** POST /api/v1/chat/completions. */
export function completionEndpoint(completions: Completions): ModelEndpoint {
  return {
    route: createCompletionRoute,
    answer: (http, request: ChatRequest) => answerCall(http, completions, { request, writer: null }),
  };
}
