import { accessErrors } from "./errors-access.ts";
import { conflictErrors } from "./errors-conflict.ts";
import { PAYMENT_CODES, paymentErrors } from "./errors-payment.ts";
import { requestErrors } from "./errors-request.ts";
import { serviceErrors } from "./errors-service.ts";
import { PurserError } from "./purser-error.ts";
import { isDatabaseAway, isErasedUser } from "./sql-state.ts";

/**
 * Every failure a caller can expect, by its status in one of the files errors-*.ts: code, status, and a sentence that
 * says what to do next. Detail that could give something away goes to the log, never here.
 */

export type * from "./errors-payment.ts";
export { type ErrorShape, PurserError } from "./purser-error.ts";
export { PAYMENT_CODES };

export const errors = { ...requestErrors, ...accessErrors, ...paymentErrors, ...conflictErrors, ...serviceErrors };

/** The codes of all of them, for metrics that start at 0: the first failure after a start counts as an increase, too. */
export const ERROR_CODES = [
  "account_suspended",
  "agent_disabled",
  "agent_limit_reached",
  "agent_storage_full",
  "answer_not_kept",
  "api_key_limit_reached",
  "backup_in_progress",
  "body_too_large",
  "budget_exceeded",
  "budget_limit_reached",
  "budgeted_key",
  "context_length_exceeded",
  "email_taken",
  "end_user_budget_exceeded",
  "endpoint_limit_reached",
  "expired_api_key",
  "headers_too_large",
  "idempotency_in_flight",
  "idempotency_mismatch",
  "in_flight_exhausted",
  "insufficient_balance",
  "insufficient_role",
  "insufficient_scope",
  "internal",
  "invalid_api_key",
  "invalid_credentials",
  "invalid_cursor",
  "invalid_json",
  "invalid_value",
  "invoice_closed",
  "invoice_collected_elsewhere",
  "key_budget_exceeded",
  "key_changed",
  "key_revoked",
  "key_rotated",
  "key_unreadable",
  "malformed_request",
  "method_not_allowed",
  "missing_api_key",
  "missing_field",
  "model_not_allowed",
  "model_not_found",
  "model_not_trial_eligible",
  "name_taken",
  "not_connectable",
  "not_found",
  "oauth_failed",
  "order_limit_reached",
  "origin_refused",
  "out_of_tokens",
  "overage_cap_reached",
  "overage_requires_subscription",
  "overage_unpaid",
  "overloaded",
  "payment_failed",
  "payments_not_configured",
  "plan_change_in_flight",
  "previous_response_not_found",
  "proxy_not_configured",
  "purchase_not_refundable",
  "rate_limited",
  "request_timeout",
  "revoked_api_key",
  "run_already_finished",
  "run_cancelled",
  "secret_limit_reached",
  "secret_reflected",
  "session_expired",
  "signup_closed",
  "subscription_paid_elsewhere",
  "subscription_past_due",
  "thread_busy",
  "thread_exists",
  "thread_limit_reached",
  "tool_disabled",
  "trial_ended",
  "unknown_field",
  "unknown_parameter",
  "unsupported_media_type",
  "unsupported_parameter",
  "upstream_error",
  "upstream_timeout",
  "vault_unavailable",
] as const;

/** The failure that a caller gets for any thrown value. An unexpected one becomes `internal`, and is its cause. */
export function asPurserError(thrown: unknown): PurserError {
  if (thrown instanceof PurserError) return thrown;
  if (isErasedUser(thrown)) return errors.notFound("This user");
  return isDatabaseAway(thrown) ? errors.databaseAway(thrown) : errors.internal(thrown);
}
