import * as contract from "../contract/accounts.ts";
import { apiKeysOfUser } from "../contract/admin-users.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../contract/common.ts";
import { createRouter, serveBoth } from "../contract/router.ts";
import type { Accounts } from "./accounts.service.ts";

/** `spentByKey` comes from the ledger: billed tokens by key id. */
export function accountsRoutes(deps: {
  accounts: Accounts;
  spentByKey(user_id: string): Promise<ReadonlyMap<string, number>>;
}) {
  const { accounts, spentByKey } = deps;
  const router = createRouter();

  serveBoth(router, { own: contract.listApiKeys, operators: apiKeysOfUser }, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const { user_id } = c.get("caller");
    const rows = await accounts.apiKeys(user_id, { limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    const spent = await spentByKey(user_id);
    return c.json(
      { api_keys: page.map((key) => ({ ...key, spent_tokens: spent.get(key.id) ?? 0 })), next_cursor },
      200,
    );
  });
  router.openapi(contract.createApiKey, async (c) => {
    const created = await accounts.createApiKey(c.get("caller"), c.req.valid("json"));
    return c.json({ ...created, spent_tokens: 0 }, 201);
  });
  router.openapi(contract.revokeLeakedApiKey, async (c) => {
    await accounts.revokeLeakedKey(c.req.valid("json").key);
    return c.json({ status: "accepted" as const }, 202);
  });
  router.openapi(contract.deleteApiKey, async (c) => {
    await accounts.revokeApiKey(c.get("caller").user_id, c.req.valid("param").id);
    return c.body(null, 204);
  });
  router.openapi(contract.updateApiKey, async (c) => {
    const caller = c.get("caller");
    const updated = await accounts.updateApiKey(caller, c.req.valid("param").id, c.req.valid("json"));
    return c.json({ ...updated, spent_tokens: (await spentByKey(caller.user_id)).get(updated.id) ?? 0 }, 200);
  });
  router.openapi(contract.rotateApiKey, async (c) => {
    const caller = c.get("caller");
    const rotated = await accounts.rotateApiKey(caller, c.req.valid("param").id, c.req.valid("json").grace_seconds);
    return c.json({ ...rotated, spent_tokens: (await spentByKey(caller.user_id)).get(rotated.id) ?? 0 }, 200);
  });
  return router;
}
