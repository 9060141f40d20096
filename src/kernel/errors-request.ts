import { editDistance, nearestNames } from "./nearest.ts";
import { failure } from "./purser-error.ts";

/** 4xx: the request must be changed, or names something that does not exist. */

const invalid = (code: string, message: string, param?: string, status = 400) =>
  failure({ status, type: "invalid_request_error", code, message, param });
const missing = (message: string) => failure({ status: 404, type: "not_found_error", code: "not_found", message });

/** Names that one message lists. */
const MOST_LISTED = 20;

/** "a, b and c" */
function listed(names: readonly string[]): string {
  const shown = names.length > MOST_LISTED ? [...names.slice(0, MOST_LISTED), "others"] : names;
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** Fewer names than this are listed when none is similar. */
const FEW = 12;

/** A name that differs in more letters is another one, such as `web_search` and `web_fetch`. */
const MOST_WRONG_LETTERS = 2;

/** What may have been meant by the last part of `param`, among the names that are known at its place. */
function suggestion(param: string, known: readonly string[]): string | null {
  const wanted = param.slice(param.lastIndexOf(".") + 1);
  const near = nearestNames(wanted, known);
  const is_few = known.length > 0 && known.length < FEW;
  const is_misspelt = near.some((name) => name.includes(wanted) || editDistance(name, wanted) <= MOST_WRONG_LETTERS);
  if (near.length > 0 && (is_misspelt || !is_few)) return `Did you mean ${near.join(" or ")}?`;
  return is_few ? `Known here: ${known.join(", ")}.` : null;
}

export const requestErrors = {
  invalidJson: (detail = "The body is not valid JSON") =>
    invalid("invalid_json", `${detail}. Send a JSON object with Content-Type: application/json.`),
  /** `param`: undefined if the field is not known. */
  invalidValue: (param: string | undefined, message: string) => invalid("invalid_value", message, param),
  /** `type`: of the one that the provider defines. A model could not tell the two apart. */
  sameToolName: (name: string, type: string) =>
    invalid(
      "invalid_value",
      `Two tools are called ${name}, and one is of ${type}. Rename or leave out the other one.`,
      "tools",
    ),
  nulInPath: () =>
    invalid("invalid_value", "The path contains a NUL character (%00). Remove it and send the request again."),
  /** `advice`: a sentence in place of "Add it to the request." */
  missingField: (param: string, advice = "Add it to the request.") =>
    invalid("missing_field", `${param} is required. ${advice}`, param),
  /** Names all unknown fields, because a caller that sends a whole record back must remove several. */
  unknownFields: (params: readonly [string, ...string[]], known: readonly string[] = []) => {
    const [param] = params;
    const message =
      params.length === 1
        ? `${param} is not a field of this request. ${suggestion(param, known) ?? "Remove it or correct its spelling."}`
        : `${listed(params)} are not fields of this request. Remove them or correct their spelling.`;
    return invalid("unknown_field", message, param);
  },
  /** `known`: the parameters that the address takes. */
  unknownParameter: (param: string, known: readonly string[]) =>
    invalid(
      "unknown_parameter",
      `${param} is not a parameter of this address. ${suggestion(param, known) ?? "Remove it."}`,
      param,
    ),
  /** `advice`: what else the caller can do. */
  unsupportedParameter: (param: string, advice?: string) =>
    invalid(
      "unsupported_parameter",
      `${param} is not sent to this model's provider. Remove it${advice === undefined ? "" : `; ${advice}`}.`,
      param,
    ),
  /** `details` of this error in Anthropic's shape: api/contract/messages-error.ts. */
  noMessageThreads: () =>
    invalid(
      "unsupported_parameter",
      'Threads of messages are not kept here. Send all messages in each request, without thread; Anthropic\'s SDK does so with unsupportedRequestBehavior: "continue_unthreaded".',
      "thread",
    ),
  previousResponseNotFound: (id: string) =>
    invalid(
      "previous_response_not_found",
      `The response ${JSON.stringify(id.slice(0, 80))} is not stored, or not any more. Send the whole conversation as input.`,
      "previous_response_id",
    ),
  invalidCursor: () =>
    invalid("invalid_cursor", "cursor is not one that this list returned. Start again without it.", "cursor"),
  contextLengthExceeded: (limit: number, param = "messages") =>
    invalid(
      "context_length_exceeded",
      // Clients find these words, and then shorten the conversation by themselves.
      `The prompt is too long: this model's maximum context length is ${limit} tokens. Shorten it.`,
      param,
    ),
  /** `free`: tokens that no call holds. */
  adjustmentTooLarge: (free: number) =>
    invalid(
      "invalid_value",
      `The user has ${free} tokens that no call holds, so no more can be taken. Give an amount_tokens of at least -${free}.`,
      "amount_tokens",
    ),
  balanceTooLarge: () =>
    invalid(
      "invalid_value",
      "amount_tokens would make the balance too large to stay exact. Give fewer tokens.",
      "amount_tokens",
    ),
  idempotencyMismatch: () =>
    invalid("idempotency_mismatch", "This Idempotency-Key was used with another body. Use a new key.", undefined, 422),
  bodyTooLarge: (limit: number) =>
    invalid("body_too_large", `The body is larger than ${limit} bytes. Send less.`, undefined, 413),
  /** `what` names the limit that the body's structure exceeds. */
  bodyTooComplex: (what: string) => invalid("invalid_json", `The body has ${what}. Send a simpler one.`),
  malformedRequest: () =>
    invalid("malformed_request", "This is not a valid HTTP/1.1 request. Send it with a current HTTP client."),
  headersTooLarge: () =>
    invalid("headers_too_large", "The request's headers are too large. Send fewer or shorter ones.", undefined, 431),
  requestTimeout: () =>
    invalid("request_timeout", "The request did not arrive in time. Send it again, whole.", undefined, 408),
  unsupportedEncoding: (accepted: readonly string[]) =>
    invalid(
      "unsupported_media_type",
      `The body's Content-Encoding is not supported. Send it without one, or as ${accepted.join(" or ")}.`,
      "Content-Encoding",
      415,
    ),
  unsupportedMediaType: () =>
    invalid("unsupported_media_type", "Send the body as JSON with Content-Type: application/json.", undefined, 415),
  methodNotAllowed: (asked: string, allowed: readonly string[]) =>
    invalid(
      "method_not_allowed",
      `${asked} is not possible. This address takes ${allowed.join(", ")}.`,
      undefined,
      405,
    ),
  /** `advice`: what to do instead, if that is known. */
  noSuchPath: (asked: string, advice: string | null) =>
    missing(`${asked} is not an address of this API. ${advice ?? "GET /openapi.json lists them."}`),
  /** `nearest`: names that may have been meant. */
  modelNotFound: (model: string, nearest: readonly string[] = [], param = "model") => {
    const meant = nearest.length === 0 ? "" : ` Did you mean ${nearest.join(" or ")}?`;
    const message = `The model ${JSON.stringify(model)} does not exist.${meant} GET /api/v1/models lists them.`;
    return failure({ status: 404, type: "not_found_error", code: "model_not_found", message, param });
  },
  notFound: (what = "This") => missing(`${what} does not exist, or is not yours. Check the id.`),
  archived: (what: string, before: string) =>
    missing(
      `${what} is not in the database. Rows of before ${before} are in the operator's archive: ask the operator for them.`,
    ),
  noTestClock: () =>
    missing("This service runs on real time. Start it with PURSER_TEST_CLOCK, an ISO instant, to have a clock to set."),
  noSubscription: () => missing("There is no subscription to cancel. POST /api/v1/billing/subscription makes one."),
  tooManyStreams: (retry_after_s: number, open: number) =>
    failure({
      status: 429,
      type: "rate_limit_error",
      code: "rate_limited",
      message: `You have ${open} open streams on this node, the most at once. End some, or retry after the time in Retry-After.`,
      retry_after_s,
    }),
  tooManyConnections: (retry_after_s: number, most: number) =>
    failure({
      status: 429,
      type: "rate_limit_error",
      code: "rate_limited",
      message: `Your network address has ${most} open connections, the most at once. Reuse or close some, and retry after the time in Retry-After.`,
      retry_after_s,
    }),
  rateLimited: (retry_after_s: number, message = "Too many requests. Retry after the time in Retry-After.") =>
    failure({ status: 429, type: "rate_limit_error", code: "rate_limited", message, retry_after_s }),
};
