import type { KeyTerms } from "./key-terms.ts";

/** contract 3: what a key may do. */
export const SCOPES = [
  "agents:read",
  "agents:write",
  "agents:approve",
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
/** What a new key may do unless its creator says it. A key that decides for a person needs its own mention. */
export const DEFAULT_SCOPES: readonly Scope[] = SCOPES.filter((scope) => scope !== "agents:approve");

/** Who is calling, as every handler sees it. */
export interface Caller extends KeyTerms {
  user_id: string;
  /** Identifies the session of a person; absent for a key. It is no credential. */
  session_id?: string;
  scopes: readonly Scope[];
}

/** contract 8: what an operator may do. */
export const OPERATOR_ROLES = ["read", "support", "admin"] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** The operator who calls /api/v1/admin. `id`: the operator key or the account; null is PURSER_ADMIN_KEY. */
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
  user_id?: string | undefined;
  api_key_id?: string | null;
  /** The error's code. */
  code?: string;
  /** The error in our words, and the field that it names. */
  error?: { message: string; param: string | null };
  /** What the body of a model call names, also if it is not valid. */
  asked?: { model: string | null; end_user: string | null };
  /** The hold of a model call, which is the id of its charge. */
  hold_id?: string;
  /** The request had no key, or a wrong one. */
  is_keyless?: boolean;
  /** What the provider said of its error. */
  provider_error?: { status: number; code: string | null } | undefined;
  /** The model that answered and what it cost. Null: not known yet, or no charge. */
  answered?: () => { model: string; provider: string | null; tokens: number; cost_tokens: number } | null;
  /** The code of the error that broke a stream after its beginning, at its end. */
  broken?: () => string | null;
  /** Whether the caller of a stream left before its end. */
  hungUp?: () => boolean;
  /** Resolves at the end of a stream. */
  ended?: Promise<void>;
}
