import type { RouteConfig } from "@hono/zod-openapi";
import type { Context } from "hono";
import { type EventFeed, errorEvent, eventStream, type Listener } from "../../platform/net/event-stream.ts";
import type { Caller, HttpEnv, LiveCaller, RequestFacts } from "./caller.ts";
import { createRouter, type HttpRouter } from "./router.ts";

/**
 * The endpoints that most requests call: chat completions, Responses, Messages and run-now. http/hot-path.ts serves their
 * ordinary requests, and Hono serves all others; both with the same `answer`.
 */

/** The status that proxies use after a caller has hung up; the caller does not receive it. */
export const CLIENT_CLOSED_REQUEST = 499;

/** The request as an endpoint reads it, with its caller admitted and its body validated. */
export interface EndpointRequest {
  caller: Caller;
  request_id: string;
  facts: RequestFacts;
  /** The parameters in the path. */
  params: Readonly<Record<string, string>>;
  /** Aborted at the end of a shutdown's drain, with the error for the caller. */
  cut_off: AbortSignal;
  headerOf(name: string): string | undefined;
  /** Watches the caller until the answer ends. */
  watchCaller(): LiveCaller;
  /** Aborted when the caller hangs up. */
  hungUp(): AbortSignal;
}

/** The body of a 200 or 202, events, or nothing for a caller that hung up. */
export type EndpointAnswer =
  | { kind: "json"; body: object; status?: 202; headers?: Readonly<Record<string, string>> }
  | { kind: "events"; feed: EventFeed; listener: Listener }
  | { kind: "hung_up" };

export interface HotEndpoint {
  /** The route with the schema of `asked` and the required scope. */
  route: RouteConfig;
  /** Hono serves longer bodies. Absent: bodies that are read in one piece are ordinary. */
  ordinary_bytes?: number;
  /** Throws PurserErrors. */
  answer(request: EndpointRequest, asked: never): Promise<EndpointAnswer>;
}

/** The endpoint as a route of Hono. */
export function endpointRoutes({ route, answer }: HotEndpoint): HttpRouter {
  const router = createRouter();
  router.openapi(route, async (c: Context<HttpEnv>) => {
    const answered = await answer(requestOf(c), c.req.valid("json" as never));
    if (answered.kind === "json") return c.json(answered.body, answered.status ?? 200, answered.headers) as never;
    if (answered.kind === "events") return streamOf(c, answered.feed, answered.listener) as never;
    return new Response(null, { status: CLIENT_CLOSED_REQUEST }) as never;
  });
  return router;
}

/** The events as a response. An Idempotency-Key can end what it keeps of them by an error. */
export function streamOf(c: Context<HttpEnv>, feed: EventFeed, listener: Listener): Response {
  c.set("error_event", (error) => errorEvent(error, listener));
  return eventStream(feed, listener);
}

function requestOf(c: Context<HttpEnv>): EndpointRequest {
  const { caller, request_id, facts, cut_off, live_caller } = c.var;
  return {
    caller,
    request_id,
    facts,
    cut_off,
    watchCaller: live_caller,
    params: c.req.param(),
    headerOf: (name) => c.req.header(name),
    hungUp: () => c.req.raw.signal,
  };
}
