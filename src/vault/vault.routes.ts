import { decodeCursor, pageOf, UUID_KEY } from "../contract/common.ts";
import { createRouter } from "../contract/router.ts";
import * as contract from "../contract/secrets.ts";
import type { Vault } from "./vault.service.ts";

export function vaultRoutes({ vault }: { vault: Vault }) {
  const router = createRouter();

  router.openapi(contract.listSecrets, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const rows = await vault.list(c.get("caller").user_id, {
      limit: limit + 1,
      before_id: decodeCursor(cursor, UUID_KEY),
    });
    const { page, next_cursor } = pageOf(rows, limit, (secret) => secret.id);
    return c.json({ secrets: page, next_cursor }, 200);
  });
  router.openapi(contract.createSecret, async (c) =>
    c.json(await vault.create(c.get("caller").user_id, c.req.valid("json")), 201),
  );
  router.openapi(contract.getSecret, async (c) =>
    c.json(await vault.get(c.get("caller").user_id, c.req.valid("param").id), 200),
  );
  router.openapi(contract.updateSecret, async (c) =>
    c.json(await vault.update(c.get("caller").user_id, c.req.valid("param").id, c.req.valid("json")), 200),
  );
  router.openapi(contract.deleteSecret, async (c) => {
    await vault.remove(c.get("caller").user_id, c.req.valid("param").id);
    return c.body(null, 204);
  });
  router.openapi(contract.listSecretUses, async (c) => {
    const { limit, cursor } = c.req.valid("query");
    const page_of = { limit: limit + 1, before_id: decodeCursor(cursor, UUID_KEY) };
    const rows = await vault.uses(c.get("caller").user_id, c.req.valid("param").id, page_of);
    const { page, next_cursor } = pageOf(rows, limit, (use) => use.id);
    return c.json({ uses: page, next_cursor }, 200);
  });
  return router;
}
