import { type AgentNamesOf, agentIdsIn, agentNameOf } from "../../api/contract/agent-name.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import * as contract from "../../api/contract/notices.ts";
import { createRouter } from "../../api/contract/router.ts";
import type { Notices } from "./notices.service.ts";

export function noticesRoutes({ notices, agentNames }: { notices: Notices; agentNames: AgentNamesOf }) {
  const router = createRouter();

  router.openapi(contract.listNotices, async (c) => {
    const { limit, cursor, event } = c.req.valid("query");
    const page_of = { event: event ?? null, limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) };
    const { user_id } = c.get("caller");
    const { page, next_cursor } = pageOf(await notices.list(user_id, page_of), limit, (notice) => notice.id);
    const agentOf = ({ data }: (typeof page)[number]) => (typeof data.agent_id === "string" ? data.agent_id : null);
    const names = await agentNames(user_id, agentIdsIn(page.map((notice) => ({ agent_id: agentOf(notice) }))));
    const listed = page.map((notice) => ({ ...notice, ...agentNameOf(names, agentOf(notice)) }));
    return c.json({ notices: listed, next_cursor }, 200);
  });
  router.openapi(contract.listWebhookEndpoints, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const rows = await notices.endpoints(c.get("caller").user_id, {
      limit: limit + 1,
      before_id: decodeCursor(cursor, UUID_KEY),
    });
    const { page, next_cursor } = pageOf(rows, limit, (endpoint) => endpoint.id);
    return c.json({ webhook_endpoints: page, next_cursor }, 200);
  });
  router.openapi(contract.createWebhookEndpoint, async (c) => {
    return c.json(await notices.createEndpoint(c.get("caller").user_id, c.req.valid("json")), 201);
  });
  router.openapi(contract.deleteWebhookEndpoint, async (c) => {
    await notices.deleteEndpoint(c.get("caller").user_id, c.req.valid("param").id);
    return c.body(null, 204);
  });
  return router;
}
