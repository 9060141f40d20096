import { decodeCursor, NUMBER_KEY, pageOf, readPage } from "../api/contract/common.ts";
import { createRouter, csvFile, json, noContent, type RequestContext, type Router } from "../api/contract/endpoint.ts";
import * as contract from "../api/contract/operators.ts";
import { type Actor, type Acts, actLines, actsHead } from "./acts.service.ts";
import type { OperatorKeys } from "./operator-keys.service.ts";

/** The operator of a request, for the log of acts. */
export function getActor(request: Pick<RequestContext, "operator" | "request_id">): Actor {
  const { id, name } = request.operator;
  return { id, name, request_id: request.request_id };
}

/** Operators themselves: their keys, and the log of their acts. */
export function operatorKeyRoutes({ acts, keys }: { acts: Acts; keys: OperatorKeys }): Router {
  const router = createRouter();
  router.on(contract.listActs, async (request) => {
    const { limit, cursor, format, ...filter } = request.query;
    if (format === "csv") return csvFile({ name: "acts", head: actsHead }, acts.all(filter), actLines);
    const before = decodeCursor(cursor, NUMBER_KEY);
    const rows = await acts.list(filter, { limit: limit + 1, before_seq: before === null ? null : Number(before) });
    const { page, next_cursor } = pageOf(rows, limit, (act) => act.seq);
    return json({ acts: page, next_cursor });
  });
  router.on(contract.listOperatorKeys, async (request) => {
    const { page, next_cursor } = await readPage(request.query, keys.list);
    return json({ keys: page, next_cursor });
  });
  router.on(contract.createOperatorKey, async (request) => {
    const { reason, ...wanted } = request.body;
    return json(await keys.create(getActor(request), wanted, reason), 201);
  });
  router.on(contract.revokeOperatorKey, async (request) => {
    await keys.revoke(getActor(request), request.params.id, request.query.reason);
    return noContent();
  });
  router.on(contract.rotateOperatorKey, async (request) =>
    json(await keys.rotate(getActor(request), request.params.id, request.body)),
  );
  return router;
}
