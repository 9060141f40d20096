import { type ChatRequest, createCompletionRoute } from "../../api/contract/completions.ts";
import type { HotEndpoint } from "../../api/contract/hot-endpoint.ts";
import { createChatWriter } from "./chat-writer.ts";
import type { Completions } from "./completions.types.ts";
import { answerCall } from "./endpoint.ts";

/** POST /api/v1/chat/completions. */
export function completionEndpoint(completions: Completions): HotEndpoint {
  return {
    route: createCompletionRoute,
    answer(http, request: ChatRequest) {
      const include_usage = request.stream_options?.include_usage === true;
      const writer = createChatWriter({ request_id: http.request_id, include_usage });
      return answerCall(http, completions, { request, writer });
    },
  };
}
