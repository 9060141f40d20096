import type { Completions } from "../completions/completions.types.ts";
import { answerCall, shownTypes } from "../completions/endpoint.ts";
import type { Envelopes } from "../completions/reasoning-envelope.ts";
import { countTokensRoute, createMessageRoute } from "../contract/messages.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import { createMessageWriter } from "./messages-answer.ts";
import { chatRequestOf } from "./messages-request.ts";
import { providerHeaders } from "./provider-headers.ts";

/** POST /api/v1/messages and /count_tokens: Anthropic's Messages API over chat completions. */
export function messageRoutes(deps: { completions: Completions; envelopes: Envelopes; log: Log }): HttpRouter {
  const { completions, envelopes, log } = deps;
  const router = createRouter();
  router.openapi(createMessageRoute, async (c) => {
    const { user_id } = c.get("caller");
    const asked = c.req.valid("json");
    const provider_headers = providerHeaders((name) => c.req.header(name));
    const { request, dropped_tools, paramOf, native } = chatRequestOf(asked, (sealed) =>
      envelopes.open(user_id, sealed),
    );
    if (dropped_tools.length > 0) {
      const request_id = c.get("request_id");
      log.info({ request_id, tools: shownTypes(dropped_tools) }, "tools that Anthropic executes itself were dropped");
    }
    const seal = envelopes.seal.bind(null, user_id);
    const writer = createMessageWriter({ model: asked.model, newId, paramOf, seal });
    const of_provider = { provider_headers, ...(native === undefined ? {} : { native }) };
    return (await answerCall(c, completions, { request, writer, ...of_provider })) as never;
  });
  router.openapi(countTokensRoute, async (c) => {
    const { user_id } = c.get("caller");
    const { request } = chatRequestOf(c.req.valid("json"), (sealed) => envelopes.open(user_id, sealed));
    return c.json({ input_tokens: completions.estimate(request) }, 200);
  });
  return router;
}
