import type { MiddlewareHandler } from "hono";
import { errors, type PurserError } from "../../kernel/errors.ts";
import type { KeyTerms } from "./key-terms.ts";

/** contract 3: what a key may do. */
export const SCOPES = [
  "agents:read",
  "agents:write",
  "chat:read",
  "chat:write",
  "secrets:read",
  "secrets:write",
  "billing:read",
  "billing:write",
  "keys:read",
  "keys:write",
] as const;
export type Scope = (typeof SCOPES)[number];

/** Who is calling, as every handler sees it. */
export interface Caller extends KeyTerms {
  user_id: string;
  /** Identifies the session of a person; absent for a key. It is no credential. */
  session_id?: string;
  scopes: readonly Scope[];
}

/** contract 8: what an operator key may do. */
export const OPERATOR_ROLES = ["read", "support", "admin"] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** The operator who calls /api/v1/admin. `id`: the operator key; null is PURSER_ADMIN_KEY. */
export interface Operator {
  id: string | null;
  name: string;
  role: OperatorRole;
}

/** The caller of a running stream, who may be suspended, erased or revoked meanwhile. */
export interface LiveCaller {
  /** Aborts with the 401 or 403 that a new request of the caller would get, or with the 503 of a shutdown. */
  readonly refused: AbortSignal;
  /** Checks now instead of at the next interval. */
  check(): Promise<void>;
  /** Stops the watch. A stream calls it at its end. */
  leave(): void;
}

/** What a request's log line says beside its route and status. */
export interface RequestFacts {
  /** The error's code. */
  code?: string;
  /** The request had no key, or a wrong one. */
  is_keyless?: boolean;
  /** What the provider said of its error. */
  provider_error?: { status: number; code: string | null } | undefined;
  /** The model that answered and what it cost. Null: not known yet, or no charge. */
  answered?: () => { model: string; provider: string | null; tokens: number; cost_tokens: number } | null;
  /** The code of the error that broke a stream after its beginning, at its end. */
  broken?: () => string | null;
  /** Resolves at the end of a stream. */
  ended?: Promise<void>;
}

/** What the HTTP layer sets on each request's context. */
export interface HttpEnv {
  Variables: {
    request_id: string;
    facts: RequestFacts;
    caller: Caller;
    /** Under /api/v1/admin/ only. */
    operator: Operator;
    /** Under /api/v1/admin/ only: the user's id. Throws 404 for unknown users, and without `also_erased` for erased ones. */
    findUser: (id: string, also_erased?: boolean) => Promise<string>;
    /** The user that an operator's request created. Its kept answer is erased with the user. */
    created_user_id?: string | undefined;
    /** The `stableDigest` of a large body that was parsed in a thread. */
    body_digest?: string | undefined;
    /** The request only reads. Its answer is not kept for its Idempotency-Key. */
    only_reads?: boolean | undefined;
    /** The event with which an error ends the answer, if it is a stream of events. */
    error_event?: ((error: PurserError) => string) | undefined;
    /** Aborted at the end of a shutdown's drain, with the error for the caller. */
    cut_off: AbortSignal;
    /** Watches the caller until the answer ends. */
    live_caller: () => LiveCaller;
    /** Under /api/v1/auth/ only: the session cookie, if one of our own pages sent it, and who sent it. */
    session_token: string | null;
    client_address: string;
  };
}

function requireScope(scope: Scope): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    if (!c.get("caller").scopes.includes(scope)) throw errors.insufficientScope(scope);
    await next();
  };
}

/** For `createRoute`: the route needs a key, with this scope when one is named; the reference shows it. */
export function needs(scope?: Scope) {
  return {
    security: [{ api_key: [] as string[] }],
    ...(scope === undefined ? {} : { "x-required-scope": scope }),
    middleware: scope === undefined ? [] : [requireScope(scope)],
  };
}
