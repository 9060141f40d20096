import { monotonicMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { Metrics } from "../../platform/telemetry/metrics.ts";
import {
  activeSpan,
  getParent,
  type Span,
  type SpanStart,
  type Tracer,
  unrecorded,
} from "../../platform/telemetry/tracing.ts";
import type { RequestFacts } from "../contract/caller.ts";
import { type FailedCall, failedCall } from "./failed-calls.ts";

/** Their lines are of the level debug: monitors call them every few seconds. */
const PROBES = new Set(["/livez", "/readyz", "/metrics"]);

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The caller's own request id, or a new one. */
export function requestIdOf(sent: string | undefined): string {
  return sent !== undefined && REQUEST_ID.test(sent) ? sent : newId();
}

/** Any other method is a word of the caller's, of which there are many. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
const API_ROUTE = "/api/v1/*";

/** The labels of a request in the metrics and traces. Callers without a key add none by requests to other routes. */
function labelsOf({ method, route, status, facts }: LoggedRequest) {
  return {
    method: METHODS.has(method) ? method : "other",
    route: facts.is_keyless === true ? API_ROUTE : route,
    status,
  };
}

/** An answered request. */
export interface LoggedRequest {
  request_id: string;
  user_id: string | undefined;
  method: string;
  route: string;
  status: number;
  facts: RequestFacts;
  started_ms: number;
}

const REQUEST: SpanStart = { name: "request", kind: "server", attributes: {} };

/** The span of a request to the API; null if it belongs to no trace. A node without a tracer logs the caller's trace id. */
export function requestSpan(tracer: Tracer | null, path: string, traceparent: string | undefined): Span | null {
  if (!path.startsWith("/api/")) return null;
  if (tracer !== null) return tracer.begin(REQUEST, { traceparent });
  const parent = getParent(traceparent);
  return parent === null ? null : unrecorded(parent.trace_id);
}

/** The starts of answered requests, kept so that each is encoded once. There are as many as routes and statuses. */
const starts = new Map<string, SpanStart>();

/** Paths contain names that users chose, so the span has the route only. */
function startOf(request: LoggedRequest): SpanStart {
  const { method, route, status } = labelsOf(request);
  const name = `${method} ${route}`;
  const key = `${name} ${status}`;
  let start = starts.get(key);
  if (start === undefined) {
    const attributes = {
      "http.request.method": method,
      "http.route": route,
      "http.response.status_code": status,
    };
    start = { name, kind: "server", attributes };
    starts.set(key, start);
  }
  return start;
}

function endSpan(request: LoggedRequest): void {
  const span = activeSpan();
  if (span === null || !span.is_recorded) return;
  const { request_id, user_id, status, facts } = request;
  span.describe(startOf(request));
  span.set({ "user.id": user_id, "purser.request_id": request_id });
  const is_failure = status >= 500 || (status < 400 && facts.code !== undefined);
  span.end(is_failure ? (facts.code ?? String(status)) : undefined);
}

/**
 * Writes one line for each request (contract 1.11), for a stream at its end. The fields are ids, names on offer and
 * figures, and no text of the caller.
 */
export function createRequestLog(deps: { log: Log; metrics: Metrics; onFailedCall?(call: FailedCall): void }) {
  const { log, metrics, onFailedCall } = deps;
  const write = (request: LoggedRequest) => {
    const { request_id, user_id, facts, method, route, status, started_ms } = request;
    const answered = facts.answered?.() ?? null;
    const broken = facts.broken?.() ?? null;
    if (broken !== null) facts.code ??= broken;
    if (facts.code !== undefined) metrics.httpError(facts.code);
    const line = {
      request_id,
      user_id,
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
    const failed = onFailedCall === undefined ? null : failedCall(request, line.ms);
    if (failed !== null) onFailedCall?.(failed);
    endSpan(request);
  };
  return (request: LoggedRequest): void => {
    const { facts } = request;
    metrics.request(labelsOf(request), monotonicMs() - request.started_ms);
    if (facts.ended === undefined) write(request);
    else void facts.ended.then(() => write(request));
  };
}
