/** An expected failure: its status, its code, and a sentence that says what to do next. Each module has its catalogue in errors.ts. */

export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "payment_required"
  | "permission_error"
  | "not_found_error"
  | "conflict_error"
  | "rate_limit_error"
  | "api_error";

export interface ErrorShape {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string;
  readonly message: string;
  readonly param?: string | undefined;
  readonly metadata?: Record<string, unknown> | undefined;
  readonly retry_after_s?: number | undefined;
  /** The limit per minute that is used up, if it is not the one that every answer shows. */
  readonly used_up_limit?: number | undefined;
  /** The request has cost something or had effects, and a retry would do so again. */
  readonly has_acted?: boolean | undefined;
  /** The least billed tokens that the call needed, if the balance or a budget did not cover it. Not in the answer. */
  readonly needed_tokens?: number | undefined;
}

/** An expected failure. Thrown anywhere, turned into the error body by `http/`. */
export class PurserError extends Error {
  readonly shape: ErrorShape;
  constructor(shape: ErrorShape, options?: ErrorOptions) {
    super(shape.message, options);
    this.name = "PurserError";
    this.shape = shape;
  }
  get code(): string {
    return this.shape.code;
  }
  /** The same failure, of the same cause, with these fields changed. */
  with(changes: Partial<ErrorShape>): PurserError {
    return failure({ ...this.shape, ...changes }, this.cause);
  }
}

/** Characters of a message. A request's field may have a name of megabytes. */
const MAX_MESSAGE_CHARS = 2_000;
const MAX_PARAM_CHARS = 500;

/** `cause`: for the log only. Long texts lose their middle, because a sentence ends with what to do. */
export function failure({ message, param, ...shape }: ErrorShape, cause?: unknown): PurserError {
  const short: ErrorShape = {
    ...shape,
    message: withoutMiddle(message, MAX_MESSAGE_CHARS),
    param: param === undefined ? undefined : withoutMiddle(param, MAX_PARAM_CHARS),
  };
  return new PurserError(short, cause === undefined ? {} : { cause });
}

function withoutMiddle(text: string, max_chars: number): string {
  if (text.length <= max_chars) return text;
  const half = max_chars / 2 - 1;
  return `${text.slice(0, half)}…${text.slice(-half)}`.toWellFormed();
}

/** 400 by default: the request must be changed. */
export const invalid = (code: string, message: string, param?: string, status = 400) =>
  failure({ status, type: "invalid_request_error", code, message, param });
/** 401: the caller is unknown. */
export const unauthenticated = (code: string, message: string) =>
  failure({ status: 401, type: "authentication_error", code, message });
/** 403: the caller may not do this. */
export const forbidden = (code: string, message: string, param?: string) =>
  failure({ status: 403, type: "permission_error", code, message, param });
export const missing = (message: string) =>
  failure({ status: 404, type: "not_found_error", code: "not_found", message });
/** 409: the request is valid, but the present state does not allow it. */
export const conflict = (code: string, message: string, param?: string) =>
  failure({ status: 409, type: "conflict_error", code, message, param });

/** `what` the user has as many of as contract 2.16 allows. */
export const tooMany = (limit: number, what: string, remedy = "Delete one first.") =>
  `You have ${limit} ${what}. ${remedy}`;
