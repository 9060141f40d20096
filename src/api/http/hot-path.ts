import type { IncomingMessage, ServerResponse } from "node:http";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { isTurnUsed, untilTurn } from "../../platform/lib/event-loop-turn.ts";
import { EVENT_STREAM_HEADERS, writeEvents } from "../../platform/net/event-stream.ts";
import { describeUnexpected, type Log } from "../../platform/telemetry/log.ts";
import { type Tracer, within } from "../../platform/telemetry/tracing.ts";
import type { Caller, LiveCaller, RequestFacts } from "../contract/caller.ts";
import { CLIENT_CLOSED_REQUEST, type EndpointAnswer, type HotEndpoint } from "../contract/hot-endpoint.ts";
import { validatedBody } from "../contract/router.ts";
import { JSON_TYPE, ONE_PIECE_BYTES, parsedModelBody } from "./body.ts";
import type { BodyShare } from "./body-budget.ts";
import { type Authentication, keyCredential, keyOf } from "./credential.ts";
import { errorAnswer } from "./error-response.ts";
import { type LiveCallers, watchCaller } from "./live-callers.ts";
import type { Limited } from "./rate-limit.ts";
import { type LoggedRequest, requestIdOf, requestSpan } from "./request-log.ts";

/**
 * Serves ordinary model calls and run-nows directly on Node's HTTP server. Hono's middlewares, Request, Response and web
 * streams cost as much as the rest of a call.
 *
 * A request is ordinary if no middleware of Hono has to work on it. Hono serves all other requests, and requests that are
 * not admitted. Both share the limits, the budgets, the errors, the log and the endpoints.
 */

/** Returns false if Hono must serve the request, whose body is then unread. */
export type HotPath = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<boolean>;

/** What both ways share. */
interface Shared extends Pick<Authentication, "authenticate"> {
  /** False while the database's disk is full. */
  isWritable(): boolean;
  /** Counts a request against every limit of its caller. */
  limit(caller: Caller): Promise<{ caller: Caller; limited: Limited }>;
  shareOf(user_id: string): BodyShare;
  callers: LiveCallers;
  cut_off: AbortSignal;
  logRequest(request: LoggedRequest): void;
  tracer: Tracer | null;
  log: Log;
  /** Of every answer. */
  security_headers: Readonly<Record<string, string>>;
}

type Head = Readonly<Record<string, string>>;

const EVENT_HEADERS = Object.entries(EVENT_STREAM_HEADERS).flat();
/** Headers that a middleware of Hono works on. */
const SPECIAL = ["content-encoding", "expect", "idempotency-key", "origin", "transfer-encoding", "upgrade"];
/** Any other host may be one that Hono rejects. */
const PLAIN_HOST = /^[A-Za-z0-9.:[\]_-]+$/;
const LENGTH = /^[1-9][0-9]{0,5}$/;

interface Match {
  endpoint: HotEndpoint;
  params: Readonly<Record<string, string>>;
}

/** A request with a valid key of the right scope. */
interface Admitted extends Match {
  caller: Caller;
  authorization: string | undefined;
  started_ms: number;
  /** Whether the body had arrived before the check of the key. */
  is_whole: boolean;
}

/** The hot path to `endpoints`. */
export function createHotPath(shared: Shared, endpoints: readonly HotEndpoint[]): HotPath {
  const matchOf = createMatcher(endpoints);

  /** Null: not admitted. Hono repeats the check and answers with its error. */
  async function admit(match: Match, incoming: IncomingMessage): Promise<Admitted | null> {
    const { headers, complete: is_whole } = incoming;
    const started_ms = monotonicMs();
    const authorization = keyOf(headers.authorization, headers["x-api-key"] as string | undefined);
    const caller = await shared.authenticate(authorization).catch(() => null);
    if (caller === null || !hasScope(caller, match.endpoint)) return null;
    return { ...match, caller, authorization, started_ms, is_whole };
  }

  /** Reads, calls the endpoint and writes. */
  async function serve(incoming: IncomingMessage, outgoing: ServerResponse, admitted: Admitted): Promise<void> {
    const { endpoint, params, caller: with_key, authorization, started_ms, is_whole } = admitted;
    const { path } = endpoint.route;
    const headerOf = (name: string) => incoming.headers[name] as string | undefined;
    const request_id = requestIdOf(headerOf("x-request-id"));
    const facts: RequestFacts = {};
    const watched: LiveCaller[] = [];
    const watch = () => {
      const { user_id } = with_key;
      const live = watchCaller(shared.callers, { user_id, credential: keyCredential(shared, authorization) }, facts);
      watched.push(live);
      return live;
    };
    // A write to a connection that has just ended must not end the process.
    outgoing.on("error", () => {});
    const hungUp = () => hangUpOf(outgoing);
    let head: Head = { ...shared.security_headers, "X-Request-Id": request_id };
    const share = shared.shareOf(with_key.user_id);
    let status: number;
    let is_stream = false;
    try {
      const { caller, limited } = await shared.limit(with_key);
      head = { ...head, ...limited.headers };
      if (limited.retry_after_s !== null) throw errors.rateLimited(limited.retry_after_s);
      const { cut_off } = shared;
      const http = { caller, request_id, facts, params, cut_off, headerOf, watchCaller: watch, hungUp };
      const asked = await bodyOf(incoming, endpoint, share);
      // The key may have been revoked while the body arrived.
      if (!is_whole) await shared.authenticate(authorization);
      const answer = await endpoint.answer(http, asked as never);
      is_stream = answer.kind === "events";
      status = send(outgoing, head, answer);
    } catch (thrown) {
      const failed = errorAnswer(thrown, { path, request_id, facts, headerOf }, shared.log);
      status = failed.status;
      sendJson(outgoing, status, { ...head, ...failed.headers }, failed.body);
    } finally {
      share.release();
    }
    if (!is_stream) for (const live of watched) live.leave();
    shared.logRequest({ request_id, caller: with_key, method: "POST", route: path, status, facts, started_ms });
  }

  return async (incoming, outgoing) => {
    const match = matchOf(incoming.url ?? "");
    // A pipelined request has no socket yet: Node does not tell its answer when the connection ends.
    if (match === null || outgoing.socket === null) return false;
    if (!isOrdinary(incoming, match.endpoint) || !shared.isWritable()) return false;
    const admitted = await admit(match, incoming);
    if (admitted === null) return false;
    const span = requestSpan(
      shared.tracer,
      match.endpoint.route.path,
      incoming.headers.traceparent as string | undefined,
    );
    await within(span, () => serve(incoming, outgoing, admitted)).catch((error: Error) => {
      shared.log.error(describeUnexpected(error), "an answer could not be written");
      outgoing.destroy();
    });
    return true;
  };
}

/** Hono serves paths with other characters in a parameter. */
function createMatcher(endpoints: readonly HotEndpoint[]): (path: string) => Match | null {
  const patterns = endpoints.map((endpoint) => {
    const path = endpoint.route.path.replaceAll(/\{(\w+)\}/g, "(?<$1>[A-Za-z0-9-]+)");
    return { endpoint, pattern: new RegExp(`^${path}$`) };
  });
  return (path) => {
    for (const { endpoint, pattern } of patterns) {
      const found = pattern.exec(path);
      if (found !== null) return { endpoint, params: found.groups ?? {} };
    }
    return null;
  };
}

function isOrdinary({ method, headers, rawHeaders }: IncomingMessage, { ordinary_bytes }: HotEndpoint): boolean {
  const { authorization, host = "", "content-type": type = "", "content-length": length = "" } = headers;
  if (method !== "POST" || (authorization === undefined && headers["x-api-key"] === undefined)) return false;
  if (!PLAIN_HOST.test(host) || !JSON_TYPE.test(type)) return false;
  if (!LENGTH.test(length) || Number(length) > (ordinary_bytes ?? ONE_PIECE_BYTES)) return false;
  // Node keeps only the first of some repeated headers, and Hono sees all.
  const is_repeated = Object.keys(headers).length * 2 !== rawHeaders.length;
  return !is_repeated && SPECIAL.every((name) => headers[name] === undefined);
}

function hasScope({ scopes }: Caller, { route }: HotEndpoint): boolean {
  return scopes.includes((route as { "x-required-scope"?: never })["x-required-scope"] as never);
}

/** The validated body. Throws as Hono's middleware and validators do (body.ts). */
async function bodyOf(incoming: IncomingMessage, { route }: HotEndpoint, share: BodyShare): Promise<unknown> {
  share.take(Number(incoming.headers["content-length"]));
  const bytes = await bytesOf(incoming);
  if (isTurnUsed()) await untilTurn();
  return validatedBody(route, parsedModelBody(bytes));
}

/** Node reads no further than the Content-Length. */
function bytesOf(incoming: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    // The connection ended or was too slow, which is not a failure of the service.
    const close = () => {
      if (!incoming.readableEnded) reject(errors.requestTimeout());
    };
    incoming.on("close", close);
    if (incoming.destroyed) close();
  });
}

/** Aborted when the connection ends before the answer does. */
function hangUpOf(outgoing: ServerResponse): AbortSignal {
  const hang_up = new AbortController();
  const abort = () => {
    if (!outgoing.writableFinished) hang_up.abort();
  };
  outgoing.once("close", abort);
  if (outgoing.destroyed) abort();
  return hang_up.signal;
}

/** Writes the answer, or begins to write its events. Returns its status. */
function send(outgoing: ServerResponse, head: Head, answer: EndpointAnswer): number {
  if (answer.kind === "json") {
    const { status = 200, headers, body } = answer;
    sendJson(outgoing, status, headers === undefined ? head : { ...head, ...headers }, body);
    return status;
  }
  if (answer.kind === "hung_up") {
    outgoing.destroy();
    return CLIENT_CLOSED_REQUEST;
  }
  if (!outgoing.destroyed) outgoing.writeHead(200, linesOf(head, EVENT_HEADERS));
  void writeEvents(outgoing, answer.feed, answer.listener);
  return 200;
}

function sendJson(outgoing: ServerResponse, status: number, head: Head, body: object): void {
  if (outgoing.destroyed) return;
  const text = JSON.stringify(body);
  const own = ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(text))];
  outgoing.writeHead(status, linesOf(head, own));
  outgoing.end(text);
}

/** Names and values in turn, as Node writes them without a copy. */
function linesOf(head: Head, own: readonly string[]): string[] {
  const lines = [...own];
  for (const name in head) lines.push(name, head[name] as string);
  return lines;
}
