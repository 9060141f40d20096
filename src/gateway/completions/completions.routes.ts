import { createCompletionRoute } from "../../api/contract/completions.ts";
import { createRouter, type Router } from "../../api/contract/endpoint.ts";
import { createChatWriter } from "./chat-writer.ts";
import type { Completions } from "./completions.types.ts";
import { answerCall } from "./endpoint.ts";

/** POST /api/v1/chat/completions. */
export function completionRoutes(completions: Completions): Router {
  const router = createRouter();
  router.on(createCompletionRoute, (http) => {
    const request = http.body;
    const include_usage = request.stream_options?.include_usage === true;
    const writer = createChatWriter({ request_id: http.request_id, include_usage });
    return answerCall(http, completions, { request, writer });
  });
  return router;
}
