import type { Completions } from "../completions/completions.types.ts";
import { answerCall, shownTypes } from "../completions/endpoint.ts";
import type { Envelopes } from "../completions/reasoning-envelope.ts";
import { countTokensRoute, createMessageRoute } from "../contract/messages.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import { createMessageWriter } from "./messages-answer.ts";
import { chatRequestOf } from "./messages-request.ts";

/** Headers that a provider with Anthropic's API gets as the caller sent them. */
const PROVIDER_HEADERS = ["anthropic-version", "anthropic-beta"];

/** POST /api/v1/messages and /count_tokens: Anthropic's Messages API over chat completions. */
export function messageRoutes(deps: { completions: Completions; envelopes: Envelopes; log: Log }): HttpRouter {
  const { completions, envelopes, log } = deps;
  const router = createRouter();
  router.openapi(createMessageRoute, async (c) => {
    const { user_id } = c.get("caller");
    const asked = c.req.valid("json");
    const { request, dropped_tools, paramOf, native } = chatRequestOf(asked, (sealed) =>
      envelopes.open(user_id, sealed),
    );
    if (dropped_tools.length > 0) {
      const request_id = c.get("request_id");
      log.info({ request_id, tools: shownTypes(dropped_tools) }, "tools that Anthropic executes itself were dropped");
    }
    const seal = envelopes.seal.bind(null, user_id);
    const writer = createMessageWriter({ model: asked.model, newId, paramOf, seal });
    const sent = PROVIDER_HEADERS.flatMap((name) => {
      const value = c.req.header(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    const of_provider = { provider_headers: Object.fromEntries(sent), ...(native === undefined ? {} : { native }) };
    return (await answerCall(c, completions, { request, writer, ...of_provider })) as never;
  });
  router.openapi(countTokensRoute, async (c) => {
    const { user_id } = c.get("caller");
    const { request } = chatRequestOf(c.req.valid("json"), (sealed) => envelopes.open(user_id, sealed));
    return c.json({ input_tokens: completions.estimate(request) }, 200);
  });
  return router;
}
