import type { Context } from "hono";
import { routePath } from "hono/route";
import type { Caller, HttpEnv, RequestFacts } from "../contract/caller.ts";
import { monotonicMs } from "../platform/clock.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";

/** Their lines are of the level debug: monitors call them every few seconds. */
const PROBES = new Set(["/livez", "/readyz", "/metrics"]);
/** W3C Trace Context: the trace id of a `traceparent` header. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The caller's own request id, or a new one. */
export function requestIdOf(sent: string | undefined): string {
  return sent !== undefined && REQUEST_ID.test(sent) ? sent : newId();
}

/** `/api/v1/agents/:id{.+}` as the reference shows it: `/api/v1/agents/{id}`. */
export function routeOf(c: Context<HttpEnv>): string {
  return routePath(c).replace(/:(\w+)(\{[^}]*\})?/g, "{$1}");
}

/** The trace that the caller's request belongs to, from its `traceparent` header. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent === undefined ? undefined : TRACEPARENT.exec(traceparent)?.[1];
}

/** An answered request. */
export interface LoggedRequest {
  request_id: string;
  traceparent: string | undefined;
  caller: Caller | undefined;
  method: string;
  route: string;
  status: number;
  facts: RequestFacts;
  started_ms: number;
}

/**
 * Writes one line for each request (contract 1.11), for a stream at its end. The fields are ids, names on offer and
 * figures, and no text of the caller.
 */
export function createRequestLog({ log, metrics }: { log: Log; metrics: Metrics }) {
  const write = ({ request_id, traceparent, caller, facts, method, route, status, started_ms }: LoggedRequest) => {
    const answered = facts.answered?.() ?? null;
    const line = {
      request_id,
      trace_id: traceIdOf(traceparent),
      user_id: caller?.user_id,
      method,
      route,
      status,
      ms: Math.round(monotonicMs() - started_ms),
      model: answered?.model,
      provider: answered?.provider,
      tokens: answered?.tokens,
      cost_tokens: answered?.cost_tokens,
      code: facts.code,
      provider_status: facts.provider_error?.status,
      provider_code: facts.provider_error?.code,
    };
    if (PROBES.has(route)) log.debug(line, "request");
    else log.info(line, "request");
  };
  return (request: LoggedRequest): void => {
    const { method, route, status, facts } = request;
    metrics.request({ method, route, status }, monotonicMs() - request.started_ms);
    if (facts.code !== undefined) metrics.httpError(facts.code);
    if (facts.ended === undefined) write(request);
    else void facts.ended.then(() => write(request));
  };
}
