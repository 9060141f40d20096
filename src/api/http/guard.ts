import { errors, PurserError } from "../../kernel/errors.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Caller, Operator } from "../contract/caller.ts";
import { OAUTH_CLIENT_METADATA } from "../contract/oauth-secrets.ts";
import { includesRole, requiredRole } from "../contract/operators.ts";
import { HOOK } from "../contract/triggers.ts";
import { LEAKED_KEYS, SIGN_IN, STRIPE_WEBHOOK } from "./body.ts";
import { createClientAddress } from "./client-address.ts";
import { type Authentication, credentialOf, keyHeader } from "./credential.ts";
import { httpErrors } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import { OPERATOR_ID } from "./idempotency.store.ts";
import { createKeylessLimit, type KeylessLimit } from "./keyless-limit.ts";
import { sessionToken } from "./origins.ts";
import { type AdmitRequest, createRateLimit, type Limited, limitCaller } from "./rate-limit.ts";
import { METRICS } from "./system.routes.ts";

/** Requests per minute of one address on public paths. */
const PUBLIC_PER_MINUTE = {
  /** An office shares one address, and each console page reads its session. */
  sign_in: 300,
  /** Stripe repeats rejected events. */
  stripe: 1_200,
  /** Enough to report keys. Each request costs a query. */
  leaked_keys: 60,
  documents: 60,
  /** A sender such as GitHub has few addresses for all users. Each trigger has a limit of its own. */
  hooks: 6_000,
};
/** contract 8.4.1: wrong operator keys of one address per minute; then 429 and a line in the log. */
const WRONG_KEYS_PER_MINUTE = 20;
/** contract 2: API keys and sessions of one address per minute that do not exist; then 429. */
const UNKNOWN_KEYS_PER_MINUTE = 600;
/** Errors of credentials that do not exist. An expired or revoked key is known, and cached. */
const UNKNOWN_KEY = new Set(["invalid_api_key", "session_expired"]);
const WRONG_OPERATOR_KEY = new Set(["invalid_api_key", "expired_api_key", "revoked_api_key"]);
const OPERATOR_PATHS = "/api/v1/admin/";

/** What the public port of every node needs to know its callers, also of one that serves no API. */
export interface EdgeOptions {
  /** Whether operators read the metrics here, and not at PURSER_METRICS_ADDRESS. */
  has_metrics: boolean;
  /** CIDRs whose X-Forwarded-For is trusted. */
  trusted_proxies: readonly string[];
  /** Returns the operator of a key. Throws 401; 404 when the operator API is off. */
  authenticateOperator(key: string): Promise<Operator>;
  log: Log;
}

export interface GuardOptions extends Authentication, EdgeOptions {
  /** A reload replaces them. */
  limits(): { requests_per_minute: number; session_requests_per_minute: number };
  /** Whether the operator API is on. */
  has_operators: boolean;
  /** Returns the operator of the console's session cookie. Throws 401 and 403. */
  authenticateOperatorSession(token: string): Promise<Operator>;
  /** Counts a request against the limits of its key, user and plan. */
  admitRequest: AdmitRequest;
}

/** Addresses, requests without a key, and operators. */
export interface Edge {
  clientAddress(exchange: Exchange): string;
  keyless: KeylessLimit;
  /** Counts a request that needs no API key. Only operators read the metrics. Throws 401, 403, 404 or 429. */
  admitWithoutKey(exchange: Exchange): Promise<void>;
  /** Returns the operator of a request's key. Throws 401, 403 by their role, 404 or 429. */
  findOperator(exchange: Exchange): Promise<Operator>;
}

/** Who is calling: a user, the operator, or no one on public paths. */
export interface Admitted {
  caller: Caller | null;
  operator: Operator | null;
}

/** The kind of a public path, which needs no key; null for all others. */
function publicKind({ method, route }: Exchange): keyof typeof PUBLIC_PER_MINUTE | null {
  if (route.startsWith(SIGN_IN)) return "sign_in";
  if (method === "GET" && route === OAUTH_CLIENT_METADATA) return "documents";
  if (method === "POST" && route === STRIPE_WEBHOOK) return "stripe";
  if (method === "POST" && route === HOOK) return "hooks";
  return method === "POST" && route === LEAKED_KEYS ? "leaked_keys" : null;
}

/** What the public port needs before it knows the caller. */
export function createEdge(options: EdgeOptions): Edge {
  const clientAddress = createClientAddress(options.trusted_proxies);
  const keyless = createKeylessLimit(clientAddress);
  const wrong_keys = createTokenBuckets({ size: WRONG_KEYS_PER_MINUTE, refill_s: 60 });
  const logged_addresses = createTokenBuckets({ size: 1, refill_s: 60 });
  async function findOperator(exchange: Exchange): Promise<Operator> {
    const found = await authenticateOperator(options, keyHeader(exchange)).catch((error: unknown) => {
      if (!(error instanceof PurserError)) throw error;
      exchange.facts.is_keyless = true;
      if (!WRONG_OPERATOR_KEY.has(error.code)) throw keyless.count(exchange, error);
      const client_address = clientAddress(exchange);
      const answer = countRejected(wrong_keys, client_address, error);
      if (answer !== error && logged_addresses.take(client_address).retry_after_s === null)
        options.log.warn({ client_address }, "wrong operator keys from this address are answered 429");
      throw answer;
    });
    requireRole(exchange, found);
    return found;
  }
  async function admitWithoutKey(exchange: Exchange): Promise<void> {
    const { route, method } = exchange;
    const is_metrics = options.has_metrics && route === METRICS && (method === "GET" || method === "HEAD");
    if (is_metrics) await findOperator(exchange);
    else keyless.take(exchange);
  }
  return { clientAddress, keyless, admitWithoutKey, findOperator };
}

/** Counts a rejected key in `buckets`, so a stranger cannot lock out the operator or a user. Returns the error to answer. */
function countRejected(buckets: ReturnType<typeof createTokenBuckets>, address: string, error: PurserError) {
  const { retry_after_s } = buckets.take(address);
  return retry_after_s === null ? error : errors.rateLimited(retry_after_s);
}

/** Identifies callers under /api/v1 and counts their requests. */
export function createGuard(options: GuardOptions, { clientAddress, keyless, findOperator }: Edge) {
  const unknown_keys = createTokenBuckets({ size: UNKNOWN_KEYS_PER_MINUTE, refill_s: 60 });
  const limitKeys = createRateLimit(() => options.limits().requests_per_minute);
  const limitSessions = createRateLimit(() => options.limits().session_requests_per_minute);
  const limitPublic = Object.fromEntries(
    Object.entries(PUBLIC_PER_MINUTE).map(([kind, per_minute]) => [kind, createRateLimit(() => per_minute)]),
  ) as Record<keyof typeof PUBLIC_PER_MINUTE, (address: string) => Limited>;

  const findCaller = (exchange: Exchange): Promise<Caller> =>
    credentialOf(exchange, options)
      .authenticate()
      .catch((error: unknown) => {
        if (!(error instanceof PurserError)) throw error;
        exchange.facts.is_keyless = true;
        if (UNKNOWN_KEY.has(error.code)) throw countRejected(unknown_keys, clientAddress(exchange), error);
        throw keyless.count(exchange, error);
      });
  /** The session of a request without a key. While the operator API is off, sessions get the 404 of keys. */
  const operatorSession = (exchange: Exchange): string | null =>
    options.has_operators && keyHeader(exchange) === undefined ? sessionToken(exchange, options.address) : null;
  const authenticateOperatorSession = async (exchange: Exchange, token: string): Promise<Operator> => {
    const operator = await options.authenticateOperatorSession(token);
    requireRole(exchange, operator);
    return operator;
  };
  /** Adds the headers of the limit to the answer. Throws 429 over it. */
  const apply = ({ head }: Exchange, { headers, retry_after_s }: Limited): void => {
    Object.assign(head, headers);
    if (retry_after_s !== null) throw errors.rateLimited(retry_after_s);
  };

  return {
    /** Throws 401, 403 and 429. */
    async admit(exchange: Exchange): Promise<Admitted> {
      const kind = publicKind(exchange);
      if (kind !== null) {
        apply(exchange, limitPublic[kind](clientAddress(exchange)));
        return { caller: null, operator: null };
      }
      if (exchange.route.startsWith(OPERATOR_PATHS)) {
        const token = operatorSession(exchange);
        // An unknown session is counted as on other paths.
        if (token !== null) await findCaller(exchange);
        const operator =
          token === null ? await findOperator(exchange) : await authenticateOperatorSession(exchange, token);
        const user_id = operator.id ?? OPERATOR_ID;
        exchange.facts.user_id = user_id;
        return { caller: { user_id, api_key_id: null, key_budget_tokens: null, scopes: [] }, operator };
      }
      const known = await findCaller(exchange);
      exchange.facts.user_id = known.user_id;
      exchange.facts.api_key_id = known.api_key_id;
      // A user's API keys share one limit and the sessions another, so a busy program does not lock its owner out.
      const ofNode = known.api_key_id === null ? limitSessions : limitKeys;
      const { caller, limited: of_caller } = await limitCaller(known, ofNode, options.admitRequest);
      apply(exchange, of_caller);
      return { caller, operator: null };
    },
    /** Throws if the caller has lost access since `admit`. It reads the same caches, so it costs no query. */
    async check(exchange: Exchange): Promise<void> {
      if (publicKind(exchange) !== null) return;
      if (exchange.route.startsWith(OPERATOR_PATHS)) {
        const token = operatorSession(exchange);
        if (token === null) requireRole(exchange, await authenticateOperator(options, keyHeader(exchange)));
        else await authenticateOperatorSession(exchange, token);
      } else await credentialOf(exchange, options).authenticate();
    },
  };
}

async function authenticateOperator(
  { authenticateOperator: authenticate }: EdgeOptions,
  authorization: string | undefined,
): Promise<Operator> {
  // Without a key it says whether the operator API is on.
  const key = authorization === undefined ? "" : /^bearer +(\S+)$/i.exec(authorization)?.[1];
  const found = authenticate(key ?? "");
  if (authorization !== undefined) return found;
  return found.catch((error: unknown) => {
    throw error instanceof PurserError && error.code === "invalid_api_key" ? httpErrors.missingApiKey() : error;
  });
}

/** contract 8.1.1: throws 403 when the operator's role does not include the request. */
function requireRole({ method, route }: Exchange, { role }: Operator): void {
  const required = requiredRole(method, route);
  if (!includesRole(role, required)) throw httpErrors.insufficientRole(role, required);
}
