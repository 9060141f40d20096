import { type ChatRequest, createCompletionRoute } from "../../api/contract/completions.ts";
import type { HotEndpoint } from "../../api/contract/hot-endpoint.ts";
import type { Completions } from "./completions.types.ts";
import { answerCall } from "./endpoint.ts";

/** POST /api/v1/chat/completions. */
export function completionEndpoint(completions: Completions): HotEndpoint {
  return {
    route: createCompletionRoute,
    answer: (http, request: ChatRequest) => answerCall(http, completions, { request, writer: null }),
  };
}
