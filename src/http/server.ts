import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, HonoRequest, MiddlewareHandler } from "hono";
import type { Caller, HttpEnv } from "../contract/caller.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";
import { createAllowances } from "../platform/allowance.ts";
import { monotonicMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";
import type { PublicAddress } from "../platform/public-address.ts";
import { jsonBodies } from "./body.ts";
import { LEAKED_KEYS, SIGN_IN, STRIPE_WEBHOOK } from "./body-limits.ts";
import { createClientAddress } from "./client-address.ts";
import { compressJson } from "./compress.ts";
import { errorResponse } from "./error-response.ts";
import type { IdempotencyStore } from "./idempotency.store.ts";
import { idempotency } from "./idempotency.ts";
import { watchCallers } from "./live-callers.ts";
import { rejectOtherOrigins, sessionToken } from "./origin-check.ts";
import { rateLimit } from "./rate-limit.ts";
import { SECURITY_HEADERS } from "./security-headers.ts";

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;
const PUBLIC_POSTS = new Set([STRIPE_WEBHOOK, LEAKED_KEYS]);
/** Requests per minute of one address, by path. An office shares one, and each console page reads its session. */
const SIGN_IN_PER_MINUTE = 300;
/** Stripe repeats rejected events. */
const STRIPE_PER_MINUTE = 1_200;
/** Enough to report keys. Each request costs a query. */
const LEAKED_KEYS_PER_MINUTE = 60;
/** contract 8: wrong operator keys of one address per minute; then 429. */
const WRONG_KEYS_PER_MINUTE = 60;
const FIXED_HEADERS = Object.entries(SECURITY_HEADERS);
const OPERATOR = "/api/v1/admin/";
/** The user id of the operator's idempotency keys. No user has it. */
const OPERATOR_ID = "00000000-0000-0000-0000-000000000000";

export interface HttpOptions {
  /** Returns the caller of an Authorization header. Throws 401. */
  authenticate(authorization: string | undefined): Promise<Caller>;
  /** Returns the caller of the console's session cookie. Throws 401. */
  authenticateSession(token: string): Promise<Caller>;
  /** The console's address. Its cookie is valid only there. */
  address: PublicAddress;
  /** CIDRs whose X-Forwarded-For is trusted. */
  trusted_proxies: readonly string[];
  /** Null: the operator API answers 404. */
  admin_key: string | null;
  idempotency: IdempotencyStore;
  /** A reload replaces them. */
  limits(): { requests_per_minute: number; session_requests_per_minute: number; body_bytes: number };
  log: Log;
  metrics: Metrics;
}

/**
 * The HTTP application: request ids, error bodies, authentication, limits, idempotency, then the modules' routers. It
 * authenticates the caller before it reads a body.
 */
export function createHttp(options: HttpOptions, routers: HttpRouter[]): HttpRouter {
  const app = createBareHttp(options, ({ method, path }) => `${method} ${path}`);
  app.use(compressJson());
  const clientAddress = createClientAddress(options.trusted_proxies);
  app.use("/api/v1/*", guard(options, clientAddress));
  app.use(
    "/api/v1/*",
    watchCallers((c) => credentialOf(c, options)),
  );
  app.use(
    `${SIGN_IN}*`,
    rateLimit(() => SIGN_IN_PER_MINUTE, clientAddress),
  );
  app.use(`${SIGN_IN}*`, signInContext(options, clientAddress));
  app.use("/api/v1/*", usersOnly(userRateLimit(options.limits)));
  app.post(
    LEAKED_KEYS,
    rateLimit(() => LEAKED_KEYS_PER_MINUTE, clientAddress),
  );
  app.post(
    STRIPE_WEBHOOK,
    rateLimit(() => STRIPE_PER_MINUTE, clientAddress),
  );
  const callerOf = (c: Context<HttpEnv>) => (isPublic(c.req) ? clientAddress(c) : c.get("caller").user_id);
  app.use(
    "/api/v1/*",
    jsonBodies(() => options.limits().body_bytes, callerOf),
  );
  app.use("/api/v1/*", idempotency(options.idempotency, options.log));
  for (const router of routers) app.route("/", router);
  return app;
}

/** The HTTP application of a node that serves no API. */
export function createWorkerHttp(options: Pick<HttpOptions, "log" | "metrics">, routers: HttpRouter[]): HttpRouter {
  const app = createBareHttp(options, () => "The API (PURSER_ROLE is worker here: ask another node)");
  for (const router of routers) app.route("/", router);
  return app;
}

/** The HTTP application at PURSER_METRICS_ADDRESS: only health and metrics. */
export function createProbesHttp(options: Pick<HttpOptions, "log" | "metrics">, probes: HttpRouter): HttpRouter {
  const app = createBareHttp(options, ({ path }) => `${path} (health and metrics are served here)`);
  app.route("/", probes);
  return app;
}

/** Adds request ids and error bodies. `missing` names the kind of resource in a 404. */
function createBareHttp(
  { log, metrics }: Pick<HttpOptions, "log" | "metrics">,
  missing: (request: HonoRequest) => string,
): HttpRouter {
  const app = createRouter();
  app.onError((error, c) => errorResponse(c as Context<HttpEnv>, error, log));
  app.notFound((c) => errorResponse(c as Context<HttpEnv>, errors.notFound(missing(c.req)), log));
  app.use(identify(metrics));
  return app;
}

/** Identifies the caller: a user, the operator, or no one on public paths. */
function guard(options: HttpOptions, clientAddress: (c: Context<HttpEnv>) => string): MiddlewareHandler<HttpEnv> {
  const wrong_keys = createAllowances({ size: WRONG_KEYS_PER_MINUTE, refill_s: 60 });
  /** Counts only wrong keys, so a stranger cannot lock the operator out. */
  const operatorOf = (c: Context<HttpEnv>) => {
    try {
      return operator(options.admin_key, c.req.header("Authorization"));
    } catch (error) {
      const { retry_after_s } = wrong_keys.take(clientAddress(c));
      throw retry_after_s === null ? error : errors.rateLimited(retry_after_s);
    }
  };
  return async (c, next) => {
    if (c.req.path.startsWith(OPERATOR)) c.set("caller", operatorOf(c));
    else if (!isPublic(c.req)) c.set("caller", await userOf(c, options));
    await next();
  };
}

function userOf(c: Context<HttpEnv>, options: HttpOptions): Promise<Caller> {
  return credentialOf(c, options).authenticate();
}

/** Prefers a key to a cookie, because a program that sends both means the key. */
function credentialOf(c: Context<HttpEnv>, options: HttpOptions) {
  const authorization = c.req.header("Authorization");
  const token = authorization === undefined ? sessionToken(c, options.address) : null;
  return token === null
    ? { name: `key ${authorization}`, authenticate: () => options.authenticate(authorization) }
    : { name: `session ${token}`, authenticate: () => options.authenticateSession(token) };
}

/** The routes of sign-in. Their answers are never cached. */
function signInContext(
  { address }: HttpOptions,
  clientAddress: (c: Context<HttpEnv>) => string,
): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    rejectOtherOrigins(c, address);
    c.set("session_token", sessionToken(c, address));
    c.set("client_address", clientAddress(c));
    c.header("Cache-Control", "no-store");
    await next();
  };
}

function isPublic({ method, path }: HonoRequest): boolean {
  return path.startsWith(SIGN_IN) || (method === "POST" && PUBLIC_POSTS.has(path));
}

/** A user's API keys share one limit and the sessions another, so a busy program does not lock its owner out. */
function userRateLimit(limits: HttpOptions["limits"]): MiddlewareHandler<HttpEnv> {
  const userId = (c: Context<HttpEnv>) => c.get("caller").user_id;
  const ofKeys = rateLimit(() => limits().requests_per_minute, userId);
  const ofSessions = rateLimit(() => limits().session_requests_per_minute, userId);
  return (c, next) => (c.get("caller").api_key_id === null ? ofSessions(c, next) : ofKeys(c, next));
}

function usersOnly(middleware: MiddlewareHandler<HttpEnv>): MiddlewareHandler<HttpEnv> {
  return (c, next) => (isPublic(c.req) || c.req.path.startsWith(OPERATOR) ? next() : middleware(c, next));
}

function identify(metrics: Metrics): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const sent = c.req.header("X-Request-Id");
    const request_id = sent !== undefined && REQUEST_ID.test(sent) ? sent : newId();
    c.set("request_id", request_id);
    const started_ms = monotonicMs();
    await next();
    const { headers } = c.res;
    headers.set("X-Request-Id", request_id);
    for (const [name, value] of FIXED_HEADERS) if (!headers.has(name)) headers.set(name, value);
    metrics.request(c.req.method, c.res.status, monotonicMs() - started_ms);
    // The answer to HEAD is sent without its body. A stream would wait for a reader without end.
    if (c.req.method === "HEAD") await c.res.body?.cancel();
  };
}

/** True if the bearer key is PURSER_ADMIN_KEY. Compares hashes, so that the time reveals nothing. */
function operator(admin_key: string | null, authorization: string | undefined): Caller {
  if (admin_key === null) throw errors.notFound("The operator API (set PURSER_ADMIN_KEY)");
  if (authorization === undefined) throw errors.missingApiKey();
  const sha256 = (text: string) => createHash("sha256").update(text).digest();
  const key = /^bearer +(\S+)$/i.exec(authorization)?.[1];
  if (key === undefined || !timingSafeEqual(sha256(key), sha256(admin_key))) throw errors.invalidApiKey();
  return { user_id: OPERATOR_ID, api_key_id: null, key_budget_tokens: null, scopes: [] };
}
