import { conflict, failure, invalid, missing, PurserError } from "./purser-error.ts";
import { isDatabaseAway, isErasedUser } from "./sql-state.ts";

export { type ErrorShape, PurserError } from "./purser-error.ts";

/**
 * The failures that any module may have; the others stand in the errors.ts of the module that raises them. Each has a code,
 * a status, and a sentence that says what to do next. Detail that could give something away goes to the log, never here.
 */
export const errors = {
  internal: (cause?: unknown) =>
    failure(
      {
        status: 500,
        type: "api_error",
        code: "internal",
        message: "Something went wrong here. Retry; if it stays, report the request id.",
      },
      cause,
    ),
  /** `param`: undefined if the field is not known. */
  invalidValue: (param: string | undefined, message: string) => invalid("invalid_value", message, param),
  /** `advice`: a sentence in place of "Add it to the request." */
  missingField: (param: string, advice = "Add it to the request.") =>
    invalid("missing_field", `${param} is required. ${advice}`, param),
  /** Something of an account, which another account may have. */
  notFound: (what: string) => missing(`${what} does not exist in this account. Check the id.`),
  /** Something that belongs to no account, or an account itself. */
  unknown: (what: string, advice = "Check the id.") => missing(`${what} does not exist. ${advice}`),
  /** `first_end`: when the first of them ends. */
  formerSecretsFull: (most: number, first_end: string) =>
    conflict(
      "former_secret_limit_reached",
      `${most} former secrets are still valid, the first until ${first_end}. Rotate after that, or with overlap_hours 0, which ends all of them at once.`,
      "overlap_hours",
    ),
  rateLimited: (retry_after_s: number, message = "Too many requests. Retry after the time in Retry-After.") =>
    failure({ status: 429, type: "rate_limit_error", code: "rate_limited", message, retry_after_s }),
  overloaded: (retry_after_s = 1) =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "The service is at its limit. Retry after the time in Retry-After.",
      retry_after_s,
    }),
  /** `code` overloaded: the ledger could not be asked, and nothing was begun. */
  databaseAway: (cause: unknown) =>
    failure(
      {
        status: 503,
        type: "api_error",
        code: "overloaded",
        message: "The service's database does not answer at the moment. Retry after the time in Retry-After.",
        retry_after_s: 1,
      },
      cause,
    ),
  upstream: (message: string, cause?: unknown, retry_after_s?: number) =>
    failure({ status: 502, type: "api_error", code: "upstream_error", message, retry_after_s }, cause),
  upstreamTimeout: () =>
    failure({
      status: 504,
      type: "api_error",
      code: "upstream_timeout",
      message: "The model did not answer in time; nothing was charged. Retry, or use another model.",
    }),
};

/** The failure that a caller gets for any thrown value. An unexpected one becomes `internal`, and is its cause. */
export function asPurserError(thrown: unknown): PurserError {
  if (thrown instanceof PurserError) return thrown;
  if (isErasedUser(thrown)) return errors.unknown("This user");
  return isDatabaseAway(thrown) ? errors.databaseAway(thrown) : errors.internal(thrown);
}
