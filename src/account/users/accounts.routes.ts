import * as contract from "../../api/contract/accounts.ts";
import { apiKeysOfUser } from "../../api/contract/admin-users.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../../api/contract/common.ts";
import type { KeySpend } from "../../api/contract/key-terms.ts";
import { changesIn } from "../../api/contract/read-only.ts";
import { createRouter, serveBoth } from "../../api/contract/router.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { type Accounts, type ApiKey, withSpend } from "./accounts.service.ts";

/** `keySpends` comes from the ledger: billed tokens by key id. */
export function accountsRoutes(deps: {
  accounts: Accounts;
  clock: Clock;
  keySpends(keys: { user_ids: string[]; ids: string[] }): Promise<ReadonlyMap<string, KeySpend>>;
}) {
  const { accounts, clock } = deps;
  const spent = async <Key extends ApiKey>(user_id: string, keys: Key[]) => {
    const spends = await deps.keySpends({ user_ids: [user_id], ids: keys.map(({ id }) => id) });
    return keys.map((key) => withSpend(key, spends.get(key.id), clock.now()));
  };
  const one = async <Key extends ApiKey>(user_id: string, key: Key) => {
    const [shown] = await spent(user_id, [key]);
    return shown as NonNullable<typeof shown>;
  };
  const router = createRouter();

  serveBoth(router, { own: contract.listApiKeys, operators: apiKeysOfUser }, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const { user_id } = c.get("caller");
    const rows = await accounts.apiKeys(user_id, { limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) });
    const { page, next_cursor } = pageOf(rows, limit, (row) => row.id);
    return c.json({ api_keys: await spent(user_id, page), next_cursor }, 200);
  });
  router.openapi(contract.createApiKey, async (c) => {
    const created = await accounts.createApiKey(c.get("caller"), c.req.valid("json"));
    return c.json(withSpend(created, undefined, clock.now()), 201);
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
    const { id } = c.req.valid("param");
    const record = () => accounts.apiKey(caller.user_id, id);
    const changes = await changesIn(c.req.valid("json"), contract.KEY_READ_ONLY, record);
    const updated = await accounts.updateApiKey(caller, id, changes);
    return c.json(await one(caller.user_id, updated), 200);
  });
  router.openapi(contract.rotateApiKey, async (c) => {
    const caller = c.get("caller");
    const rotated = await accounts.rotateApiKey(caller, c.req.valid("param").id, c.req.valid("json").grace_seconds);
    return c.json(await one(caller.user_id, rotated), 200);
  });
  return router;
}
