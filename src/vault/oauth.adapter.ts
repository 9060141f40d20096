import type { AuthorizationServerMetadata, OAuthClientProvider, OAuthTokens } from "@modelcontextprotocol/client";
import { withoutNullFields } from "../platform/lib/null-fields.ts";
import type { Outbound } from "../platform/net/outbound.ts";
import { OutboundError } from "../platform/net/outbound-errors.ts";
import type { Issuer, OAuthClient, OAuthState, Pending } from "./oauth-state.ts";

/**
 * The requests to authorization servers, by the MCP project's own client (MCP specification, "Authorization"). All of
 * them pass the guarded outbound client, over https and without redirects.
 */

const TOKEN_MS = 10_000;
const MAX_BYTES = 65_536;
/** Longer tokens fit in no header. */
const MAX_TOKEN_CHARS = 16_384;
/** RFC 6749: after these errors, the same request never succeeds. */
const REFUSALS = new Set(["invalid_grant", "invalid_client", "unauthorized_client", "access_denied", "invalid_scope"]);

/** Other codes of the standards: RFC 6749, 6750, 7591, 8628, 8707 and 9449. Any other code could be a text of the server. */
const KNOWN_ERRORS = new Set([
  ...["invalid_request", "unsupported_grant_type", "unsupported_response_type", "server_error"],
  ...["temporarily_unavailable", "invalid_token", "insufficient_scope", "invalid_redirect_uri"],
  ...["invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement"],
  ...["authorization_pending", "slow_down", "expired_token", "invalid_target", "invalid_dpop_proof", "use_dpop_nonce"],
]);

/**
 * Why there is no token. The message repeats no text of the authorization server, because a person and a model read it.
 */
export class OAuthError extends Error {
  /** The authorization server refuses for good: only the owner can change that. */
  readonly is_refusal: boolean;
  constructor(message: string, is_refusal = false) {
    super(message);
    this.name = "OAuthError";
    this.is_refusal = is_refusal;
  }
}

/** Purser as a client of authorization servers. */
export interface OAuthIdentity {
  /** Where authorization servers send the owner's browser back. */
  redirect_uri(): string;
  /** The address of the client id metadata document; null when no other machine can read it. */
  client_metadata_url(): string | null;
}

/** The authorization server of an MCP server. */
export interface Discovered {
  readonly issuer: Issuer;
  readonly registration_endpoint: string | null;
  readonly takes_metadata_url: boolean;
  readonly resource: string;
  readonly scope: string | null;
}

type Library = typeof import("@modelcontextprotocol/client");
/** Loaded on first use: it costs 36 MB. */
const load = (): Promise<Library> => import("@modelcontextprotocol/client");
type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** Creates the requests to authorization servers. Each rejects with an OAuthError, at the latest after `timeout_ms`. */
export function createOAuthRequests({
  outbound,
  identity,
  timeout_ms = TOKEN_MS,
}: {
  outbound: Outbound;
  identity: OAuthIdentity;
  timeout_ms?: number;
}) {
  /** Does `work` with a `fetch` that ends after some seconds. */
  async function within<T>(
    owner: Partial<Pick<OAuthState, "server" | "given">>,
    work: (library: Library, fetch: Fetch) => Promise<T>,
  ): Promise<T> {
    const named = getNames(owner);
    const guarded = guardedFetch(outbound, AbortSignal.timeout(timeout_ms), named);
    let failure: unknown;
    const fetch: Fetch = (input, init) =>
      guarded(input, init).catch((error: unknown) => {
        failure ??= error;
        throw error;
      });
    try {
      const result = await work(await load(), fetch);
      // The library goes on to the next address after some failures. A blocked or broken one ends it here.
      if (failure !== undefined) throw failure;
      return result;
    } catch (error) {
      throw explained(failure ?? error, named);
    }
  }

  return {
    discover: (state: OAuthState) => within(state, (library, fetch) => discover(state, { library, fetch, outbound })),

    /** The client for this authorization server: the owner's, the one that is known, or a new one. */
    client: (state: OAuthState, discovered: Discovered) =>
      within(state, async (library, fetch): Promise<OAuthClient> => {
        if (state.given.client !== null) return ownClient(state, state.given.client, discovered);
        const url = identity.client_metadata_url();
        if (discovered.takes_metadata_url && url !== null) return { client_id: url };
        if (state.client !== null && state.issuer?.issuer === discovered.issuer.issuer) return state.client;
        if (discovered.registration_endpoint === null) {
          throw new OAuthError("it registers no clients; store the client_id that it gave you");
        }
        return await register(discovered, { library, fetch, redirect_uri: identity.redirect_uri() });
      }),

    /** Where the owner signs in. */
    authorization: (given: Pick<Pending, "client" | "issuer" | "scope" | "resource"> & { state: string }) =>
      within({}, async ({ startAuthorization }) => {
        const { client, issuer, scope, resource, state } = given;
        return await startAuthorization(issuer.issuer, {
          metadata: issuer as AuthorizationServerMetadata,
          clientInformation: client,
          redirectUrl: identity.redirect_uri(),
          state,
          ...(scope === null ? {} : { scope }),
          ...(resource === null ? {} : { resource }),
        });
      }),

    exchange: (pending: Pending, { code, iss }: { code: string; iss: string | undefined }) =>
      within({}, async (library, fetch) =>
        checkedTokens(
          await library.exchangeAuthorization(pending.issuer.issuer, {
            ...given(library, pending, fetch),
            authorizationCode: code,
            ...(iss === undefined ? {} : { iss }),
            codeVerifier: pending.code_verifier,
            redirectUri: pending.redirect_uri,
          }),
        ),
      ),

    /** Another token without the owner: by the refresh token, or by the client's credentials. */
    renew: (state: OAuthState & { client: OAuthClient; issuer: Issuer }) =>
      within(state, async (library, fetch) => {
        const { issuer, tokens, scope } = state;
        const common = given(library, state, fetch);
        if (state.grant === "authorization_code") {
          const refreshToken = tokens?.refresh_token ?? "";
          return checkedTokens(await library.refreshAuthorization(issuer.issuer, { ...common, refreshToken }));
        }
        const { fetchFn, metadata, resource } = common;
        const request = { metadata, fetchFn, ...(resource === undefined ? {} : { resource }) };
        const wanted = scope === null ? {} : { scope };
        return checkedTokens(
          await library.fetchToken(clientCredentials(common), issuer.issuer, { ...request, ...wanted }),
        );
      }),
  };
}

export type OAuthRequests = ReturnType<typeof createOAuthRequests>;

/** The parts of each token request. */
function given(
  library: Library,
  { client, issuer, resource }: { client: OAuthClient; issuer: Issuer; resource: string | null },
  fetchFn: Fetch,
) {
  const { private_key, algorithm: alg = "", client_id } = client;
  const key = { issuer: client_id, subject: client_id, privateKey: private_key ?? "", alg };
  return {
    fetchFn,
    metadata: issuer as AuthorizationServerMetadata,
    clientInformation: client,
    ...(resource === null ? {} : { resource }),
    ...(private_key === undefined ? {} : { addClientAuthentication: library.createPrivateKeyJwtAuth(key) }),
  };
}

function clientCredentials({
  clientInformation,
  addClientAuthentication,
}: ReturnType<typeof given>): OAuthClientProvider {
  const unused = () => {
    throw new OAuthError("it wants a person to sign in");
  };
  return {
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [] },
    clientInformation: () => clientInformation,
    tokens: () => undefined,
    saveTokens: unused,
    redirectToAuthorization: unused,
    saveCodeVerifier: unused,
    codeVerifier: unused,
    ...(addClientAuthentication === undefined ? {} : { addClientAuthentication }),
    prepareTokenRequest: (scope?: string) =>
      new URLSearchParams({ grant_type: "client_credentials", ...(scope === undefined ? {} : { scope }) }),
  };
}

/**
 * The owner's client. Its secret is for one authorization server, so an MCP server that later names another one does not
 * get it there.
 */
function ownClient({ issuer, given }: OAuthState, client: OAuthClient, discovered: Discovered): OAuthClient {
  const is_public = client.client_secret === undefined && client.private_key === undefined;
  const is_same = issuer === null || issuer.issuer === discovered.issuer.issuer;
  if (is_public || is_same || given.token_endpoint !== undefined) return client;
  throw new OAuthError("its authorization server is another one than before; if that is right, store the client again");
}

/** By the server's own challenge and its metadata (RFC 9728), the metadata of its authorization server (RFC 8414). */
async function discover(
  { server, grant, given: { scope, resource, token_endpoint } }: OAuthState,
  { library, fetch, outbound }: { library: Library; fetch: Fetch; outbound: Outbound },
): Promise<Discovered> {
  if (grant === "client_credentials" && token_endpoint !== undefined) {
    return directly(server, { scope, resource, token_endpoint });
  }
  const challenge = library.extractWWWAuthenticateParams(await fetch(server, PROBE));
  const { resourceMetadataUrl } = challenge;
  const found = await library.discoverOAuthServerInfo(server, {
    fetchFn: fetch,
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
  });
  const { authorizationServerMetadata: metadata, resourceMetadata } = found;
  if (metadata === undefined) {
    throw new OAuthError("neither it nor its authorization server publishes metadata (RFC 9728, RFC 8414)");
  }
  // MCP's authorization: without this field a server does not support PKCE, and a client must refuse to proceed.
  const challenges = metadata.code_challenge_methods_supported ?? [];
  if (grant === "authorization_code" && !challenges.includes("S256")) {
    throw new OAuthError("its authorization server does not support PKCE with S256, so a sign-in could be stolen");
  }
  const published = resourceMetadata?.resource;
  if (published !== undefined && !isResourceOf(library, server, published)) {
    throw new OAuthError("its metadata is for another resource than this server");
  }
  const asked = scope ?? challenge.scope ?? resourceMetadata?.scopes_supported?.join(" ");
  const offline = grant === "authorization_code" && metadata.scopes_supported?.includes("offline_access") === true;
  return {
    ...checkedIssuer(metadata, { token_endpoint, outbound }),
    resource: resource ?? published ?? server,
    scope: asked === undefined || asked === "" ? null : withOffline(asked, offline),
  };
}

/** Any first message, without a token, so that the server says where its authorization server is. */
const CLIENT = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "purser", version: "1" } };
const PROBE = {
  method: "POST",
  headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: CLIENT }),
};

function directly(
  server: string,
  known: { scope: string | undefined; resource: string | undefined; token_endpoint: string },
): Discovered {
  const { token_endpoint, resource = server, scope = null } = known;
  const { origin } = new URL(token_endpoint);
  return {
    issuer: { issuer: origin, authorization_endpoint: origin, token_endpoint, response_types_supported: ["code"] },
    registration_endpoint: null,
    takes_metadata_url: false,
    resource,
    scope,
  };
}

function isResourceOf({ checkResourceAllowed }: Library, server: string, resource: string): boolean {
  return URL.canParse(resource) && checkResourceAllowed({ requestedResource: server, configuredResource: resource });
}

function withOffline(scope: string, offline: boolean): string {
  return offline && !scope.split(" ").includes("offline_access") ? `${scope} offline_access` : scope;
}

/** The endpoints, each over https. Endpoints that get credentials must be on the issuer's host, or named by the owner. */
function checkedIssuer(
  metadata: AuthorizationServerMetadata,
  { token_endpoint, outbound }: { token_endpoint: string | undefined; outbound: Outbound },
): Pick<Discovered, "issuer" | "registration_endpoint" | "takes_metadata_url"> {
  const { host } = new URL(metadata.issuer);
  const registration = metadata.registration_endpoint;
  const discovered = { token: metadata.token_endpoint, registration };
  for (const [name, url] of Object.entries(discovered)) {
    if (url === undefined || (name === "token" && token_endpoint !== undefined)) continue;
    if (new URL(url).host !== host) {
      throw new OAuthError(`its ${name} endpoint is on another host than its issuer; ${remedyFor(name)}`);
    }
  }
  for (const url of [metadata.authorization_endpoint, token_endpoint ?? metadata.token_endpoint, registration]) {
    if (url !== undefined && !outbound.isConfidential(new URL(url))) throw new OAuthError("an endpoint is not https");
  }
  return {
    issuer: {
      issuer: metadata.issuer,
      authorization_endpoint: metadata.authorization_endpoint,
      token_endpoint: token_endpoint ?? metadata.token_endpoint,
      response_types_supported: metadata.response_types_supported,
      token_endpoint_auth_methods_supported: metadata.token_endpoint_auth_methods_supported,
      authorization_response_iss_parameter_supported: metadata.authorization_response_iss_parameter_supported === true,
    },
    registration_endpoint: registration ?? null,
    takes_metadata_url: metadata.client_id_metadata_document_supported === true,
  };
}

function remedyFor(endpoint: string): string {
  return endpoint === "token"
    ? "if that is right, store the secret with token_endpoint"
    : "store the client_id that it gave you";
}

async function register(
  { issuer, registration_endpoint, scope }: Discovered,
  { library, fetch, redirect_uri }: { library: Library; fetch: Fetch; redirect_uri: string },
): Promise<OAuthClient> {
  const registered = await library.registerClient(issuer.issuer, {
    metadata: { ...issuer, registration_endpoint } as AuthorizationServerMetadata,
    clientMetadata: clientMetadata(redirect_uri),
    fetchFn: fetch,
    ...(scope === null ? {} : { scope }),
  });
  const { client_id, client_secret, token_endpoint_auth_method } = registered;
  return { client_id, client_secret, token_endpoint_auth_method };
}

/** What Purser says of itself as a client. */
export function clientMetadata(redirect_uri: string) {
  const { origin, protocol } = new URL(redirect_uri);
  return {
    client_name: "Purser",
    client_uri: origin,
    // OpenID Connect Registration: a web client has https addresses only.
    application_type: protocol === "https:" ? "web" : "native",
    redirect_uris: [redirect_uri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
}

function checkedTokens(tokens: OAuthTokens): OAuthTokens {
  const { access_token, refresh_token = "", token_type } = tokens;
  if (token_type.toLowerCase() !== "bearer") throw new OAuthError("its token is not a Bearer token");
  if (!/^[!-~]+$/.test(access_token) || Math.max(access_token.length, refresh_token.length) > MAX_TOKEN_CHARS) {
    throw new OAuthError("its token cannot be sent in a header");
  }
  return tokens;
}

/** Names a host in a message. A model reads the message, so a host that only the server gave is not repeated. */
type HostNames = (host: string) => string;

function getNames({ server, given }: Partial<Pick<OAuthState, "server" | "given">>): HostNames {
  const own = [server, given?.token_endpoint].flatMap((url) => (url === undefined ? [] : [new URL(url).host]));
  return (host) => (own.includes(host) ? host : "its authorization server");
}

function guardedFetch(outbound: Outbound, signal: AbortSignal, named: HostNames): Fetch {
  return async (input, init = {}) => {
    const url = new URL(input);
    if (!outbound.isConfidential(url)) {
      throw new OAuthError(`${named(url.host)} is to be asked over http; tokens are asked for over https only`);
    }
    const { status, headers, content_type, body } = await outbound.request({
      url: url.href,
      method: init.method ?? "GET",
      headers: Object.fromEntries(new Headers(init.headers)),
      body: init.body === undefined || init.body === null ? undefined : String(init.body),
      max_bytes: MAX_BYTES,
      timeout_ms: TOKEN_MS,
      max_redirects: 0,
      signal,
    });
    const bodiless = status === 204 || status === 205 || status === 304;
    const read = bodiless ? null : new Uint8Array(withoutNullFields(body, content_type));
    return new Response(read, { status, headers });
  };
}

/** The error in a sentence of our own. The library's errors are known by their fields, as it is loaded on first use. */
function explained(error: unknown, named: HostNames): OAuthError {
  if (error instanceof OAuthError) return error;
  if (error instanceof OutboundError) {
    const at = error.host === null ? "" : ` (${named(error.host)})`;
    if (error.code === "too_many_redirects")
      return new OAuthError(`it answers with a redirect, which is not followed${at}`);
    if (error.code === "too_large") return new OAuthError(`its answer is larger than ${MAX_BYTES} bytes${at}`);
    return new OAuthError(`${error.message}${at}`);
  }
  const { name, code } = error as { name?: string; code?: unknown };
  if (name === "IssuerMismatchError") return new OAuthError("it is another issuer than the one that was asked");
  if (name === "InsecureTokenEndpointError") return new OAuthError("its token endpoint is not https");
  if (name === "RegistrationRejectedError") return new OAuthError("it refuses to register a client");
  if (typeof code === "string" && REFUSALS.has(code)) return new OAuthError(`it refuses (${code})`, true);
  if (typeof code === "string" && KNOWN_ERRORS.has(code)) return new OAuthError(`it answers with the error ${code}`);
  if (typeof code === "string" && /^[a-z_]{1,40}$/.test(code))
    return new OAuthError("it answers with an unknown error");
  return new OAuthError("it does not answer as an authorization server does");
}
