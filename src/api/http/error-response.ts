import { asPurserError, type PurserError } from "../../kernel/errors.ts";
import { isDatabaseAway } from "../../kernel/sql-state.ts";
import { describeError, describeUnexpected, type Log } from "../../platform/telemetry/log.ts";
import type { JsonAnswer } from "../contract/endpoint.ts";
import { anthropicError } from "../contract/messages.ts";
import type { Exchange } from "./exchange.ts";
import { quotaHeaders } from "./rate-limit.ts";

const MESSAGES = "/api/v1/messages";
/** Answers in Anthropic's shape to its clients only. */
const MODELS = "/api/v1/models";
/** `false` stops retries by OpenAI's clients, which otherwise repeat 409 and 5xx. */
export const SHOULD_RETRY = "X-Should-Retry";

/** The error body of contract 2, for JSON answers and for a stream that fails midway. */
export function errorBody(error: PurserError, request_id: string) {
  const { type, code, message, param, metadata } = error.shape;
  return { error: { type, code, message, param: param ?? null, request_id, ...(metadata ? { metadata } : {}) } };
}

/** Anthropic's clients read errors in the shape of its API. */
export function isForAnthropic(path: string, version: string | undefined): boolean {
  return path.startsWith(MESSAGES) || (path.startsWith(MODELS) && version !== undefined);
}

/** The causes of expected errors are our own words. */
function causeOf(cause: Error, code: string) {
  return code === "internal" ? describeUnexpected(cause) : { cause: describeError(cause) };
}

/**
 * The answer to a failed request. Notes the error for the request's log line. Logs internal errors, never the caller's
 * data.
 */
export function errorAnswer(
  thrown: unknown,
  { route, request_id, facts, header }: Pick<Exchange, "route" | "request_id" | "facts" | "header">,
  log: Log,
): JsonAnswer {
  const error = asPurserError(thrown);
  const { status, has_acted, metadata, message, param = null } = error.shape;
  Object.assign(facts, { code: error.code, provider_error: metadata?.provider, error: { message, param } });
  // One line for the whole outage says that the database is away (platform/db/outage.ts).
  if (error.code === "internal" || (error.cause !== undefined && !isDatabaseAway(error))) {
    const cause = error.cause instanceof Error ? causeOf(error.cause, error.code) : {};
    log.error({ request_id, code: error.code, ...cause }, error.message);
  }
  const headers = retryHeaders(error);
  if (status === 401) headers["WWW-Authenticate"] = challengeOf(header);
  if (has_acted) headers[SHOULD_RETRY] = "false";
  // Clients repeat no 402 by themselves, and this one passes when a call in flight ends.
  if (error.code === "in_flight_exhausted") headers[SHOULD_RETRY] = "true";
  const is_for_anthropic = isForAnthropic(route, header("anthropic-version"));
  const body = is_for_anthropic ? anthropicError(error.shape, request_id) : errorBody(error, request_id);
  return { kind: "json", status, headers, body };
}

/** When to retry, and the limit that is used up. */
export function retryHeaders({ shape: { retry_after_s, used_up_limit } }: PurserError): Record<string, string> {
  if (retry_after_s === undefined) return {};
  const seconds = String(Math.max(1, Math.ceil(retry_after_s)));
  if (used_up_limit === undefined) return { "Retry-After": seconds };
  // Only limits of tokens are found out after the guard, which has the headers of the limits of requests.
  const of_limit = quotaHeaders({ of: "tokens", limit: used_up_limit, left: 0, resets_in_s: Number(seconds) });
  return { "Retry-After": seconds, ...of_limit };
}

/** RFC 6750: says how to authenticate, and whether the credential was wrong. */
function challengeOf(header: Exchange["header"]): string {
  const is_wrong = header("authorization") !== undefined || header("x-api-key") !== undefined;
  return `Bearer realm="Purser"${is_wrong ? ', error="invalid_token"' : ""}`;
}
