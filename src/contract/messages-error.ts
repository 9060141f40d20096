import type { ErrorShape } from "../errors.ts";

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

/** An error in the shape of Anthropic's API, with our code and metadata beside it. Pure. */
export function anthropicError(
  shape: Pick<ErrorShape, "type" | "code" | "message" | "param" | "metadata">,
  request_id: string | null,
) {
  const { type, code, message, param, metadata } = shape;
  const error = { type: BY_CODE[code] ?? TYPES[type], message, code, param: param ?? null };
  return {
    type: "error" as const,
    error: { ...error, ...(metadata ? { metadata } : {}) },
    ...(request_id === null ? {} : { request_id }),
  };
}
