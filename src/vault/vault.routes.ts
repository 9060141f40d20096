import type { Caller } from "../api/contract/caller.ts";
import { readPage } from "../api/contract/common.ts";
import { createRouter, json, noContent, redirect } from "../api/contract/endpoint.ts";
import * as oauth from "../api/contract/oauth-secrets.ts";
import { changesIn } from "../api/contract/read-only.ts";
import * as contract from "../api/contract/secrets.ts";
import type { z } from "../api/contract/zod.ts";
import { clientMetadata, type OAuthIdentity } from "./oauth.adapter.ts";
import type { Vault } from "./vault.service.ts";

export function vaultRoutes({ vault, identity }: { vault: Vault; identity: OAuthIdentity }) {
  const router = createRouter();

  router.on(contract.listSecrets, async (request) => {
    const { page, next_cursor } = await readPage(request.query, (page_of) =>
      vault.list(request.caller.user_id, page_of),
    );
    return json({ secrets: page, next_cursor });
  });
  router.on(contract.createSecret, async (request) =>
    json(await vault.create(request.caller.user_id, request.body), 201),
  );
  router.on(contract.getSecret, async (request) => json(await vault.get(request.caller.user_id, request.params.id)));
  router.on(contract.updateSecret, async ({ caller: { user_id }, params: { id }, body }) => {
    const record = () => vault.get(user_id, id);
    const { oauth: asked, ...changes } = await changesIn(body, contract.SECRET_READ_ONLY, record);
    const change = asked == null ? undefined : await oauthChange(asked, (await record()).oauth ?? {});
    return json(await vault.update(user_id, id, { ...changes, ...(change === undefined ? {} : { oauth: change }) }));
  });
  router.on(contract.deleteSecret, async (request) => {
    await vault.remove(request.caller.user_id, request.params.id);
    return noContent();
  });
  router.on(contract.listSecretUses, async ({ caller, params, query }) => {
    const { page, next_cursor } = await readPage(query, (page_of) => vault.uses(caller.user_id, params.id, page_of));
    return json({ uses: page, next_cursor });
  });
  router.on(oauth.connectSecret, async (request) => {
    const caller = request.caller;
    return json(await vault.connect(caller.user_id, request.params.id, toCredential(caller)));
  });
  router.on(oauth.oauthCallback, async (request) => {
    const caller = request.caller;
    const { state = "", code, iss } = request.query;
    const answer = { state, code, iss, bound_to: toCredential(caller) };
    const { name, problem } = await vault.finishConnect(caller.user_id, answer);
    const query = problem === null ? { connected: name ?? "" } : { connect_error: problem };
    return redirect(`/vault?${new URLSearchParams(query)}`);
  });
  router.on(oauth.oauthClientMetadata, (_request) => {
    const redirect_uri = identity.redirect_uri();
    const client_id = new URL(oauth.OAUTH_CLIENT_METADATA, redirect_uri).href;
    return json({ client_id, ...clientMetadata(redirect_uri) });
  });
  return router;
}

/** The session or the API key that calls. A sign-in that it began must be ended by it (RFC 6749, 10.12). */
function toCredential({ api_key_id, session_id }: Caller): string {
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
