import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { OAuthTokens } from "@modelcontextprotocol/client";
import { normalHost } from "../api/contract/hosts.ts";
import type { NewOAuth, OAuthChange, ShownOAuth } from "../api/contract/oauth-secrets.ts";
import { errors } from "../kernel/errors.ts";
import type { Tx } from "../platform/db/db.ts";
import { addSeconds, type Clock, monotonicMs } from "../platform/lib/clock.ts";
import { newId } from "../platform/lib/ids.ts";
import type { Instant } from "../platform/lib/instant.ts";
import type { DataKeys } from "./data-keys.service.ts";
import { vaultErrors } from "./errors.ts";
import { OAuthError, type OAuthRequests } from "./oauth.adapter.ts";
import {
  canAskForToken,
  changedState,
  credentialsOf,
  hashOfState,
  holdsAny,
  isEndOf,
  newState,
  type OAuthState,
  type Pending,
  shownOAuth,
  usableToken,
} from "./oauth-state.ts";
import { type DataKey, seal, unseal } from "./seal.ts";
import type { SealedRow, VaultStore } from "./vault.store.ts";
import type { SecretDisconnected, SecretUsage } from "./vault.types.ts";
import { rowIdentity, type VaultChanges } from "./vault-changes.ts";

const CONNECT_SECONDS = 600;
/** Longer than a request for a token can take. */
const LEASE_SECONDS = 30;
const WAIT_MS = 15_000;
const POLL_MS = 100;
const MASK = "••••••••";
/** The only tool that may use an oauth secret. */
export const OAUTH_TOOL = "mcp";

/** An oauth secret that a tool wants to use, opened. */
interface ToUse {
  readonly secret: SealedRow;
  readonly value: string;
  readonly key: DataKey;
}

type TokenResult =
  | { readonly status: "ready"; readonly token: string; readonly unsent: string[] }
  /** The secret was changed, so it must be read again. */
  | { readonly status: "renewed" }
  | { readonly status: "no_token"; readonly message: string };

/**
 * Secrets of type `oauth`: their tokens are asked for, renewed and stored here. One node at a time asks for the token of
 * a version, by a lease in the secret's row; the others wait for the next version.
 */
export function createOAuthSecrets(deps: {
  store: VaultStore;
  changes: VaultChanges;
  keys: DataKeys;
  clock: Clock;
  requests: OAuthRequests;
  redirect_uri(): string;
  onDisconnect(event: SecretDisconnected, tx: Tx): Promise<void>;
}) {
  const { store, changes, keys, clock, requests } = deps;

  /** Stores what `change` makes of the current state. It returns null to change nothing. Throws 404 for a deleted secret. */
  async function revise(
    { user_id, id }: { user_id: string; id: string },
    change: (state: OAuthState, row: SealedRow) => Revised | null,
  ): Promise<SealedRow | null> {
    const key = await keys.toWrite(user_id);
    return changes.change(user_id, key, async (tx) => {
      const row = await store.sealed(tx, user_id, id);
      if (row === undefined) throw errors.notFound("This secret");
      const revised = change(stateIn(row, key) ?? changes.throwTampered(user_id), row);
      if (revised === null) return null;
      const stored = sealedAgain(row, revised, { key, now: clock.now() });
      await store.update(tx, stored);
      if (revised.is_disconnected === true) {
        const { name, version } = stored;
        await deps.onDisconnect({ user_id, id, name, version, server: revised.state.server }, tx);
      }
      return stored;
    });
  }

  /** Asks for another token and stores it, unless the secret was changed meanwhile. */
  async function renew({ secret, value }: ToUse): Promise<TokenResult> {
    const { version } = secret;
    const asked = await askForToken(JSON.parse(value), requests).catch((error: unknown) => {
      if (error instanceof OAuthError) return error;
      throw error;
    });
    const is_refusal = asked instanceof OAuthError && asked.is_refusal;
    if (asked instanceof OAuthError && !is_refusal) {
      return { status: "no_token", message: `its token could not be renewed: ${asked.message}` };
    }
    await revise(secret, (state, row) => {
      if (row.version !== version) return null;
      if (!(asked instanceof OAuthError)) return { state: connected(state, asked, clock.now()), is_new_version: true };
      const refused = { ...state, tokens: null, status: "revoked" as const, error: asked.message };
      return { state: refused, is_new_version: true, is_disconnected: true };
    });
    return { status: "renewed" };
  }

  return {
    /** Stores a secret without a token. Throws 409 name_taken or secret_limit_reached. */
    async create(user_id: string, wanted: { name: string; description: string; oauth: NewOAuth }): Promise<SealedRow> {
      const key = await keys.toWrite(user_id);
      const now = clock.now();
      const { name, description, oauth } = wanted;
      const state = newState(oauth);
      const allowed_hosts = [normalHost(new URL(state.server).host)];
      const shown = { user_id, id: newId(), name, description, allowed_hosts, version: 1, oauth: shownOAuth(state) };
      const row: SealedRow = {
        ...shown,
        masked_value: MASK,
        created_at: now,
        updated_at: now,
        last_used_at: null,
        reflected_at: null,
        sealed: seal(JSON.stringify(state), rowIdentity(shown), key),
      };
      await changes.insert(row, key);
      return row;
    },

    /** Changes description and credentials. New credentials drop the tokens. */
    async update(secret: SealedRowRef, wanted: { description?: string | undefined; oauth?: OAuthChange | undefined }) {
      const { description, oauth } = wanted;
      return revise(secret, (state, row) => ({
        state: oauth === undefined ? state : changedState(state, oauth),
        is_new_version: oauth !== undefined,
        ...(oauth === undefined ? { reflected_at: row.reflected_at } : {}),
        ...(description === undefined ? {} : { description }),
      }));
    },

    /** The access token for a request. Asks for another one when it is missing, expires soon or was refused. */
    async token(to_use: ToUse, usage: SecretUsage, is_renewed: boolean): Promise<TokenResult> {
      const { secret, value } = to_use;
      const state: OAuthState = JSON.parse(value);
      // The row's own copy decides nothing: only the sealed text is protected.
      if (!isForServer(state, usage)) return { status: "no_token", message: "it is for another server" };
      const is_refused = usage.refused_version === secret.version;
      const token = is_renewed ? (state.tokens?.access_token ?? null) : usableToken(state, clock.now());
      if (token !== null && !is_refused) {
        return { status: "ready", token, unsent: credentialsOf(state).filter((each) => each !== token) };
      }
      if (is_renewed || !canAskForToken(state)) return { status: "no_token", message: withoutToken(state) };
      const deadline_ms = monotonicMs() + WAIT_MS;
      while (!(await store.claimRefresh(secret, LEASE_SECONDS))) {
        const present = await store.secret(secret.user_id, secret.id);
        if (present?.version !== secret.version) return { status: "renewed" };
        if (monotonicMs() > deadline_ms)
          return { status: "no_token", message: "its token is being renewed; try again" };
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
      return renew(to_use).finally(() => store.releaseRefresh(secret));
    },

    /** Begins a sign-in. Throws 502 oauth_failed. */
    async connect(secret: SealedRowRef, bound_to: string) {
      const state = await readState(secret);
      if (state.grant !== "authorization_code") throw vaultErrors.notConnectable();
      const begun = await begin(state, { requests, redirect_uri: deps.redirect_uri(), bound_to, id: secret.id }).catch(
        throwFailed,
      );
      const expires_at = addSeconds(clock.now(), CONNECT_SECONDS);
      await revise(secret, (current, { reflected_at }) => ({
        state: { ...current, pending: { ...begun.pending, expires_at } },
        is_new_version: false,
        reflected_at,
      }));
      return { authorization_url: begun.url, expires_at };
    },

    /** Ends a sign-in with the code that the authorization server gave. Returns why it failed, or null. */
    async finish(secret: SealedRowRef, answer: Answered): Promise<"expired" | "denied" | "failed" | null> {
      let begun: Begun | null = null;
      await revise(secret, (state, { reflected_at }) => {
        const ended = { ...answer, now: clock.now() };
        if (!isEndOf(state.pending, ended)) return null;
        begun = { pending: state.pending, given: state.given };
        // A state is used once.
        return { state: { ...state, pending: null }, is_new_version: false, reflected_at };
      });
      return begun === null ? "expired" : await exchange(secret, begun, answer);
    },
  };

  async function exchange(
    secret: SealedRowRef,
    { pending, given }: Begun,
    { code, iss }: Answered,
  ): Promise<"expired" | "denied" | "failed" | null> {
    if (code === undefined) return "denied";
    const tokens = await requests.exchange(pending, { code, iss }).catch((error: unknown) => {
      if (error instanceof OAuthError) return error;
      throw error;
    });
    let is_changed = false;
    await revise(secret, (state, { reflected_at }) => {
      is_changed = !isDeepStrictEqual(state.given, given);
      // The owner has changed the credentials since: these tokens belong to the former ones.
      if (is_changed) return null;
      if (tokens instanceof OAuthError) {
        return { state: { ...state, error: tokens.message }, is_new_version: false, reflected_at };
      }
      const { client, issuer, resource, scope } = pending;
      // A former refresh token belongs to another sign-in.
      const fresh = { ...state, client, issuer, resource, scope, tokens: null };
      return { state: connected(fresh, { tokens, found: null }, clock.now()), is_new_version: true };
    });
    if (is_changed) return "expired";
    return tokens instanceof OAuthError ? "failed" : null;
  }

  async function readState({ user_id, id }: SealedRowRef): Promise<OAuthState> {
    let found: OAuthState | undefined;
    await revise({ user_id, id }, (state) => {
      found = state;
      return null;
    });
    return found as OAuthState;
  }
}

/** Whether a tool may use the secret for this request: the MCP tool, for the secret's own server. */
export function isForServer({ server }: Pick<ShownOAuth, "server">, { tool, url }: SecretUsage): boolean {
  return tool === OAUTH_TOOL && url.href === server;
}

type SealedRowRef = Pick<SealedRow, "user_id" | "id">;
/** A sign-in, with what the owner had given for it. */
interface Begun {
  readonly pending: Pending;
  readonly given: OAuthState["given"];
}
interface Answered {
  readonly state: string;
  readonly bound_to: string;
  readonly code: string | undefined;
  readonly iss: string | undefined;
}
interface Revised {
  readonly state: OAuthState;
  /** The credentials or tokens are others. */
  readonly is_new_version: boolean;
  readonly is_disconnected?: boolean;
  readonly description?: string;
  /** Absent: the value is new, so the secret may be used again. */
  readonly reflected_at?: Instant | null;
}

function stateIn(row: SealedRow, key: DataKey): OAuthState | null {
  const value = unseal(row.sealed, rowIdentity(row), key);
  return value === null ? null : JSON.parse(value);
}

function sealedAgain(row: SealedRow, revised: Revised, { key, now }: { key: DataKey; now: Instant }): SealedRow {
  const { state, is_new_version, description = row.description, reflected_at = null } = revised;
  const version = is_new_version ? row.version + 1 : row.version;
  const changed = { ...row, version, description, reflected_at, updated_at: now, oauth: shownOAuth(state) };
  return { ...changed, sealed: seal(JSON.stringify(state), rowIdentity(changed), key) };
}

interface TokenAnswer {
  readonly tokens: OAuthTokens;
  /** The result of the discovery; null: no discovery was needed. */
  readonly found: Pick<OAuthState, "issuer" | "resource" | "scope"> | null;
}

async function askForToken(state: OAuthState, requests: OAuthRequests): Promise<TokenAnswer> {
  const found = state.issuer === null ? await requests.discover(state) : null;
  const { issuer, resource, scope } = found ?? state;
  if (issuer === null || state.client === null) throw new OAuthError("it has no client");
  const tokens = await requests.renew({ ...state, client: state.client, issuer, resource, scope });
  return { tokens, found: found === null ? null : { issuer, resource, scope } };
}

function connected(state: OAuthState, { tokens, found }: TokenAnswer, now: Instant): OAuthState {
  const { access_token, refresh_token, expires_in, scope } = tokens;
  const known = [...credentialsOf(state), access_token, refresh_token ?? ""];
  const granted = scope === undefined || holdsAny(scope, known) ? null : scope;
  return {
    ...state,
    ...found,
    scope: granted ?? found?.scope ?? state.scope,
    tokens: {
      access_token,
      refresh_token: refresh_token ?? state.tokens?.refresh_token ?? null,
      expires_at: expires_in === undefined ? null : addSeconds(now, Math.max(0, Math.min(expires_in, MAX_SECONDS))),
    },
    status: "connected",
    error: null,
  };
}
/** A year. */
const MAX_SECONDS = 31_536_000;

async function begin(
  known: OAuthState,
  {
    requests,
    redirect_uri,
    bound_to,
    id,
  }: { requests: OAuthRequests; redirect_uri: string; bound_to: string; id: string },
) {
  const discovered = await requests.discover(known);
  const { issuer, resource, scope } = discovered;
  const client = await requests.client(known, discovered);
  // The callback finds the secret by the state's first part.
  const state = `${id}.${randomBytes(32).toString("base64url")}`;
  const { authorizationUrl, codeVerifier } = await requests.authorization({ client, issuer, resource, scope, state });
  const pending = { client, issuer, resource, scope, redirect_uri, bound_to };
  return {
    url: authorizationUrl.href,
    pending: { ...pending, state_hash: hashOfState(state), code_verifier: codeVerifier },
  };
}

function throwFailed(error: unknown): never {
  throw error instanceof OAuthError ? vaultErrors.oauthFailed(error.message) : error;
}

function withoutToken({ status, error, grant }: OAuthState): string {
  const action =
    grant === "client_credentials" ? "its owner has to change its credentials" : "its owner has to connect again";
  if (status === "revoked") return `the authorization server no longer accepts it: ${error ?? "it refuses"}; ${action}`;
  if (status === "not_connected") return "it is not connected; its owner has to connect it on the page Secrets";
  return `its token is no longer accepted; ${action}`;
}
