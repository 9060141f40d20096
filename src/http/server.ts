import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, HonoRequest, MiddlewareHandler } from "hono";
import type { Caller, HttpEnv } from "../contract/caller.ts";
import { createRouter, type HttpRouter } from "../contract/router.ts";
import { errors } from "../errors.ts";
import { monotonicMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";
import { jsonBodies } from "./body.ts";
import { errorResponse } from "./error-response.ts";
import type { IdempotencyStore } from "./idempotency.store.ts";
import { idempotency } from "./idempotency.ts";
import { rateLimit } from "./rate-limit.ts";

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** contract 2: what needs no key under /api/v1. */
const SIGN_IN = "/api/v1/auth/";
const PUBLIC_POSTS = new Set(["/api/v1/billing/stripe/webhook", "/api/v1/api-keys/revoke-leaked"]);
const OPERATOR = "/api/v1/admin/";
/** The operator's idempotency keys are kept under this id, which is no user's. */
const OPERATOR_ID = "00000000-0000-0000-0000-000000000000";

export interface HttpOptions {
  /** The caller behind an Authorization header; throws the 401. */
  authenticate(authorization: string | undefined): Promise<Caller>;
  /** null: the operator API answers 404. */
  admin_key: string | null;
  idempotency: IdempotencyStore;
  limits: { requests_per_minute: number; body_bytes: number };
  log: Log;
  metrics: Metrics;
}

/**
 * The HTTP application: request ids, error bodies, authentication, limits, idempotency; then the rooms' routers. Who
 * calls is settled before a body is read.
 */
export function createHttp(options: HttpOptions, routers: HttpRouter[]): HttpRouter {
  const app = createRouter();
  app.onError((error, c) => errorResponse(c as Context<HttpEnv>, error, options.log));
  app.notFound((c) =>
    errorResponse(c as Context<HttpEnv>, errors.notFound(`${c.req.method} ${c.req.path}`), options.log),
  );
  app.use(identify(options.metrics));
  app.use("/api/v1/*", guard(options));
  app.use("/api/v1/*", usersOnly(rateLimit(options.limits.requests_per_minute)));
  app.use("/api/v1/*", jsonBodies(options.limits.body_bytes));
  app.use("/api/v1/*", idempotency(options.idempotency, options.log));
  for (const router of routers) app.route("/", router);
  return app;
}

/** Settles who calls: a user, the operator, or, on the public paths, nobody. */
function guard(options: HttpOptions): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const authorization = c.req.header("Authorization");
    if (c.req.path.startsWith(OPERATOR)) c.set("caller", operator(options.admin_key, authorization));
    else if (!isPublic(c.req)) c.set("caller", await options.authenticate(authorization));
    await next();
  };
}

function isPublic({ method, path }: HonoRequest): boolean {
  return path.startsWith(SIGN_IN) || (method === "POST" && PUBLIC_POSTS.has(path));
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
    c.res.headers.set("X-Request-Id", request_id);
    metrics.request(c.req.method, c.res.status, monotonicMs() - started_ms);
  };
}

/** The operator, if the bearer key is PURSER_ADMIN_KEY. Compared by hash, so that the time taken tells nothing. */
function operator(admin_key: string | null, authorization: string | undefined): Caller {
  if (admin_key === null) throw errors.notFound("The operator API (set PURSER_ADMIN_KEY)");
  if (authorization === undefined) throw errors.missingApiKey();
  const sha256 = (text: string) => createHash("sha256").update(text).digest();
  const key = /^bearer +(\S+)$/i.exec(authorization)?.[1];
  if (key === undefined || !timingSafeEqual(sha256(key), sha256(admin_key))) throw errors.invalidApiKey();
  return { user_id: OPERATOR_ID, api_key_id: null, key_budget_tokens: null, scopes: [] };
}
