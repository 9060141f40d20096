import { conflict, failure, forbidden, invalid, missing, unauthenticated } from "../../kernel/purser-error.ts";

/** Errors of requests before their route, and of callers without permission. */
export const httpErrors = {
  missingApiKey: () =>
    unauthenticated(
      "missing_api_key",
      "Send your API key as `Authorization: Bearer <API_KEY>` or `x-api-key: <API_KEY>`.",
    ),
  /** `param`: the field that needs the scope. */
  insufficientScope: (scope: string, param?: string) =>
    forbidden(
      "insufficient_scope",
      param === undefined
        ? `This API key lacks the scope ${scope}. Use a key that has it.`
        : `${param}: this API key lacks the scope ${scope}, which adding or widening a secret's binding needs. Use a key that has it, or leave the binding as it is.`,
      param,
    ),
  insufficientRole: (role: string, required: string) =>
    forbidden(
      "insufficient_role",
      `This operator has the role ${role}, and this request needs the role ${required}. Use a key or an account with that role.`,
    ),
  originRefused: () =>
    forbidden(
      "origin_refused",
      "This request does not come from the service's own pages. Open the console at PURSER_PUBLIC_URL, or set that to the address that people open, and restart the service. Programs use an API key.",
    ),
  proxyNotConfigured: () =>
    forbidden(
      "proxy_not_configured",
      "This service is set up for the people on its own machine, and this request came through a proxy or under another host name. Set PURSER_PUBLIC_URL to the address that people open, and PURSER_TRUSTED_PROXIES to the proxy's CIDR. Then restart the service.",
    ),
  malformedRequest: () =>
    invalid("malformed_request", "This is not a valid HTTP/1.1 request. Send it with a current HTTP client."),
  headersTooLarge: () =>
    invalid("headers_too_large", "The request's headers are too large. Send fewer or shorter ones.", undefined, 431),
  requestTimeout: () =>
    invalid("request_timeout", "The request did not arrive in time. Send it again, whole.", undefined, 408),
  nulInPath: () =>
    invalid("invalid_value", "The path contains a NUL character (%00). Remove it and send the request again."),
  unsupportedEncoding: (accepted: readonly string[]) =>
    invalid(
      "unsupported_media_type",
      `The body's Content-Encoding is not supported. Send it without one, or as ${accepted.join(" or ")}.`,
      "Content-Encoding",
      415,
    ),
  unsupportedMediaType: () =>
    invalid("unsupported_media_type", "Send the body as JSON with Content-Type: application/json.", undefined, 415),
  bodyTooLarge: (limit: number) =>
    invalid("body_too_large", `The body is larger than ${limit} bytes. Send less.`, undefined, 413),
  /** `what` names the limit that the body's structure exceeds. */
  bodyTooComplex: (what: string) => invalid("invalid_json", `The body has ${what}. Send a simpler one.`),
  /** `advice`: what to do instead, if that is known. */
  methodNotAllowed: (asked: string, allowed: readonly string[], advice: string | null) =>
    invalid(
      "method_not_allowed",
      `${asked} is not possible. This address takes ${allowed.join(", ")}.${advice === null ? "" : ` ${advice}`}`,
      undefined,
      405,
    ),
  noSuchPath: (asked: string, advice: string | null) =>
    missing(`${asked} is not an address of this API. ${advice ?? "GET /openapi.json lists them."}`),
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
  idempotencyMismatch: () =>
    invalid("idempotency_mismatch", "This Idempotency-Key was used with another body. Use a new key.", undefined, 422),
  idempotencyInFlight: () =>
    conflict(
      "idempotency_in_flight",
      "The first request with this Idempotency-Key is still running. Retry in a moment.",
    ),
  answerNotKept: () =>
    conflict(
      "answer_not_kept",
      "The request with this Idempotency-Key was carried out, and its answer was not kept, because your answers of the last day fill the room for them. Read its result with a GET.",
    ),
  starting: (retry_after_s: number) =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "The service starts: /readyz says when it is ready. Retry after the time in Retry-After.",
      retry_after_s,
    }),
  diskFull: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message:
        "The service's database has no space left, so nothing can be saved. Retry later; if it stays, tell the operator of this service.",
      retry_after_s: 5,
    }),
};
