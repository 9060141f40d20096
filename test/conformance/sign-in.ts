import { randomBytes } from "node:crypto";
import type { CredentialsDeps } from "../../src/agents/tools/credentials.ts";
import { SecretValue } from "../../src/platform/lib/secret-value.ts";
import { createOutbound } from "../../src/platform/net/outbound.ts";
import { createOAuthRequests, type Discovered } from "../../src/vault/oauth.adapter.ts";
import { newState, type OAuthClient, type OAuthState } from "../../src/vault/oauth-state.ts";

/** The suite's settings for a client. */
interface Context {
  client_id?: string;
  client_secret?: string;
  private_key_pem?: string;
  signing_algorithm?: "ES256";
}

const IDENTITY = {
  redirect_uri: () => "http://localhost:3000/api/v1/secrets/oauth/callback",
  client_metadata_url: () => "https://conformance-test.local/client-metadata.json",
};

/**
 * A vault with one secret of type oauth, whose owner signs in as soon as a token is needed: the suite's page allows
 * access without a person. The requests are Purser's own.
 */
export function signingVault(server: string, context: Context, allow: string[]): CredentialsDeps["vault"] {
  const is_robot = process.env.MCP_CONFORMANCE_SCENARIO?.startsWith("auth/client-credentials") === true;
  const { client_id, client_secret, private_key_pem: private_key, signing_algorithm: algorithm } = context;
  const given = { client_id, client_secret, private_key, algorithm };
  const grant = is_robot ? ("client_credentials" as const) : ("authorization_code" as const);
  let state = newState({ server, grant, ...given });
  let version = 0;
  // The suite's servers are on ports of loopback that it chooses.
  const outbound = { ...createOutbound({ allow }), isConfidential: () => true };
  const requests = createOAuthRequests({ outbound, identity: IDENTITY });

  async function tokensOf(current: OAuthState) {
    const found = await requests.discover(current);
    const client = is_robot ? (current.client as OAuthClient) : await requests.client(current, found);
    const known = { ...current, client, issuer: found.issuer, resource: found.resource, scope: found.scope };
    const tokens = is_robot ? await requests.renew(known) : await signIn(known, found);
    const { access_token, refresh_token = null } = tokens;
    return { ...known, tokens: { access_token, refresh_token, expires_at: null } };
  }
  async function signIn({ client }: { client: OAuthClient }, { issuer, resource, scope }: Discovered) {
    const wanted = { client, issuer, resource, scope, state: randomBytes(32).toString("base64url") };
    const { authorizationUrl, codeVerifier } = await requests.authorization(wanted);
    const answer = await fetch(authorizationUrl, { redirect: "manual" });
    const { searchParams } = new URL(answer.headers.get("location") ?? "");
    const pending = { ...wanted, code_verifier: codeVerifier, redirect_uri: IDENTITY.redirect_uri() };
    const unused = { state_hash: "", bound_to: "", expires_at: "" };
    const iss = searchParams.get("iss") ?? undefined;
    return requests.exchange({ ...pending, ...unused }, { code: searchParams.get("code") ?? "", iss });
  }

  return {
    async open(_user_id, name, { refused_version }) {
      try {
        if (state.tokens === null || refused_version === version) {
          state = await tokensOf(state);
          version += 1;
        }
      } catch (error) {
        console.log("no token:", String(error));
        return { status: "no_token", message: String(error) };
      }
      const value = new SecretValue(state.tokens?.access_token ?? "");
      return { status: "opened", secret: { id: name, name, version, allowed_hosts: null, is_token: true, value } };
    },
    setReflected: async () => {},
  };
}
