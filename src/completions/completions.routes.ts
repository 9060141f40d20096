import { createCompletionRoute } from "../contract/completions.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import type { Completions } from "./completions.types.ts";
import { answerCall } from "./endpoint.ts";

/** POST /api/v1/chat/completions. */
export function completionRoutes(completions: Completions): HttpRouter {
  const router = createRouter();
  router.openapi(
    createCompletionRoute,
    async (c) => (await answerCall(c, completions, { request: c.req.valid("json"), writer: null })) as never,
  );
  return router;
}
