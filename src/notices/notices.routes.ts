import { decodeCursor, pageOf, UUID_KEY } from "../contract/common.ts";
import * as contract from "../contract/notices.ts";
import { createRouter } from "../contract/router.ts";
import type { Notices } from "./notices.service.ts";

export function noticesRoutes({ notices }: { notices: Notices }) {
  const router = createRouter();

  router.openapi(contract.listNotices, async (c) => {
    const { limit, cursor, event } = c.req.valid("query");
    const page_of = { event: event ?? null, limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) };
    const { page, next_cursor } = pageOf(
      await notices.list(c.get("caller").user_id, page_of),
      limit,
      (notice) => notice.id,
    );
    return c.json({ notices: page, next_cursor }, 200);
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
