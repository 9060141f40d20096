import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { describeUnexpected, type Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import { type Tracer, within } from "../../platform/telemetry/tracing.ts";
import type { Answer, Endpoint } from "../contract/endpoint.ts";
import { errorAnswer, isForAnthropic } from "./error-response.ts";
import { httpErrors } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import type { FailedCall } from "./failed-calls.ts";
import { createRequestLog, requestIdOf, requestSpan } from "./request-log.ts";
import { writeAnswer } from "./write-answer.ts";

/** Addresses as long as Node reads them. */
const MAX_PARAM_CHARACTERS = 16_384;

/** The service's HTTP server, not yet listening. */
export type HttpApp = FastifyInstance;

export interface ServerOptions {
  log: Log;
  metrics: Metrics;
  /** Null or absent: no traces are recorded. */
  tracer?: Tracer | null;
  /** Called with each request of a known caller to a model API that failed, at its end. */
  onFailedCall?(call: FailedCall): void;
}

interface Served {
  options: ServerOptions;
  endpoints: readonly Endpoint[];
  /** Of every answer. */
  security_headers: Readonly<Record<string, string>>;
}

/** The answer to a request. Throws the error to answer with. */
type Answering = (exchange: Exchange) => Promise<Answer> | Answer;

/** Finds the endpoint of each request, writes what `answerTo` answers, and logs the request. */
export function serveEndpoints({ options, endpoints, security_headers }: Served, answerTo: Answering): HttpApp {
  const { log, tracer = null } = options;
  const logRequest = createRequestLog(options);

  async function serve(
    endpoint: Endpoint | null,
    request: FastifyRequest,
    reply: FastifyReply,
    answering = answerTo,
  ): Promise<void> {
    reply.hijack();
    const exchange = beginExchange(endpoint, security_headers, request, reply.raw);
    const { method, route, request_id, facts, started_ms, header } = exchange;
    await within(requestSpan(tracer, route, header("traceparent")), async () => {
      const answer = await answerOrError(exchange, answering, log);
      const status = await writeAnswer(exchange, answer);
      const logged = endpoint === null ? routeOfUnknown(route) : route;
      logRequest({ request_id, user_id: facts.user_id, method, route: logged, status, facts, started_ms });
    }).catch((error: Error) => {
      log.error(describeUnexpected(error), "an answer could not be written");
      reply.raw.destroy();
    });
  }
  const malformed = () => {
    throw httpErrors.malformedRequest();
  };
  const unsupported = () => {
    throw httpErrors.unsupportedMediaType();
  };

  const app = fastify({
    routerOptions: { maxParamLength: MAX_PARAM_CHARACTERS },
    frameworkErrors: (_error, request, reply) => void serve(null, request as FastifyRequest, reply, malformed),
  });
  // Bodies are read after the caller is admitted (body.ts).
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  for (const endpoint of endpoints) {
    app.route({
      method: endpoint.route.method.toUpperCase() as "GET",
      url: fastifyPath(endpoint.route.path),
      handler: (request, reply) => serve(hasEmptyParam(request) ? null : endpoint, request, reply),
    });
  }
  app.setNotFoundHandler((request, reply) => serve(null, request, reply));
  // Fastify itself throws only for a Content-Type that it cannot read.
  app.setErrorHandler((_error, request, reply) => serve(null, request, reply, unsupported));
  return app;
}

async function answerOrError(exchange: Exchange, answering: Answering, log: Log): Promise<Answer> {
  try {
    // HTTP/1.0 has no Host, and health checks of load balancers use it.
    const { httpVersion, headers } = exchange.incoming;
    if (httpVersion !== "1.0" && headers.host === undefined) throw httpErrors.malformedRequest();
    return await answering(exchange);
  } catch (thrown) {
    return errorAnswer(thrown, exchange, log);
  }
}

/** `/agents/{id}` as Fastify writes it: `/agents/:id`; `{model*}`, the rest of the path, is `*`. */
function fastifyPath(path: string): string {
  return path.replace(/\{\w+\*\}$/, "*").replaceAll(/\{(\w+)\}/g, ":$1");
}

/** `/agents/` is the address of no agent. */
function hasEmptyParam({ params }: FastifyRequest): boolean {
  return Object.values(params as Record<string, string>).includes("");
}

/** The values in the path by their names in the route. Fastify names the rest of a path `*`. */
function namedParams(endpoint: Endpoint | null, { params }: FastifyRequest): Record<string, string> {
  if (endpoint === null) return {};
  const { "*": rest, ...named } = params as Record<string, string>;
  const [, name] = /\{(\w+)\*\}$/.exec(endpoint.route.path) ?? [];
  return rest === undefined || name === undefined ? named : { ...named, [name]: rest };
}

/** Unknown addresses are one route, so that callers cannot make labels of metrics. */
function routeOfUnknown(path: string): string {
  return path.startsWith("/api/v1/") ? "/api/v1/*" : "*";
}

function beginExchange(
  endpoint: Endpoint | null,
  security_headers: Readonly<Record<string, string>>,
  request: FastifyRequest,
  outgoing: Exchange["outgoing"],
): Exchange {
  const { method = "GET", url = "/", headers } = request.raw;
  const [path = "/"] = url.split("?", 1);
  const request_id = requestIdOf(headers["x-request-id"] as string | undefined);
  // A write to a connection that has just ended must not end the process.
  outgoing.on("error", () => {});
  const header = (name: string) => headers[name] as string | undefined;
  const route = endpoint?.route.path ?? path;
  return {
    incoming: request.raw,
    outgoing,
    endpoint,
    method,
    path,
    route,
    params: namedParams(endpoint, request),
    query: request.query,
    request_id,
    facts: {},
    started_ms: monotonicMs(),
    head: {
      ...security_headers,
      "X-Request-Id": request_id,
      ...(isForAnthropic(route, header("anthropic-version")) ? { "Request-Id": request_id } : {}),
    },
    header,
  };
}
