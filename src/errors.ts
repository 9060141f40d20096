import { type Means, PAYMENT, type PaymentCode, type PaymentFigures, remediesFor } from "./payment-required.ts";

/**
 * Every failure a caller can expect: code, status, and a sentence that says what to do next. Detail that could give
 * something away goes to the log, never here.
 */

export type * from "./payment-required.ts";

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
  /** The request has cost something or had effects, and a retry would do so again. */
  readonly has_acted?: boolean | undefined;
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
}

const failure = (shape: ErrorShape, cause?: unknown) => new PurserError(shape, cause === undefined ? {} : { cause });
const invalid = (code: string, message: string, param?: string, status = 400) =>
  failure({ status, type: "invalid_request_error", code, message, param });
const unauthenticated = (code: string, message: string) =>
  failure({ status: 401, type: "authentication_error", code, message });
const forbidden = (code: string, message: string, param?: string) =>
  failure({ status: 403, type: "permission_error", code, message, param });
const missing = (message: string) => failure({ status: 404, type: "not_found_error", code: "not_found", message });
const conflict = (code: string, message: string, param?: string) =>
  failure({ status: 409, type: "conflict_error", code, message, param });

/** Names that one message lists. */
const MOST_LISTED = 20;

/** "a, b and c" */
function listed(names: readonly string[]): string {
  const shown = names.length > MOST_LISTED ? [...names.slice(0, MOST_LISTED), "others"] : names;
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

export const errors = {
  invalidJson: (detail = "The body is not valid JSON") =>
    invalid("invalid_json", `${detail}. Send a JSON object with Content-Type: application/json.`),
  /** `param`: undefined if the field is not known. */
  invalidValue: (param: string | undefined, message: string) => invalid("invalid_value", message, param),
  nulInPath: () =>
    invalid("invalid_value", "The path contains a NUL character (%00). Remove it and send the request again."),
  missingField: (param: string) => invalid("missing_field", `${param} is required. Add it to the request.`, param),
  /** Names all unknown fields, because a caller that sends a whole record back must remove several. */
  unknownFields: (params: readonly [string, ...string[]]) => {
    const [param] = params;
    const message =
      params.length === 1
        ? `${param} is not a field of this request. Remove it or correct its spelling.`
        : `${listed(params)} are not fields of this request. Remove them or correct their spelling.`;
    return invalid("unknown_field", message, param);
  },
  unsupportedParameter: (param: string) =>
    invalid(
      "unsupported_parameter",
      `${param} is not sent to this model's provider. Remove it; the operator may allow it with forward in PURSER_CONFIG.`,
      param,
    ),
  invalidCursor: () =>
    invalid("invalid_cursor", "cursor is not one that this list returned. Start again without it.", "cursor"),
  /** `nearest`: names that may have been meant. */
  modelNotFound: (model: string, nearest: readonly string[] = []) => {
    const meant = nearest.length === 0 ? "" : ` Did you mean ${nearest.join(" or ")}?`;
    const message = `The model ${JSON.stringify(model)} does not exist.${meant} GET /api/v1/models lists them.`;
    return failure({ status: 404, type: "not_found_error", code: "model_not_found", message, param: "model" });
  },
  contextLengthExceeded: (limit: number, param = "messages") =>
    invalid(
      "context_length_exceeded",
      `The prompt is longer than the model's context of ${limit} tokens. Shorten it.`,
      param,
    ),
  missingApiKey: () =>
    unauthenticated(
      "missing_api_key",
      "Send your API key as `Authorization: Bearer <API_KEY>` or `x-api-key: <API_KEY>`.",
    ),
  invalidApiKey: () => unauthenticated("invalid_api_key", "This API key is not valid. Check it, or create another."),
  expiredApiKey: () => unauthenticated("expired_api_key", "This API key has expired. Create another or rotate it."),
  revokedApiKey: () => unauthenticated("revoked_api_key", "This API key was revoked. Create another."),
  sessionExpired: () => unauthenticated("session_expired", "You are signed out. Sign in again."),
  invalidCredentials: () =>
    unauthenticated(
      "invalid_credentials",
      "The e-mail address or the password is wrong, or the address is not confirmed yet. Try again, follow the link we sent, or ask for a new password.",
    ),
  payment: (code: PaymentCode, figures: PaymentFigures, means: Means) => {
    const { message, remedies, retry_after_s } = PAYMENT[code];
    const metadata = { ...figures, remedies: remediesFor(remedies, means) };
    return failure({ status: 402, type: "payment_required", code, message, metadata, retry_after_s });
  },
  modelNotTrialEligible: (model: string) =>
    forbidden(
      "model_not_trial_eligible",
      `${model} is not part of the free trial. Subscribe or top up, or use a trial-eligible model.`,
      "model",
    ),
  modelNotAllowed: (model: string) =>
    forbidden(
      "model_not_allowed",
      `${model} is not among the models that this API key or account may use. GET /api/v1/models lists those.`,
      "model",
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
      `This operator key has the role ${role}, and this request needs the role ${required}. Use a key with that role.`,
    ),
  accountSuspended: () =>
    forbidden("account_suspended", "This account is suspended. Write to the operator of this service."),
  originRefused: () =>
    forbidden(
      "origin_refused",
      "This request does not come from the service's own pages. Open the console at PURSER_PUBLIC_URL, or use an API key.",
    ),
  proxyNotConfigured: () =>
    forbidden(
      "proxy_not_configured",
      "This service is set up for the people on its own machine, and this request came through a proxy or under another host name. Set PURSER_PUBLIC_URL to the address that people open, and PURSER_TRUSTED_PROXIES to the proxy's CIDR. Then restart the service.",
    ),
  signupClosed: () =>
    forbidden("signup_closed", "Signing up is closed here. Ask the operator of this service for an account."),
  budgetedKeyCannotMint: () =>
    forbidden(
      "budgeted_key",
      "An API key with a budget or limits cannot create or rotate other keys, or raise a key's limits: together they could use more than it may. Use another key.",
    ),
  overageRequiresSubscription: () =>
    forbidden("overage_requires_subscription", "Overage needs a subscription. Subscribe to a plan first."),
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
  purchaseNotRefundable: (status: string) =>
    conflict(
      "purchase_not_refundable",
      `No money of this purchase can be returned: it is ${status}. Only paid purchases that were not refunded yet can be refunded.`,
    ),
  notFound: (what = "This") => missing(`${what} does not exist, or is not yours. Check the id.`),
  archived: (what: string, before: string) =>
    missing(
      `${what} is not in the database. Rows of before ${before} are in the operator's archive: ask the operator for them.`,
    ),
  noTestClock: () =>
    missing("This service runs on real time. Start it with PURSER_TEST_CLOCK, an ISO instant, to have a clock to set."),
  noSubscription: () => missing("There is no subscription to cancel. POST /api/v1/billing/subscription makes one."),
  nameTaken: (what: string) => conflict("name_taken", `${what} already exists. Choose another name.`, "name"),
  /** For the operator, who creates a user. `emailTaken` is for people who sign up. */
  userExists: () => conflict("name_taken", "A user with this e-mail address exists. Use another address.", "email"),
  emailTaken: () =>
    conflict("email_taken", "This address has an account already. Sign in, or ask for a new password.", "email"),
  agentDisabled: () => conflict("agent_disabled", "This agent is disabled. Set is_active to true first."),
  runAlreadyFinished: () =>
    conflict("run_already_finished", "This run has already finished; its result does not change."),
  runCancelled: () =>
    conflict(
      "run_cancelled",
      "The run was cancelled before it had answered. Send the request again to start another run.",
    ),
  /** A chat's run that ended without an answer: `error` is the run's own. */
  runFailed: (error: { code: string; message: string }) =>
    failure({ status: 409, type: "conflict_error", code: error.code, message: error.message }),
  runBudgetExceeded: () =>
    conflict("budget_exceeded", "The remaining max_cost_tokens_per_run does not cover the next model call. Raise it."),
  /** `param`: the field of the agent's monthly cap. */
  monthlyBudgetExceeded: (param: string) =>
    conflict(
      "budget_exceeded",
      "The remaining max_cost_tokens_per_month does not cover the next model call. Raise it, or wait for the next month.",
      param,
    ),
  threadExists: () =>
    conflict("thread_exists", "A thread with this id exists. Chat in it, or choose another id.", "id"),
  threadBusy: () => conflict("thread_busy", "A turn of this thread is under way. Wait for its answer.", "thread_id"),
  keyRevoked: () => conflict("key_revoked", "A revoked key cannot be changed or rotated. Create another."),
  keyChanged: () => conflict("key_changed", "This key was changed at the same moment. Read it, and retry."),
  keyRotated: () =>
    conflict("key_rotated", "This key was rotated at the same moment. Use that answer, or rotate again."),
  webhookKeyUnreadable: () =>
    conflict(
      "key_unreadable",
      "This agent's key cannot be opened: the service's master key is another one now. Tell its operator.",
    ),
  secretLimitReached: (limit: number) =>
    conflict("secret_limit_reached", `You have ${limit} secrets. Delete one first.`),
  endpointLimitReached: (limit: number) =>
    conflict("endpoint_limit_reached", `You have ${limit} endpoints. Delete one first.`),
  planChangeInFlight: () =>
    conflict("plan_change_in_flight", "Another change of this subscription is in progress. Retry in a minute."),
  backupInProgress: () => conflict("backup_in_progress", "A backup is in progress. Start another when it has ended."),
  subscriptionPastDue: () =>
    conflict("subscription_past_due", "This subscription is past due. Pay its open invoice, then retry."),
  subscriptionPaidElsewhere: (provider: string) =>
    conflict(
      "subscription_paid_elsewhere",
      provider === "operator"
        ? "The operator of this service gave this subscription. Ask the operator to change it."
        : "Another payment provider runs this subscription. Change it there.",
    ),
  overageUnpaid: () =>
    conflict("overage_unpaid", "An overage invoice is unpaid. Pay it first: GET /api/v1/billing/invoices lists it."),
  invoiceClosed: (status: string) => conflict("invoice_closed", `This invoice is already ${status}.`),
  invoiceCollectedElsewhere: (provider: string) =>
    conflict("invoice_collected_elsewhere", `${provider} collects this invoice. Record its outcome there.`),
  idempotencyInFlight: () =>
    conflict(
      "idempotency_in_flight",
      "The first request with this Idempotency-Key is still running. Retry in a moment.",
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
  /** `nearest`: the address that was probably meant. */
  noSuchPath: (asked: string, nearest: string | null) =>
    missing(
      nearest === null
        ? `${asked} is not an address of this API. GET /openapi.json lists them.`
        : `${asked} is not an address of this API. Use ${nearest}, and correct the base URL of your client.`,
    ),
  methodNotAllowed: (asked: string, allowed: readonly string[]) =>
    invalid(
      "method_not_allowed",
      `${asked} is not possible. This address takes ${allowed.join(", ")}.`,
      undefined,
      405,
    ),
  unsupportedMediaType: () =>
    invalid("unsupported_media_type", "Send the body as JSON with Content-Type: application/json.", undefined, 415),
  rateLimited: (retry_after_s: number, message = "Too many requests. Retry after the time in Retry-After.") =>
    failure({ status: 429, type: "rate_limit_error", code: "rate_limited", message, retry_after_s }),
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
  upstream: (message: string, cause?: unknown, retry_after_s?: number) =>
    failure({ status: 502, type: "api_error", code: "upstream_error", message, retry_after_s }, cause),
  upstreamTimeout: () =>
    failure({
      status: 504,
      type: "api_error",
      code: "upstream_timeout",
      message: "The model did not answer in time; nothing was charged. Retry, or use another model.",
    }),
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
  diskFull: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message:
        "The service's database has no space left, so nothing can be saved. Retry later; if it stays, tell the operator of this service.",
      retry_after_s: 5,
    }),
  stopping: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "This node stops and could not wait for the end of the answer. Send the request again.",
      retry_after_s: 1,
    }),
  noWorker: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "overloaded",
      message: "Runs are queued and no worker takes them. Start a node whose PURSER_ROLE is worker or all, then retry.",
      retry_after_s: 5,
    }),
  paymentsNotConfigured: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "payments_not_configured",
      message: "Nothing can be bought here yet. Ask the operator of this service to set up payments, or for tokens.",
    }),
  paymentFailed: (message = "The payment was refused. Check the payment method, or use another.") =>
    failure({ status: 402, type: "payment_required", code: "payment_failed", message }),
  notConnectable: () =>
    conflict(
      "not_connectable",
      "Only a secret of type oauth with the grant authorization_code is connected by a person.",
    ),
  /** `reason` is a sentence of our own, never of the authorization server. */
  oauthFailed: (reason: string) =>
    failure({
      status: 502,
      type: "api_error",
      code: "oauth_failed",
      message: `The sign-in could not begin: ${reason}. Correct the secret's settings, or ask the server's operator.`,
    }),
  toolDisabled: (tool: string) =>
    conflict("tool_disabled", `The agent's tool ${tool} is off. Set tools_config.${tool}.enabled to true first.`),
  /** `error` is that of a run's step, with a sentence of our own. */
  serverUnusable: ({ code, message }: { code: string; message: string }) =>
    failure({ status: 502, type: "api_error", code, message: `${message[0]?.toUpperCase()}${message.slice(1)}.` }),
  /** `message` names the secret, and says that it is out of use. */
  secretReflected: (message: string) => failure({ status: 502, type: "api_error", code: "secret_reflected", message }),
  vaultUnavailable: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "vault_unavailable",
      message:
        "The vault cannot be used now; nothing was changed. Retry; if it stays, tell the operator of this service.",
    }),
} as const;
