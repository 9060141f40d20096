import type { z } from "@hono/zod-openapi";
import type { Caller } from "../api/contract/caller.ts";
import { decodeCursor, pageOf, UUID_KEY } from "../api/contract/common.ts";
import * as oauth from "../api/contract/oauth-secrets.ts";
import { changesIn } from "../api/contract/read-only.ts";
import { createRouter } from "../api/contract/router.ts";
import * as contract from "../api/contract/secrets.ts";
import { clientMetadata, type OAuthIdentity } from "./oauth.adapter.ts";
import type { Vault } from "./vault.service.ts";

export function vaultRoutes({ vault, identity }: { vault: Vault; identity: OAuthIdentity }) {
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
  router.openapi(contract.updateSecret, async (c) => {
    const { user_id } = c.get("caller");
    const { id } = c.req.valid("param");
    const record = () => vault.get(user_id, id);
    const { oauth: asked, ...changes } = await changesIn(c.req.valid("json"), contract.SECRET_READ_ONLY, record);
    const change = asked == null ? undefined : await oauthChange(asked, (await record()).oauth ?? {});
    return c.json(
      await vault.update(user_id, id, { ...changes, ...(change === undefined ? {} : { oauth: change }) }),
      200,
    );
  });
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
  router.openapi(oauth.connectSecret, async (c) => {
    const caller = c.get("caller");
    return c.json(await vault.connect(caller.user_id, c.req.valid("param").id, credentialOf(caller)), 200);
  });
  router.openapi(oauth.oauthCallback, async (c) => {
    const caller = c.get("caller");
    const { state = "", code, iss } = c.req.valid("query");
    const answer = { state, code, iss, bound_to: credentialOf(caller) };
    const { name, problem } = await vault.finishConnect(caller.user_id, answer);
    const query = problem === null ? { connected: name ?? "" } : { connect_error: problem };
    c.header("Cache-Control", "no-store");
    return c.redirect(`/secrets?${new URLSearchParams(query)}`, 303);
  });
  router.openapi(oauth.oauthClientMetadata, (c) => {
    const redirect_uri = identity.redirect_uri();
    const client_id = new URL(oauth.OAUTH_CLIENT_METADATA, redirect_uri).href;
    return c.json({ client_id, ...clientMetadata(redirect_uri) }, 200);
  });
  return router;
}

/** The session or the API key that calls. A sign-in that it began must be ended by it (RFC 6749, 10.12). */
function credentialOf({ api_key_id, session_id }: Caller): string {
  return api_key_id ?? session_id ?? "";
}

/** New credentials and scope, undefined where the record's own were sent back: others end the sign-in. */
async function oauthChange(
  asked: z.infer<typeof oauth.updateOAuthSchema>,
  present: Partial<oauth.ShownOAuth>,
): Promise<oauth.OAuthChange | undefined> {
  const { client_id, scope, ...others } = await changesIn(asked, oauth.OAUTH_READ_ONLY, async () => present, "oauth.");
  const change = {
    ...others,
    ...(client_id == null ? {} : { client_id }),
    ...(scope == null ? {} : { scope }),
  };
  const is_change = Object.entries(change).some(([name, value]) => value !== present[name as "scope"]);
  return is_change ? change : undefined;
}
