import { type AgentNamesOf, agentIdsIn, agentNameOf } from "../../api/contract/agent-name.ts";
import { readPage } from "../../api/contract/common.ts";
import { createRouter, json, noContent } from "../../api/contract/endpoint.ts";
import * as contract from "../../api/contract/notices.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import type { Notices } from "./notices.service.ts";

export function noticesRoutes({ notices, agentNames }: { notices: Notices; agentNames: AgentNamesOf }) {
  const router = createRouter();

  router.on(contract.listNotices, async (request) => {
    const { event = null } = request.query;
    const { user_id } = request.caller;
    const { page, next_cursor } = await readPage(request.query, (page_of) =>
      notices.list(user_id, { event, ...page_of }),
    );
    const findAgent = ({ data }: (typeof page)[number]) => (typeof data.agent_id === "string" ? data.agent_id : null);
    const names = await agentNames(user_id, agentIdsIn(page.map((notice) => ({ agent_id: findAgent(notice) }))));
    const listed = page.map((notice) => ({ ...notice, ...agentNameOf(names, findAgent(notice)) }));
    return json({ notices: listed, next_cursor });
  });
  router.on(contract.listWebhookEndpoints, async ({ caller, query }) => {
    const { page, next_cursor } = await readPage(query, (page_of) => notices.endpoints(caller.user_id, page_of));
    return json({ webhook_endpoints: page, next_cursor });
  });
  router.on(contract.createWebhookEndpoint, async (request) => {
    return json(await notices.createEndpoint(request.caller.user_id, request.body), 201);
  });
  router.on(contract.updateWebhookEndpoint, async ({ caller, params, body }) => {
    const record = () => notices.endpoint(caller.user_id, params.id);
    const changes = await changesIn(body, contract.ENDPOINT_READ_ONLY, record);
    return json(await notices.updateEndpoint(caller.user_id, params.id, changes));
  });
  router.on(contract.rotateWebhookEndpoint, async ({ caller, params, body }) => {
    const rotated = await notices.rotateSecret(caller.user_id, params.id, body);
    return json(rotated, 200, { "Cache-Control": "no-store" });
  });
  router.on(contract.testWebhookEndpoint, async ({ caller, params }) => {
    return json(await notices.testEndpoint(caller.user_id, params.id));
  });
  router.on(contract.listEndpointDeliveries, async ({ caller, params, query }) => {
    const { page, next_cursor } = await readPage(query, (page_of) =>
      notices.deliveriesOf(caller.user_id, params.id, page_of),
    );
    return json({ deliveries: page, next_cursor });
  });
  router.on(contract.resendDelivery, async ({ caller, params }) => {
    return json(await notices.resend(caller.user_id, params.id, params.delivery_id));
  });
  router.on(contract.deleteWebhookEndpoint, async (request) => {
    await notices.deleteEndpoint(request.caller.user_id, request.params.id);
    return noContent();
  });
  return router;
}
