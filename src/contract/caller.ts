import type { MiddlewareHandler } from "hono";
import { errors } from "../errors.ts";

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
export interface Caller {
  user_id: string;
  /** null for a person signed in to the console. */
  api_key_id: string | null;
  /** The key's budget in billed tokens, null for none. */
  key_budget_tokens: number | null;
  scopes: readonly Scope[];
}

/** The caller of a stream, which may be suspended, erased or revoked while it goes on. */
export interface LiveCaller {
  /** Aborted with the 401 or 403, as soon as the caller would get it for a new request. */
  readonly refused: AbortSignal;
  /** Looks now instead of at the next turn. */
  check(): Promise<void>;
  /** Ends the watching. A stream calls it at its end. */
  leave(): void;
}

/** What the HTTP layer sets on each request's context. */
export interface HttpEnv {
  Variables: {
    request_id: string;
    caller: Caller;
    /** Of a large body, which was read in a thread: its `stableDigest`. */
    body_digest?: string | undefined;
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
