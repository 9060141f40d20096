import type { Context } from "hono";
import { routePath } from "hono/route";
import type { HttpEnv } from "../contract/caller.ts";
import { monotonicMs } from "../platform/clock.ts";
import type { Log } from "../platform/log.ts";
import type { Metrics } from "../platform/metrics.ts";
import { activeSpan, parentOf, type Span, type Tracer, unrecorded } from "../platform/tracing.ts";

/** Their lines are of the level debug: monitors call them every few seconds. */
const PROBES = new Set(["/livez", "/readyz", "/metrics"]);

/** `/api/v1/agents/:id{.+}` as the reference shows it: `/api/v1/agents/{id}`. */
function routeOf(c: Context<HttpEnv>): string {
  return routePath(c).replace(/:(\w+)(\{[^}]*\})?/g, "{$1}");
}

const SPAN_NAME = "request";

/** The span of a request to the API; null if it belongs to no trace. A node without a tracer logs the caller's trace id. */
export function requestSpan(c: Context<HttpEnv>, tracer: Tracer | null): Span | null {
  if (!c.req.path.startsWith("/api/")) return null;
  const traceparent = c.req.header("traceparent");
  if (tracer !== null) return tracer.begin({ name: SPAN_NAME, kind: "server", attributes: {} }, { traceparent });
  const parent = parentOf(traceparent);
  return parent === null ? null : unrecorded(parent.trace_id);
}

/** Paths contain names that users chose, so the span has the route only. */
function endSpan(c: Context<HttpEnv>, { route, user_id }: { route: string; user_id: string | undefined }): void {
  const span = activeSpan();
  if (span === null || !span.is_recorded) return;
  const { request_id, facts } = c.var;
  span.rename(`${c.req.method} ${route}`);
  span.set({
    "http.request.method": c.req.method,
    "http.route": route,
    "http.response.status_code": c.res.status,
    "user.id": user_id,
    "purser.request_id": request_id,
  });
  const is_failure = c.res.status >= 500 || (c.res.status < 400 && facts.code !== undefined);
  span.end(is_failure ? (facts.code ?? String(c.res.status)) : undefined);
}

/**
 * Writes one line for each request (contract 1.11), for a stream at its end. The fields are ids, names on offer and
 * figures, and no text of the caller.
 */
export function createRequestLog({ log, metrics }: { log: Log; metrics: Metrics }) {
  const write = (c: Context<HttpEnv>, { route, started_ms }: { route: string; started_ms: number }) => {
    const { caller, request_id, facts } = c.var;
    const answered = facts.answered?.() ?? null;
    const broken = facts.broken?.() ?? null;
    if (broken !== null) facts.code ??= broken;
    if (facts.code !== undefined) metrics.httpError(facts.code);
    const line = {
      request_id,
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
    endSpan(c, { route, user_id: line.user_id });
  };
  return (c: Context<HttpEnv>, started_ms: number): void => {
    const route = routeOf(c);
    const { method } = c.req;
    metrics.request({ method, route, status: c.res.status }, monotonicMs() - started_ms);
    const { ended } = c.get("facts");
    if (ended === undefined) write(c, { route, started_ms });
    else void ended.then(() => write(c, { route, started_ms }));
  };
}
