import { createRouter, type HttpRouter } from "../contract/router.ts";
import { getWebhookKey } from "../contract/webhook-key.ts";
import { errors } from "../errors.ts";
import type { WebhookKeys } from "../tools/webhook-keys.service.ts";
import type { Agents } from "./agents.service.ts";

/** How a user verifies what their agents send. Reading the key needs write access, because its holder can sign as the agent. */
export function webhookKeyRoutes(deps: {
  agents: Pick<Agents, "get">;
  webhook_keys: Pick<WebhookKeys, "keyOf">;
}): HttpRouter {
  const router = createRouter();
  router.openapi(getWebhookKey, async (c) => {
    const { user_id } = c.get("caller");
    const { id: agent_id } = await deps.agents.get(user_id, c.req.valid("param").id);
    const key = await deps.webhook_keys.keyOf({ user_id, agent_id });
    if (key === null) throw errors.conflict("key_unreadable", UNREADABLE);
    return c.json(key, 200, { "Cache-Control": "no-store" });
  });
  return router;
}

const UNREADABLE = "This agent's key cannot be opened: the service's master key is another one now. Tell its operator.";
