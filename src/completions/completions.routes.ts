import type { Context } from "hono";
import type { HttpEnv, LiveCaller } from "../contract/caller.ts";
import { createCompletionRoute } from "../contract/completions.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { eventStream } from "../platform/event-stream.ts";
import { newId } from "../platform/ids.ts";
import { agentIdOf } from "./agent-name.ts";
import type { CompletionCall, Completions } from "./completions.types.ts";

/** The status that proxies use after a caller has hung up; the caller does not receive it. */
const CLIENT_CLOSED_REQUEST = 499;

const NEVER = new AbortController().signal;

/** POST /api/v1/chat/completions. */
export function completionRoutes(completions: Completions): HttpRouter {
  const router = createRouter();
  router.openapi(createCompletionRoute, async (c) => {
    const request = c.req.valid("json");
    const live = request.stream === true || agentIdOf(request.model) !== null ? c.get("live_caller")() : null;
    const call = callOf(c, request, live);
    try {
      if (request.stream === true && live !== null) {
        const events = await completions.stream(call);
        const feed = { next: () => events.next(), leave: () => events.return() };
        if (!call.signal.aborted) return eventStream(feed, { live, request_id: call.request_id }) as never;
        await feed.leave();
        live.refused.throwIfAborted();
        return new Response(null, { status: CLIENT_CLOSED_REQUEST }) as never;
      }
      const { response } = await completions.complete(call);
      return c.json(response, 200) as never;
    } catch (error) {
      // A revoked key cancels the runs of an agent too, and that may come first.
      await live?.check();
      live?.refused.throwIfAborted();
      if (call.signal.aborted) return new Response(null, { status: CLIENT_CLOSED_REQUEST }) as never;
      throw error;
    }
  });
  return router;
}

/** `live`: null for an answer in one piece, which is completed even if its caller hangs up. */
function callOf(c: Context<HttpEnv>, request: CompletionCall["request"], live: LiveCaller | null): CompletionCall {
  const { user_id, api_key_id, key_budget_tokens } = c.get("caller");
  return {
    request,
    caller: { user_id, api_key_id, key_budget_tokens },
    agent_id: null,
    run_id: null,
    hold_id: newId(),
    request_id: c.get("request_id"),
    // A hang-up ends a stream and cancels an agent's run. An answer in one piece is completed and charged, because the
    // provider charges for it too; a retry with an Idempotency-Key gets it.
    signal: live === null ? NEVER : AbortSignal.any([c.req.raw.signal, live.refused]),
  };
}
