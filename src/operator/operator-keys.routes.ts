import type { Context } from "hono";
import type { HttpEnv } from "../api/contract/caller.ts";
import { decodeCursor, NUMBER_KEY, pageOf, UUID_KEY } from "../api/contract/common.ts";
import * as contract from "../api/contract/operators.ts";
import { createRouter, csvAnswer, type HttpRouter } from "../api/contract/router.ts";
import { type Actor, type Acts, actLines, actsHead } from "./acts.service.ts";
import type { OperatorKeys } from "./operator-keys.service.ts";

/** The operator of a request, for the log of acts. */
export function actorOf(c: Context<HttpEnv>): Actor {
  const { id, name } = c.get("operator");
  return { id, name, request_id: c.get("request_id") };
}

/** Operators themselves: their keys, and the log of their acts. */
export function operatorKeyRoutes({ acts, keys }: { acts: Acts; keys: OperatorKeys }): HttpRouter {
  const router = createRouter();
  router.openapi(contract.listActs, async (c) => {
    const { limit, cursor, format, key_id: operator_id, ...rest } = c.req.valid("query");
    const filter = { ...rest, operator_id };
    if (format === "csv") return csvAnswer("acts", actsHead, acts.all(filter), actLines) as never;
    const before = decodeCursor(cursor, NUMBER_KEY);
    const rows = await acts.list(filter, { limit: limit + 1, before_seq: before === null ? null : Number(before) });
    const { page, next_cursor } = pageOf(rows, limit, (act) => act.seq);
    return c.json({ acts: page, next_cursor }, 200);
  });
  router.openapi(contract.listOperatorKeys, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const rows = await keys.list({ limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) });
    const { page, next_cursor } = pageOf(rows, limit, (key) => key.id);
    return c.json({ keys: page, next_cursor }, 200);
  });
  router.openapi(contract.createOperatorKey, async (c) => {
    const { reason, ...wanted } = c.req.valid("json");
    return c.json(await keys.create(actorOf(c), wanted, reason), 201);
  });
  router.openapi(contract.revokeOperatorKey, async (c) => {
    await keys.revoke(actorOf(c), c.req.valid("param").id, c.req.valid("query").reason);
    return c.body(null, 204);
  });
  router.openapi(contract.rotateOperatorKey, async (c) =>
    c.json(await keys.rotate(actorOf(c), c.req.valid("param").id, c.req.valid("json")), 200),
  );
  return router;
}
