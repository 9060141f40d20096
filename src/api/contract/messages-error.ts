import type { ErrorShape } from "../../kernel/errors.ts";

/** The types of Anthropic's errors by our own. Its clients show the message of each. */
const TYPES: Readonly<Record<ErrorShape["type"], string>> = {
  invalid_request_error: "invalid_request_error",
  authentication_error: "authentication_error",
  payment_required: "billing_error",
  permission_error: "permission_error",
  not_found_error: "not_found_error",
  conflict_error: "invalid_request_error",
  rate_limit_error: "rate_limit_error",
  api_error: "api_error",
};
const BY_CODE: Readonly<Record<string, string>> = {
  overloaded: "overloaded_error",
  upstream_timeout: "timeout_error",
  body_too_large: "request_too_large",
};

/** Anthropic's SDK reads these details, and repeats the request without a thread. */
const NO_THREADS = { error_code: "thread_unsupported_request", unsupported: ["thread"] };

/** An error in the shape of Anthropic's API, with our code and metadata beside it. Pure. */
export function anthropicError(
  shape: Pick<ErrorShape, "type" | "code" | "message" | "param" | "metadata">,
  request_id: string | null,
) {
  const { type, code, message, param, metadata } = shape;
  const error = { type: BY_CODE[code] ?? TYPES[type], message, code, param: param ?? null };
  const details = param === "thread" ? { details: NO_THREADS } : {};
  return {
    type: "error" as const,
    error: { ...error, ...(metadata ? { metadata } : {}), ...details },
    ...(request_id === null ? {} : { request_id }),
  };
}
