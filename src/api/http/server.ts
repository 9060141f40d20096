import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import { describeUnexpected, type Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import type { DatabaseState } from "../../platform/telemetry/operation-metrics.ts";
import { type Tracer, within } from "../../platform/telemetry/tracing.ts";
import { type Caller, type LiveCaller, SCOPES } from "../contract/caller.ts";
import type { Answer, Endpoint, RequestContext, SentRequest } from "../contract/endpoint.ts";
import { validateRequest } from "../contract/validation.ts";
import { readBody, SIGN_IN } from "./body.ts";
import { createBodyBudget } from "./body-budget.ts";
import { rejectForwardedWrite } from "./client-address.ts";
import type { ConsolePages } from "./console-pages.ts";
import { credentialOf } from "./credential.ts";
import { errorAnswer } from "./error-response.ts";
import { httpErrors } from "./errors.ts";
import { type Exchange, hangUpOf, isPage } from "./exchange.ts";
import { type Admitted, createEdge, createGuard, type Edge, type EdgeOptions, type GuardOptions } from "./guard.ts";
import type { IdempotencyStore } from "./idempotency.store.ts";
import { createIdempotency } from "./idempotency.ts";
import { createLiveCallers, watchCaller } from "./live-callers.ts";
import { allowOrigins, rejectOtherOrigins, sessionToken } from "./origins.ts";
import { createRequestLog, requestIdOf, requestSpan } from "./request-log.ts";
import { commonHeaders, SECURITY_HEADERS } from "./security-headers.ts";
import { METRICS } from "./system.routes.ts";
import { writeAnswer } from "./write-answer.ts";
import { createWrongAddress } from "./wrong-address.ts";

const API = "/api/v1/";
/** Addresses as long as Node reads them. */
const MAX_PARAM_CHARACTERS = 16_384;
const READS = new Set(["GET", "HEAD", "OPTIONS"]);
/** They write nothing, so they work on a full disk too. */
const READING_POSTS = new Set([
  "/api/v1/messages/count_tokens",
  "/api/v1/responses/input_tokens",
  "/api/v1/safety/sanitize",
]);

interface ServerOptions {
  log: Log;
  metrics: Metrics;
  /** Null or absent: no traces are recorded. */
  tracer?: Tracer | null;
}

/** What the public port of every node needs, also of one that serves no API. */
interface PublicOptions extends ServerOptions, EdgeOptions {
  address: PublicAddress;
  /** A restored copy, which says so in every answer. */
  is_drill: boolean;
  /** Whether operators read the metrics here, and not at PURSER_METRICS_ADDRESS. */
  has_metrics: boolean;
}

export interface HttpOptions extends PublicOptions, GuardOptions {
  address: PublicAddress;
  /** Origins whose pages may call the API with a key. */
  cors_origins: readonly string[];
  /** Returns the id of a user. Throws 404 for unknown users, and without `also_erased` for erased ones. */
  findUser(id: string, also_erased?: boolean): Promise<string>;
  idempotency: IdempotencyStore;
  /** A reload replaces them. */
  limits(): {
    requests_per_minute: number;
    session_requests_per_minute: number;
    body_bytes: number;
    model_body_bytes: number;
  };
  databaseState(): DatabaseState;
  /** Aborted at the end of a shutdown's drain, with the error for callers. */
  cut_off: AbortSignal;
  /** The beginnings of paths that only people on this machine may write to. */
  local_writes: readonly string[];
}

/** The service's HTTP server, not yet listening. */
export type HttpApp = FastifyInstance;

/** Answers one request, or throws the error to answer with. */
type Respond = (endpoint: Endpoint | null, exchange: Exchange, sent: SentParts) => Promise<Answer> | Answer;
/** The parts of a request as the router read them. */
type SentParts = Pick<FastifyRequest, "params" | "query">;

/**
 * The API, the reference and the console. For each request: who is calling, how often, the body, the same request
 * before, then the endpoint. The caller is authenticated before the body is read.
 */
export function createHttp(options: HttpOptions, endpoints: readonly Endpoint[], pages: ConsolePages): HttpApp {
  const { log, databaseState, cut_off } = options;
  const edge = createEdge(options);
  const { clientAddress } = edge;
  const guard = createGuard(options, edge);
  const callers = createLiveCallers(cut_off);
  const shareOf = createBodyBudget();
  const answerOnce = createIdempotency({ store: options.idempotency, log });
  const wrongAddress = createWrongAddress(endpoints);

  async function respondToCall(endpoint: Endpoint | null, exchange: Exchange, sent: SentParts): Promise<Answer> {
    const { incoming, method, route } = exchange;
    if (options.local_writes.some((beginning) => route.startsWith(beginning))) rejectForwardedWrite(exchange);
    const may_write = !READS.has(method) && !READING_POSTS.has(route);
    if (may_write && databaseState() === "disk_full") throw httpErrors.diskFull();
    const is_whole = incoming.complete;
    const admitted = await guard.admit(exchange);
    if (endpoint === null) throw wrongAddress(exchange);
    const address = admitted.caller === null ? clientAddress(exchange) : null;
    const share = shareOf(admitted.caller?.user_id ?? address ?? "");
    const watched: LiveCaller[] = [];
    const watchThisCaller = () => {
      const user_id = admitted.caller?.user_id ?? "";
      const live = watchCaller(callers, { user_id, credential: credentialOf(exchange, options) }, exchange.facts);
      watched.push(live);
      return live;
    };
    try {
      const { body_bytes: ordinary, model_body_bytes: model } = options.limits();
      const body = await readBody(exchange, { ordinary, model }, share);
      // The caller may have lost access while the body arrived.
      if (!is_whole) await guard.check(exchange);
      const context = contextOf(exchange, { admitted, client_address: address, options, watchCaller: watchThisCaller });
      const params = namedParams(endpoint, sent);
      const request = { ...context, params, sent_body: body.text, sent_value: body.value };
      const answer = await answerOnce(
        request,
        () => answerValidated(endpoint, request, { query: sent.query, headers: incoming.headers }),
        (thrown) => errorAnswer(thrown, exchange, log),
      );
      // The watch of a stream ends with the stream.
      if (answer.kind !== "events") for (const live of watched) live.leave();
      return answer;
    } catch (error) {
      for (const live of watched) live.leave();
      throw error;
    } finally {
      share.release();
    }
  }

  /** Calls the endpoint, if the caller may and the request is valid. */
  async function answerValidated(
    endpoint: Endpoint,
    request: SentRequest,
    { query, headers }: { query: unknown; headers: unknown },
  ): Promise<Answer> {
    const { route } = endpoint;
    requireScope(endpoint, request.caller);
    const { params, sent_value: body } = request;
    const caller =
      route.for_user_in_path === undefined ? request.caller : await userInPath(params, route.for_user_in_path);
    if (caller !== null) request.facts.user_id = caller.user_id;
    const valid = validateRequest(route, { params, query, headers, body });
    return endpoint.answer({ ...request, caller, ...valid } as never);
  }

  /** The user in the path of an operator's route, with every right. */
  async function userInPath({ id = "" }: Record<string, string>, whom: "not_erased" | "also_erased"): Promise<Caller> {
    const user_id = await options.findUser(id, whom === "also_erased");
    return { user_id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES };
  }

  async function respond(endpoint: Endpoint | null, exchange: Exchange, sent: SentParts): Promise<Answer> {
    if (allowOrigins(options.cors_origins, exchange)) return { kind: "empty", status: 204 };
    if (exchange.route.startsWith(API)) return respondToCall(endpoint, exchange, sent);
    if (endpoint !== null) return endpoint.answer(openContext(exchange) as never);
    const page = pages(exchange);
    if (page === null) throw wrongAddress(exchange);
    return page;
  }

  // The guard counts requests whose key is missing or wrong. Sign-in and other public requests have limits of their own.
  const has_preflights = options.cors_origins.length > 0;
  const isGuarded = ({ route, method }: Exchange) => route.startsWith(API) && !(has_preflights && method === "OPTIONS");
  return createPublicHttp({ options, edge, endpoints, isGuarded }, respond);
}

/** The server of a node that serves no API. */
export function createWorkerHttp(options: PublicOptions, endpoints: readonly Endpoint[]): HttpApp {
  const edge = createEdge(options);
  return createPublicHttp({ options, edge, endpoints, isGuarded: () => false }, (endpoint, exchange) => {
    if (endpoint === null) throw errors.notFound("The API (PURSER_ROLE is worker here: ask another node)");
    return endpoint.answer(openContext(exchange) as never);
  });
}

/** The server at PURSER_METRICS_ADDRESS: only health and metrics. */
export function createProbesHttp(options: ServerOptions, endpoints: readonly Endpoint[]): HttpApp {
  return createBareHttp({ options, endpoints, security_headers: SECURITY_HEADERS }, (endpoint, exchange) => {
    if (endpoint === null) throw errors.notFound(`${exchange.path} (health and metrics are served here)`);
    return endpoint.answer(openContext(exchange) as never);
  });
}

/** Limits requests without a key, and lets only operators read the metrics. */
function createPublicHttp(
  {
    options,
    edge,
    endpoints,
    isGuarded,
  }: {
    options: PublicOptions;
    edge: Edge;
    endpoints: readonly Endpoint[];
    isGuarded(exchange: Exchange): boolean;
  },
  respond: Respond,
): HttpApp {
  const security_headers = commonHeaders({ is_https: options.address.secure, is_drill: options.is_drill });
  const isForOperators = ({ route, method }: Exchange) =>
    options.has_metrics && route === METRICS && (method === "GET" || method === "HEAD");
  return createBareHttp({ options, endpoints, security_headers }, async (endpoint, exchange, sent) => {
    if (isForOperators(exchange)) await edge.findOperator(exchange);
    else if (!isGuarded(exchange)) edge.keyless.take(exchange);
    // contract 2: the database stores no NUL, so no address with one exists. A browser gets the console's page.
    if (exchange.path.includes("%00") && !isPage(exchange)) throw httpErrors.nulInPath();
    return respond(endpoint, exchange, sent);
  });
}

interface BareServer {
  options: ServerOptions;
  endpoints: readonly Endpoint[];
  /** Of every answer. */
  security_headers: Readonly<Record<string, string>>;
}

/** Routes requests to `respond`, writes its answer or its error, and logs the request. */
function createBareHttp({ options, endpoints, security_headers }: BareServer, respond: Respond): HttpApp {
  const { log, tracer = null } = options;
  const logRequest = createRequestLog(options);
  const app = fastify({
    routerOptions: { maxParamLength: MAX_PARAM_CHARACTERS },
    frameworkErrors: (_error, request, reply) =>
      void serve(null, request, reply, () => {
        throw httpErrors.malformedRequest();
      }),
  });
  // Bodies are read after the caller is admitted (body.ts).
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));

  async function serve(
    endpoint: Endpoint | null,
    request: Pick<FastifyRequest, "raw" | "params" | "query">,
    reply: FastifyReply,
    answerTo: Respond = respond,
  ): Promise<void> {
    reply.hijack();
    const exchange = beginExchange(endpoint, security_headers, request.raw, reply.raw);
    const { method, route, request_id, facts, started_ms, header } = exchange;
    const span = requestSpan(tracer, route, header("traceparent"));
    await within(span, async () => {
      let answer: Answer;
      try {
        requireHost(request.raw);
        answer = await answerTo(endpoint, exchange, request);
      } catch (thrown) {
        answer = errorAnswer(thrown, exchange, log);
      }
      const status = await writeAnswer(exchange, answer);
      const logged = endpoint === null ? routeOfUnknown(route) : route;
      logRequest({ request_id, user_id: facts.user_id, method, route: logged, status, facts, started_ms });
    }).catch((error: Error) => {
      log.error(describeUnexpected(error), "an answer could not be written");
      reply.raw.destroy();
    });
  }

  for (const endpoint of endpoints) {
    app.route({
      method: endpoint.route.method.toUpperCase() as "GET",
      url: fastifyPath(endpoint.route.path),
      handler: (request, reply) => serve(hasEmptyParam(request) ? null : endpoint, request, reply),
    });
  }
  app.setNotFoundHandler((request, reply) => serve(null, request, reply));
  // Fastify itself throws only for a Content-Type that it cannot read.
  app.setErrorHandler((_error, request, reply) =>
    serve(null, request, reply, () => {
      throw httpErrors.unsupportedMediaType();
    }),
  );
  return app;
}

/** `/agents/` is the address of no agent. */
function hasEmptyParam({ params }: Pick<FastifyRequest, "params">): boolean {
  return Object.values(params as Record<string, string>).includes("");
}

/** `/agents/{id}` as Fastify writes it: `/agents/:id`; `{model*}`, the rest of the path, is `*`. */
function fastifyPath(path: string): string {
  return path.replace(/\{\w+\*\}$/, "*").replaceAll(/\{(\w+)\}/g, ":$1");
}

/** Fastify names the rest of a path `*`. */
function namedParams({ route }: Endpoint, { params }: SentParts): Record<string, string> {
  const { "*": rest, ...named } = params as Record<string, string>;
  const [, name] = /\{(\w+)\*\}$/.exec(route.path) ?? [];
  return rest === undefined || name === undefined ? named : { ...named, [name]: rest };
}

/** Unknown addresses are one route, so that callers cannot make labels of metrics. */
function routeOfUnknown(path: string): string {
  return path.startsWith(API) ? "/api/v1/*" : "*";
}

function beginExchange(
  endpoint: Endpoint | null,
  security_headers: Readonly<Record<string, string>>,
  incoming: Exchange["incoming"],
  outgoing: Exchange["outgoing"],
): Exchange {
  const { method = "GET", url = "/", headers } = incoming;
  const [path = "/"] = url.split("?", 1);
  const request_id = requestIdOf(headers["x-request-id"] as string | undefined);
  // A write to a connection that has just ended must not end the process.
  outgoing.on("error", () => {});
  return {
    incoming,
    outgoing,
    method,
    path,
    route: endpoint?.route.path ?? path,
    request_id,
    facts: {},
    started_ms: monotonicMs(),
    head: { ...security_headers, "X-Request-Id": request_id },
    header: (name) => headers[name] as string | undefined,
  };
}

/** Throws for a request of HTTP/1.1 without a host. HTTP/1.0 has none, and health checks of load balancers use it. */
function requireHost({ httpVersion, headers }: Exchange["incoming"]): void {
  if (httpVersion !== "1.0" && headers.host === undefined) throw httpErrors.malformedRequest();
}

/** The context of a request that needs no caller. */
function openContext({ method, path, route, header, request_id, facts }: Exchange) {
  return { method, path, route, header, request_id, facts };
}

function contextOf(
  exchange: Exchange,
  deps: {
    admitted: Admitted;
    client_address: string | null;
    options: HttpOptions;
    watchCaller(): LiveCaller;
  },
): Omit<RequestContext, "sent_body" | "sent_value"> {
  const { admitted, options, client_address } = deps;
  const { head, route, outgoing } = exchange;
  const is_sign_in = route.startsWith(SIGN_IN);
  if (is_sign_in) {
    rejectOtherOrigins(exchange, options.address);
    head["Cache-Control"] = "no-store";
  }
  return {
    ...openContext(exchange),
    caller: admitted.caller as Caller,
    operator: admitted.operator as RequestContext["operator"],
    cut_off: options.cut_off,
    watchCaller: deps.watchCaller,
    hungUp: () => hangUpOf(outgoing),
    session_token: is_sign_in ? sessionToken(exchange, options.address) : null,
    client_address: client_address ?? "",
    findUser: options.findUser,
    keeping: {},
  };
}

function requireScope({ route }: Endpoint, caller: Caller | null): void {
  const scope = route["x-required-scope"] as Caller["scopes"][number] | undefined;
  if (scope === undefined || caller === null) return;
  if (!caller.scopes.includes(scope)) throw httpErrors.insufficientScope(scope);
}
