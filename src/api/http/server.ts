import type { Context, HonoRequest, MiddlewareHandler, Next } from "hono";
import { errors, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { createTokenBuckets } from "../../platform/lib/token-bucket.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import type { DatabaseState } from "../../platform/telemetry/operation-metrics.ts";
import { type Tracer, within } from "../../platform/telemetry/tracing.ts";
import type { Caller, HttpEnv, Operator } from "../contract/caller.ts";
import { endpointRoutes, type HotEndpoint } from "../contract/hot-endpoint.ts";
import { OAUTH_CLIENT_METADATA } from "../contract/oauth-secrets.ts";
import { includesRole, requiredRole } from "../contract/operators.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { jsonBodies, LEAKED_KEYS, SIGN_IN, STRIPE_WEBHOOK } from "./body.ts";
import { createBodyBudget } from "./body-budget.ts";
import { createClientAddress, rejectForwardedWrites } from "./client-address.ts";
import { compressJson } from "./compress.ts";
import { isPage } from "./console.routes.ts";
import { type Authentication, credentialOf, keyHeader } from "./credential.ts";
import { errorResponse } from "./error-response.ts";
import { createHotPath, type HotPath } from "./hot-path.ts";
import { type IdempotencyStore, OPERATOR_ID } from "./idempotency.store.ts";
import { idempotency } from "./idempotency.ts";
import { createKeylessLimit } from "./keyless-limit.ts";
import { createLiveCallers, watchCallers } from "./live-callers.ts";
import { allowOrigins, rejectOtherOrigins, sessionToken } from "./origins.ts";
import {
  type AdmitRequest,
  callerLimits,
  createRateLimit,
  type Limited,
  limitCaller,
  rateLimit,
} from "./rate-limit.ts";
import { createRequestLog, requestIdOf, requestSpan, routePattern } from "./request-log.ts";
import { commonHeaders, SECURITY_HEADERS } from "./security-headers.ts";
import { METRICS } from "./system.routes.ts";
import { createWrongAddress } from "./wrong-address.ts";

const PUBLIC_POSTS = new Set([STRIPE_WEBHOOK, LEAKED_KEYS]);
/** Requests per minute of one address, by path. An office shares one, and each console page reads its session. */
const SIGN_IN_PER_MINUTE = 300;
/** Stripe repeats rejected events. */
const STRIPE_PER_MINUTE = 1_200;
/** Enough to report keys. Each request costs a query. */
const LEAKED_KEYS_PER_MINUTE = 60;
const DOCUMENTS_PER_MINUTE = 60;
/** contract 8.4.1: wrong operator keys of one address per minute; then 429 and a line in the log. */
const WRONG_KEYS_PER_MINUTE = 20;
/** contract 2: API keys and sessions of one address per minute that do not exist; then 429. */
const UNKNOWN_KEYS_PER_MINUTE = 600;
/** Errors of credentials that do not exist. An expired or revoked key is known, and cached. */
const UNKNOWN_KEY = new Set(["invalid_api_key", "session_expired"]);
const WRONG_OPERATOR_KEY = new Set(["invalid_api_key", "expired_api_key", "revoked_api_key"]);
const READS = new Set(["GET", "HEAD", "OPTIONS"]);
/** They write nothing, so they work on a full disk too. */
const READING_POSTS = new Set(["/api/v1/messages/count_tokens", "/api/v1/safety/sanitize"]);
const OPERATOR = "/api/v1/admin/";

export interface HttpOptions extends Authentication {
  /** CIDRs whose X-Forwarded-For is trusted. */
  trusted_proxies: readonly string[];
  /** Origins whose pages may call the API with a key. */
  cors_origins: readonly string[];
  /** A restored copy, which says so in every answer. */
  is_drill: boolean;
  /** Returns the operator of a key. Throws 401; 404 when the operator API is off. */
  authenticateOperator(key: string): Promise<Operator>;
  /** Whether operators read the metrics here, and not at PURSER_METRICS_ADDRESS. */
  has_metrics: boolean;
  /** Returns the id of a user. Throws 404 for unknown users, and without `also_erased` for erased ones. */
  findUser(id: string, also_erased?: boolean): Promise<string>;
  idempotency: IdempotencyStore;
  /** A reload replaces them. */
  limits(): { requests_per_minute: number; session_requests_per_minute: number; body_bytes: number };
  /** Counts a request against the limits of its key, user and plan. */
  admitRequest: AdmitRequest;
  databaseState(): DatabaseState;
  /** Aborted at the end of a shutdown's drain, with the error for callers. */
  cut_off: AbortSignal;
  /** Paths that only people on this machine may write to. */
  local_writes: readonly string[];
  log: Log;
  metrics: Metrics;
  /** Null or absent: no traces are recorded. */
  tracer?: Tracer | null;
}

/** An application, and its way past Hono for ordinary model calls. */
export type HttpApp = HttpRouter & { hotPath?: HotPath };

/** What the public port of every node needs, also of one that serves no API. */
type PublicOptions = Pick<
  HttpOptions,
  "address" | "is_drill" | "authenticateOperator" | "has_metrics" | "trusted_proxies" | "log" | "metrics" | "tracer"
>;

/**
 * The HTTP application: request ids, error bodies, authentication, limits, idempotency, then the modules' routers. It
 * authenticates the caller before it reads a body. Ordinary requests to `endpoints` take the hot path.
 */
export function createHttp(options: HttpOptions, routers: HttpRouter[], endpoints: HotEndpoint[]): HttpApp {
  const { databaseState, cut_off, log } = options;
  const callers = createLiveCallers(cut_off);
  const shareOf = createBodyBudget();
  const limitKeys = createRateLimit(() => options.limits().requests_per_minute);
  const security_headers = commonHeaders({ is_https: options.address.secure, is_drill: options.is_drill });
  // A route that takes the method has declined: it serves another kind of client.
  const missing = (c: Context<HttpEnv>) => wrongAddress(c) ?? errors.notFound(`${c.req.method} ${c.req.path}`);
  const edge = createEdge(options);
  const { clientAddress } = edge;
  // The guard counts requests whose key is missing or wrong. Sign-in and other public requests have limits of their own.
  const has_preflights = options.cors_origins.length > 0;
  const is_guarded = ({ path, method }: HonoRequest) =>
    path.startsWith("/api/v1/") && !(has_preflights && method === "OPTIONS");
  const app = createPublicHttp({ ...options, security_headers, missing, edge, isCountedLater: is_guarded });
  const wrongAddress = createWrongAddress(app);
  app.use(compressJson());
  if (options.cors_origins.length > 0) app.use("/api/v1/*", allowOrigins(options.cors_origins));
  const byAddress = (per_minute: number) =>
    rateLimit(
      createRateLimit(() => per_minute),
      clientAddress,
    );
  for (const path of options.local_writes) app.use(path, rejectForwardedWrites());
  app.use("/api/v1/*", rejectWritesWhenFull(databaseState));
  app.use("/api/v1/*", guard(options, edge));
  app.use(
    "/api/v1/*",
    watchCallers(callers, (c) => credentialOf(c, options), cut_off),
  );
  app.use(`${SIGN_IN}*`, byAddress(SIGN_IN_PER_MINUTE));
  app.use(`${SIGN_IN}*`, signInContext(options, clientAddress));
  app.use("/api/v1/*", usersOnly(userRateLimit(options.limits, limitKeys)));
  app.use("/api/v1/*", usersOnly(callerLimits(options.admitRequest)));
  app.post(LEAKED_KEYS, byAddress(LEAKED_KEYS_PER_MINUTE));
  app.get(OAUTH_CLIENT_METADATA, byAddress(DOCUMENTS_PER_MINUTE));
  app.post(STRIPE_WEBHOOK, byAddress(STRIPE_PER_MINUTE));
  const callerOf = (c: Context<HttpEnv>) => (isPublic(c.req) ? clientAddress(c) : c.get("caller").user_id);
  app.use(
    "/api/v1/*",
    jsonBodies({
      ordinaryBytes: () => options.limits().body_bytes,
      shareOf,
      callerOf,
      checkCaller: (c) => checkCaller(c, options),
      wrongAddress,
    }),
  );
  app.use("/api/v1/*", idempotency(options.idempotency, log));
  for (const router of [...routers, ...endpoints.map(endpointRoutes)]) app.route("/", router);
  const isWritable = () => databaseState() !== "disk_full";
  const logRequest = createRequestLog(options);
  const { authenticate, admitRequest, tracer = null } = options;
  const limit = (caller: Caller) => limitCaller(caller, limitKeys, admitRequest);
  const shared = {
    authenticate,
    isWritable,
    limit,
    shareOf,
    callers,
    cut_off,
    logRequest,
    tracer,
    log,
    security_headers,
  };
  return Object.assign(app, { hotPath: createHotPath(shared, endpoints) });
}

/** The HTTP application of a node that serves no API. */
export function createWorkerHttp(options: PublicOptions, routers: HttpRouter[]): HttpRouter {
  const security_headers = commonHeaders({ is_https: options.address.secure, is_drill: options.is_drill });
  const missing = () => errors.notFound("The API (PURSER_ROLE is worker here: ask another node)");
  const edge = createEdge(options);
  const app = createPublicHttp({ ...options, security_headers, missing, edge, isCountedLater: () => false });
  for (const router of routers) app.route("/", router);
  return app;
}

/** The HTTP application at PURSER_METRICS_ADDRESS: only health and metrics. */
export function createProbesHttp(options: Pick<HttpOptions, "log" | "metrics">, probes: HttpRouter[]): HttpRouter {
  const missing = ({ req }: Context<HttpEnv>) => errors.notFound(`${req.path} (health and metrics are served here)`);
  const app = createBareHttp({ ...options, security_headers: SECURITY_HEADERS, missing });
  for (const router of probes) app.route("/", router);
  return app;
}

/** What the public port needs before it knows the caller. */
interface Edge {
  clientAddress(c: Context<HttpEnv>): string;
  keyless: ReturnType<typeof createKeylessLimit>;
  /** Returns the operator of a request, with their role. Throws 401, 403, 404 or 429. */
  findOperator(c: Context<HttpEnv>): Promise<Operator>;
}

function createEdge(options: PublicOptions): Edge {
  const clientAddress = createClientAddress(options.trusted_proxies);
  const keyless = createKeylessLimit(clientAddress);
  return { clientAddress, keyless, findOperator: operatorFinder(options, { clientAddress, keyless }) };
}

/** Limits requests without a key, and lets only operators read the metrics. */
function createPublicHttp(
  options: BareOptions & { has_metrics: boolean; edge: Edge; isCountedLater(request: HonoRequest): boolean },
): HttpRouter {
  const { has_metrics, isCountedLater } = options;
  const { keyless, findOperator } = options.edge;
  const is_for_operators = ({ path, method }: HonoRequest) =>
    has_metrics && path === METRICS && (method === "GET" || method === "HEAD");
  const limit = keyless.before((request) => is_for_operators(request) || isCountedLater(request));
  const app = createBareHttp({ ...options, before: [limit] });
  if (!has_metrics) return app;
  app.get(METRICS, async (c, next) => {
    await findOperator(c);
    await next();
  });
  return app;
}

interface BareOptions extends Pick<HttpOptions, "log" | "metrics" | "tracer"> {
  security_headers: Readonly<Record<string, string>>;
  /** The error of an address without a route. */
  missing(c: Context<HttpEnv>): PurserError;
  /** What comes before everything but the request's id. */
  before?: MiddlewareHandler<HttpEnv>[];
}

/** Adds request ids and error bodies. */
function createBareHttp({
  log,
  metrics,
  tracer = null,
  security_headers,
  missing,
  before = [],
}: BareOptions): HttpRouter {
  const app = createRouter();
  app.onError((error, c) => errorResponse(c as Context<HttpEnv>, error, log));
  app.notFound((c) => errorResponse(c as Context<HttpEnv>, missing(c as Context<HttpEnv>), log));
  app.use(identify({ log, metrics, tracer, fixed_headers: Object.entries(security_headers) }));
  for (const middleware of before) app.use(middleware);
  app.use(rejectNul);
  return app;
}

/** contract 2: the database stores no NUL, so no address with one exists. A browser gets the console's page. */
const rejectNul: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const [path = ""] = c.req.url.split("?", 1);
  if (path.includes("%00") && !isPage(c)) throw errors.nulInPath();
  await next();
};

/** Rejects writes at once while the database's disk is full. Otherwise each would wait for its retries. */
function rejectWritesWhenFull(databaseState: HttpOptions["databaseState"]): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const may_write = !READS.has(c.req.method) && !READING_POSTS.has(c.req.path);
    if (databaseState() === "disk_full" && may_write) throw errors.diskFull();
    await next();
  };
}

/** Counts a rejected key in `buckets`, so a stranger cannot lock out the operator or a user. Returns the error to answer. */
function limitedBy(buckets: ReturnType<typeof createTokenBuckets>, client_address: string, error: PurserError) {
  const { retry_after_s } = buckets.take(client_address);
  return retry_after_s === null ? error : errors.rateLimited(retry_after_s);
}

function operatorFinder(
  { authenticateOperator, log }: Pick<HttpOptions, "authenticateOperator" | "log">,
  { clientAddress, keyless }: Pick<Edge, "clientAddress" | "keyless">,
) {
  const wrong_keys = createTokenBuckets({ size: WRONG_KEYS_PER_MINUTE, refill_s: 60 });
  const logged_addresses = createTokenBuckets({ size: 1, refill_s: 60 });
  return async (c: Context<HttpEnv>): Promise<Operator> => {
    const found = await operator(authenticateOperator, keyHeader(c)).catch((error: unknown) => {
      if (!(error instanceof PurserError)) throw error;
      c.get("facts").is_keyless = true;
      if (!WRONG_OPERATOR_KEY.has(error.code)) throw keyless.count(c, error);
      const client_address = clientAddress(c);
      const answer = limitedBy(wrong_keys, client_address, error);
      if (answer !== error && logged_addresses.take(client_address).retry_after_s === null)
        log.warn({ client_address }, "wrong operator keys from this address are answered 429");
      throw answer;
    });
    requireRole(c, found);
    return found;
  };
}

/** Identifies the caller: a user, the operator, or no one on public paths. */
function guard(options: HttpOptions, { clientAddress, keyless, findOperator }: Edge): MiddlewareHandler<HttpEnv> {
  const unknown_keys = createTokenBuckets({ size: UNKNOWN_KEYS_PER_MINUTE, refill_s: 60 });
  const userOf = (c: Context<HttpEnv>): Promise<Caller> =>
    credentialOf(c, options)
      .authenticate()
      .catch((error: unknown) => {
        if (!(error instanceof PurserError)) throw error;
        c.get("facts").is_keyless = true;
        throw UNKNOWN_KEY.has(error.code) ? limitedBy(unknown_keys, clientAddress(c), error) : keyless.count(c, error);
      });
  return async (c, next) => {
    if (c.req.path.startsWith(OPERATOR)) {
      const found = await findOperator(c);
      c.set("operator", found);
      c.set("findUser", options.findUser);
      c.set("caller", { user_id: found.id ?? OPERATOR_ID, api_key_id: null, key_budget_tokens: null, scopes: [] });
    } else if (!isPublic(c.req)) c.set("caller", await userOf(c));
    await next();
  };
}

/** Throws if the caller has lost access since the guard. It reads the guard's caches, so it costs no query. */
async function checkCaller(c: Context<HttpEnv>, options: HttpOptions): Promise<void> {
  if (isPublic(c.req)) return;
  if (c.req.path.startsWith(OPERATOR)) requireRole(c, await operator(options.authenticateOperator, keyHeader(c)));
  else await credentialOf(c, options).authenticate();
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
  const is_document = method === "GET" && path === OAUTH_CLIENT_METADATA;
  return path.startsWith(SIGN_IN) || is_document || (method === "POST" && PUBLIC_POSTS.has(path));
}

/** A user's API keys share one limit and the sessions another, so a busy program does not lock its owner out. */
function userRateLimit(
  limits: HttpOptions["limits"],
  limitKeys: (user_id: string) => Limited,
): MiddlewareHandler<HttpEnv> {
  const userId = (c: Context<HttpEnv>) => c.get("caller").user_id;
  const ofKeys = rateLimit(limitKeys, userId);
  const ofSessions = rateLimit(
    createRateLimit(() => limits().session_requests_per_minute),
    userId,
  );
  return (c, next) => (c.get("caller").api_key_id === null ? ofSessions(c, next) : ofKeys(c, next));
}

function usersOnly(middleware: MiddlewareHandler<HttpEnv>): MiddlewareHandler<HttpEnv> {
  return (c, next) => (isPublic(c.req) || c.req.path.startsWith(OPERATOR) ? next() : middleware(c, next));
}

function identify(options: {
  log: Log;
  metrics: Metrics;
  tracer: Tracer | null;
  fixed_headers: readonly [string, string][];
}): MiddlewareHandler<HttpEnv> {
  const logRequest = createRequestLog(options);
  return (c, next) => {
    const span = requestSpan(options.tracer, c.req.path, c.req.header("traceparent"));
    return within(span, () => answer(c, next));
  };

  async function answer(c: Context<HttpEnv>, next: Next): Promise<void> {
    const request_id = requestIdOf(c.req.header("X-Request-Id"));
    const facts = {};
    c.set("request_id", request_id);
    c.set("facts", facts);
    const started_ms = monotonicMs();
    await next();
    const { headers } = c.res;
    headers.set("X-Request-Id", request_id);
    for (const [name, value] of options.fixed_headers) if (!headers.has(name)) headers.set(name, value);
    const { method } = c.req;
    const { status } = c.res;
    logRequest({ request_id, caller: c.var.caller, method, route: routePattern(c), status, facts, started_ms });
    // The answer to HEAD is sent without its body. A stream would wait for a reader without end.
    if (c.req.method === "HEAD") await c.res.body?.cancel();
  }
}

async function operator(authenticate: HttpOptions["authenticateOperator"], authorization: string | undefined) {
  // Without a key it says whether the operator API is on.
  const key = authorization === undefined ? "" : /^bearer +(\S+)$/i.exec(authorization)?.[1];
  const found = authenticate(key ?? "");
  if (authorization !== undefined) return found;
  return found.catch((error: unknown) => {
    throw error instanceof PurserError && error.code === "invalid_api_key" ? errors.missingApiKey() : error;
  });
}

/** contract 8.1.1: throws 403 when the operator's role does not include the request. */
function requireRole(c: Context<HttpEnv>, { role }: Operator): void {
  const required = requiredRole(c.req.method, c.req.path);
  if (!includesRole(role, required)) throw errors.insufficientRole(role, required);
}
