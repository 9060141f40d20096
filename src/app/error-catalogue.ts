import { billingErrors } from "../account/billing/errors.ts";
import { ledgerErrors } from "../account/ledger/errors.ts";
import { noticeErrors } from "../account/notices/errors.ts";
import { userErrors } from "../account/users/errors.ts";
import { chatErrors } from "../agents/chat/errors.ts";
import { agentErrors } from "../agents/definitions/errors.ts";
import { runErrors } from "../agents/runs/errors.ts";
import { toolErrors } from "../agents/tools/errors.ts";
import { contractErrors } from "../api/contract/errors.ts";
import { httpErrors } from "../api/http/errors.ts";
import { gatewayErrors } from "../gateway/models/errors.ts";
import { errors } from "../kernel/errors.ts";
import { failure } from "../kernel/purser-error.ts";
import { backupErrors } from "../operator/backup/backup.service.ts";
import { operatorErrors } from "../operator/operator.routes.ts";
import { vaultErrors } from "../vault/errors.ts";

/** Errors of the process as a whole. */
export const appErrors = {
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
};

/** Every failure that a caller can expect, of all modules. */
export const ALL_ERRORS = {
  ...errors,
  ...contractErrors,
  ...httpErrors,
  ...userErrors,
  ...ledgerErrors,
  ...billingErrors,
  ...noticeErrors,
  ...vaultErrors,
  ...gatewayErrors,
  ...toolErrors,
  ...runErrors,
  ...agentErrors,
  ...chatErrors,
  ...operatorErrors,
  ...backupErrors,
  ...appErrors,
};

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
  "schedule_limit_reached",
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
