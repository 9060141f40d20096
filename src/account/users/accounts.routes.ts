import * as contract from "../../api/contract/accounts.ts";
import { apiKeysOfUser } from "../../api/contract/admin-users.ts";
import { readPage } from "../../api/contract/common.ts";
import { createRouter, json, noContent, serveBoth } from "../../api/contract/endpoint.ts";
import type { KeySpend } from "../../api/contract/key-terms.ts";
import { changesIn } from "../../api/contract/read-only.ts";
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

  serveBoth(router, { own: contract.listApiKeys, operators: apiKeysOfUser }, async (request) => {
    const { user_id } = request.caller;
    const { page, next_cursor } = await readPage(request.query, (page_of) => accounts.apiKeys(user_id, page_of));
    return json({ api_keys: await spent(user_id, page), next_cursor });
  });
  router.on(contract.createApiKey, async (request) => {
    const created = await accounts.createApiKey(request.caller, request.body);
    return json(withSpend(created, undefined, clock.now()), 201);
  });
  router.on(contract.revokeLeakedApiKey, async (request) => {
    await accounts.revokeLeakedKey(request.body.key);
    return json({ status: "accepted" as const }, 202);
  });
  router.on(contract.deleteApiKey, async (request) => {
    await accounts.revokeApiKey(request.caller.user_id, request.params.id);
    return noContent();
  });
  router.on(contract.updateApiKey, async ({ caller, params, body }) => {
    const record = () => accounts.apiKey(caller.user_id, params.id);
    const changes = await changesIn(body, contract.KEY_READ_ONLY, record);
    const updated = await accounts.updateApiKey(caller, params.id, changes);
    return json(await one(caller.user_id, updated));
  });
  router.on(contract.rotateApiKey, async (request) => {
    const caller = request.caller;
    const rotated = await accounts.rotateApiKey(caller, request.params.id, request.body.grace_seconds);
    return json(await one(caller.user_id, rotated));
  });
  return router;
}
