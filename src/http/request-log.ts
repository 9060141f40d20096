import type { Context } from "hono";
import { routePath } from "hono/route";
import type { HttpEnv } from "../contract/caller.ts";
import { monotonicMs } from "../platform/clock.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";

/** Their lines are of the level debug: monitors call them every few seconds. */
const PROBES = new Set(["/livez", "/readyz", "/metrics"]);
/** W3C Trace Context: the trace id of a `traceparent` header. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** `/api/v1/agents/:id{.+}` as the reference shows it: `/api/v1/agents/{id}`. */
function routeOf(c: Context<HttpEnv>): string {
  return routePath(c).replace(/:(\w+)(\{[^}]*\})?/g, "{$1}");
}

/** The trace that the caller's request belongs to. */
export function traceIdOf(c: Context<HttpEnv>): string | undefined {
  return TRACEPARENT.exec(c.req.header("traceparent") ?? "")?.[1];
}

/**
 * Writes one line for each request (contract 1.11), for a stream at its end. The fields are ids, names on offer and
 * figures, and no text of the caller.
 */
export function createRequestLog({ log, metrics }: { log: Log; metrics: Metrics }) {
  const write = (c: Context<HttpEnv>, { route, started_ms }: { route: string; started_ms: number }) => {
    const { caller, request_id, facts } = c.var;
    const answered = facts.answered?.() ?? null;
    const line = {
      request_id,
      trace_id: traceIdOf(c),
      user_id: caller?.user_id,
      method: c.req.method,
      route,
      status: c.res.status,
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
  return (c: Context<HttpEnv>, started_ms: number): void => {
    const route = routeOf(c);
    const { method } = c.req;
    metrics.request({ method, route, status: c.res.status }, monotonicMs() - started_ms);
    const { ended, code } = c.get("facts");
    if (code !== undefined) metrics.httpError(code);
    if (ended === undefined) write(c, { route, started_ms });
    else void ended.then(() => write(c, { route, started_ms }));
  };
}
