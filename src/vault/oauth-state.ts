import { createHash, timingSafeEqual } from "node:crypto";
import type { NewOAuth, OAuthChange, ShownOAuth } from "../api/contract/oauth-secrets.ts";
import { addSeconds } from "../platform/lib/clock.ts";
import type { Instant } from "../platform/lib/instant.ts";
import { SecretValue } from "../platform/lib/secret-value.ts";
import { holdsSecret } from "../platform/net/scrub.ts";

/** What an oauth secret seals, and the decisions on it. Pure. */

/** The authorization server, as discovered (RFC 8414). Only the fields that are used later. */
export interface Issuer {
  readonly issuer: string;
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
  readonly response_types_supported: string[];
  readonly token_endpoint_auth_methods_supported?: string[] | undefined;
  readonly authorization_response_iss_parameter_supported?: boolean | undefined;
}

/** The client that the owner or a registration gave. */
export interface OAuthClient {
  readonly client_id: string;
  readonly client_secret?: string | undefined;
  readonly private_key?: string | undefined;
  readonly algorithm?: string | undefined;
  /** How the authorization server wants the secret, if a registration said so. */
  readonly token_endpoint_auth_method?: string | undefined;
}

/** Tokens as stored. */
export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string | null;
  readonly expires_at: Instant | null;
}

/** A sign-in that the owner has begun. */
export interface Pending {
  readonly state_hash: string;
  readonly code_verifier: string;
  readonly redirect_uri: string;
  /** The session or key that began it. Only it may end it. */
  readonly bound_to: string;
  readonly expires_at: Instant;
  readonly client: OAuthClient;
  readonly issuer: Issuer;
  readonly resource: string | null;
  readonly scope: string | null;
}

/** The sealed text of an oauth secret. */
export interface OAuthState {
  readonly server: string;
  readonly grant: NewOAuth["grant"];
  /** What the owner gave. */
  readonly given: Pick<NewOAuth, "token_endpoint" | "resource" | "scope"> & { readonly client: OAuthClient | null };
  readonly client: OAuthClient | null;
  readonly issuer: Issuer | null;
  readonly resource: string | null;
  readonly scope: string | null;
  readonly tokens: Tokens | null;
  readonly pending: Pending | null;
  readonly status: ShownOAuth["status"];
  readonly error: string | null;
}

/** A token is renewed this long before it expires. */
const LEEWAY_SECONDS = 30;

/** A new secret's state. */
export function newState({ server, grant, token_endpoint, resource, scope, ...credentials }: NewOAuth): OAuthState {
  const client = getClient(credentials);
  return {
    server: new URL(server).href,
    grant,
    given: { token_endpoint, resource, scope, client },
    ...disconnected(client),
    resource: resource ?? null,
    scope: scope ?? null,
  };
}

/**
 * The state after the owner has changed the credentials or the scope: without tokens. The authorization server stays unless
 * the owner stored the client again: otherwise the MCP server could name another one, which would get the client's secret.
 */
export function changedState(state: OAuthState, change: OAuthChange): OAuthState {
  const { scope = state.given.scope, ...credentials } = change;
  const { client_id = state.given.client?.client_id, client_secret, private_key } = credentials;
  const is_new = client_id !== undefined && (client_secret ?? private_key ?? change.client_id) !== undefined;
  const client = is_new ? getClient({ ...credentials, client_id }) : state.given.client;
  return {
    ...state,
    given: { ...state.given, scope, client },
    ...disconnected(client),
    issuer: is_new ? null : state.issuer,
    scope: scope ?? null,
  };
}

function disconnected(client: OAuthClient | null) {
  return { client, issuer: null, tokens: null, pending: null, error: null, status: "not_connected" as const };
}

function getClient(given: OAuthChange): OAuthClient | null {
  const { client_id, client_secret, private_key, algorithm } = given;
  if (client_id === undefined) return null;
  const key = private_key === undefined ? {} : { private_key, algorithm: algorithm ?? "RS256" };
  return { client_id, ...(client_secret === undefined ? {} : { client_secret }), ...key };
}

/** The credentials that no answer may hold: of the client, and the tokens. */
export function credentialsOf({ client, tokens }: OAuthState): string[] {
  const all = [client?.client_secret, client?.private_key, tokens?.access_token, tokens?.refresh_token];
  return all.filter((each) => each != null);
}

/** As long as the scope and the addresses that an owner may give. */
const MAX_SHOWN_CHARS = 2000;

/** Whether a text of the authorization server holds one of the credentials, encoded or not. True for a text too long to search. */
export function holdsAny(text: string, credentials: readonly string[]): boolean {
  if (text.length > MAX_SHOWN_CHARS) return true;
  const bytes = Buffer.from(text);
  return credentials.some((each) => holdsSecret(bytes, new SecretValue(each)));
}

/** What the owner may see of the state. A text of the authorization server that holds a credential is null. */
export function shownOAuth(state: OAuthState): ShownOAuth {
  const { server, grant, client, issuer, tokens, status, error } = state;
  const known = credentialsOf(state);
  const shown = (text: string | null | undefined) => (text == null || holdsAny(text, known) ? null : text);
  return {
    server,
    grant,
    client_id: shown(client?.client_id),
    issuer: shown(issuer?.issuer),
    scope: shown(state.scope),
    resource: shown(state.resource),
    token_endpoint: state.given.token_endpoint ?? shown(issuer?.token_endpoint),
    status,
    expires_at: tokens?.expires_at ?? null,
    error,
  };
}

/** The access token that can be used at `now`, or null when another one is needed. */
export function usableToken({ tokens }: OAuthState, now: Instant): string | null {
  if (tokens === null) return null;
  const { access_token, expires_at } = tokens;
  return expires_at === null || expires_at > addSeconds(now, LEEWAY_SECONDS) ? access_token : null;
}

/** Whether a token can be had without the owner. */
export function canAskForToken({ grant, tokens, status }: OAuthState): boolean {
  return status !== "revoked" && (grant === "client_credentials" || (tokens?.refresh_token ?? null) !== null);
}

/** Whether a callback ends this sign-in: its state, its time and the session that began it. */
export function isEndOf(
  pending: Pending | null,
  { state, bound_to, now }: { state: string; bound_to: string; now: Instant },
): pending is Pending {
  if (pending === null || pending.expires_at <= now || pending.bound_to !== bound_to) return false;
  const [given, wanted] = [Buffer.from(hashOfState(state)), Buffer.from(pending.state_hash)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** The stored form of a sign-in's state. */
export function hashOfState(state: string): string {
  return createHash("sha256").update(state).digest("base64url");
}
