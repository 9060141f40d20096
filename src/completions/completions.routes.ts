import type { Context } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { createCompletionRoute } from "../contract/completions.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { newId } from "../platform/ids.ts";
import { agentIdOf } from "./agent-name.ts";
import type { CompletionCall, CompletionStream, Completions } from "./completions.types.ts";

/** What proxies answer for a caller that has hung up; nobody receives it. */
const CLIENT_CLOSED_REQUEST = 499;

const NEVER = new AbortController().signal;

const EVENT_STREAM_HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-cache",
  // Proxies that buffer would hold back what is generated.
  "X-Accel-Buffering": "no",
};

/** POST /api/v1/chat/completions. */
export function completionRoutes(completions: Completions): HttpRouter {
  const router = createRouter();
  router.openapi(createCompletionRoute, async (c) => {
    const call = callOf(c, c.req.valid("json"));
    try {
      if (call.request.stream === true) {
        const events = await completions.stream(call);
        if (!call.signal.aborted) return eventStream(events) as never;
        await events.return();
        return new Response(null, { status: CLIENT_CLOSED_REQUEST }) as never;
      }
      const { response } = await completions.complete(call);
      return c.json(response, 200) as never;
    } catch (error) {
      if (call.signal.aborted) return new Response(null, { status: CLIENT_CLOSED_REQUEST }) as never;
      throw error;
    }
  });
  return router;
}

function callOf(c: Context<HttpEnv>, request: CompletionCall["request"]): CompletionCall {
  const { user_id, api_key_id, key_budget_tokens } = c.get("caller");
  const is_agent = agentIdOf(request.model) !== null;
  return {
    request,
    caller: { user_id, api_key_id, key_budget_tokens },
    agent_id: null,
    run_id: null,
    hold_id: newId(),
    request_id: c.get("request_id"),
    // Whoever hangs up on a stream ends it. An answer in one piece is finished and charged, since the provider charges
    // for it too; with an Idempotency-Key a retry gets it. An agent's run is cancelled either way.
    signal: request.stream === true || is_agent ? c.req.raw.signal : NEVER,
  };
}

/** The events as a response; headers go out with the first. A caller that hangs up ends the call. */
function eventStream(events: CompletionStream): Response {
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await events.next();
      if (done === true) controller.close();
      else controller.enqueue(Buffer.from(value));
    },
    async cancel() {
      await events.return();
    },
  });
  return new Response(body, { headers: EVENT_STREAM_HEADERS });
}
