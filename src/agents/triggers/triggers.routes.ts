import { decodeCursor, pageOf, readPage, UUID_KEY } from "../../api/contract/common.ts";
import { createRouter, json, noContent, type Router } from "../../api/contract/endpoint.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import * as contract from "../../api/contract/triggers.ts";
import type { Triggers } from "./triggers.service.ts";

/** Triggers, their deliveries, and the address that receives them: contract 6.17. */
export function triggerRoutes(triggers: Triggers): Router {
  const router = createRouter();
  const unstored = { "Cache-Control": "no-store" };
  router.on(contract.listTriggers, async ({ caller, params, query: { limit, cursor } }) => {
    const after_id = decodeCursor(cursor, UUID_KEY);
    const rows = await triggers.list(caller.user_id, params.id, { limit: limit + 1, after_id });
    const { page, next_cursor } = pageOf(rows, limit, (trigger) => trigger.id);
    return json({ triggers: page, next_cursor });
  });
  router.on(contract.createTrigger, async ({ caller, params, body }) =>
    json(await triggers.create(caller, params.id, body), 201, unstored),
  );
  router.on(contract.getTrigger, async ({ caller, params }) => json(await triggers.get(caller.user_id, params)));
  router.on(contract.updateTrigger, async ({ caller, params, body }) => {
    const record = () => triggers.get(caller.user_id, params);
    const changes = await changesIn(body, contract.TRIGGER_READ_ONLY, record);
    return json(await triggers.change(caller, params, changes));
  });
  router.on(contract.deleteTrigger, async ({ caller, params }) => {
    await triggers.remove(caller.user_id, params);
    return noContent();
  });
  router.on(contract.rotateTrigger, async ({ caller, params, body }) =>
    json(await triggers.rotate(caller.user_id, params, body), 200, unstored),
  );
  router.on(contract.listTriggerDeliveries, async ({ caller, params, query }) => {
    const { outcome } = query;
    const { page, next_cursor } = await readPage(query, (page_of) =>
      triggers.deliveries(caller.user_id, params, { outcome, ...page_of }),
    );
    return json({ deliveries: page, next_cursor });
  });
  router.on(contract.resendTriggerDelivery, async ({ caller, params, request_id }) =>
    json(await triggers.resend(caller.user_id, params, request_id), 202),
  );
  router.on(
    contract.receiveDelivery,
    async ({ params, header, sent_headers: headers, sent_body: body, request_id }) => {
      const received = await triggers.receive(params.trigger_id, { header, headers, body, request_id });
      return "challenge" in received ? json(received) : json(received, 202);
    },
  );
  return router;
}
