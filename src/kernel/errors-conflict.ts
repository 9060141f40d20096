import { AGENT_BYTES, FAILED_ORDER_HOURS, UNPAID_ORDER_HOURS, USER_ROWS } from "./constants.ts";
import { failure } from "./purser-error.ts";

/** 409: the request is valid, but the present state does not allow it. A test compares the codes with contract 2. */

const conflict = (code: string, message: string, param?: string) =>
  failure({ status: 409, type: "conflict_error", code, message, param });

/** `what` the user has as many of as contract 2.16 allows. */
const tooMany = (limit: number, what: string, remedy = "Delete one first.") => `You have ${limit} ${what}. ${remedy}`;

export const conflictErrors = {
  nameTaken: (what: string) => conflict("name_taken", `${what} already exists. Choose another name.`, "name"),
  /** For the operator, who creates a user. `emailTaken` is for people who sign up. */
  userExists: () => conflict("name_taken", "A user with this e-mail address exists. Use another address.", "email"),
  emailTaken: () =>
    conflict("email_taken", "This address has an account already. Sign in, or ask for a new password.", "email"),
  agentDisabled: () => conflict("agent_disabled", "This agent is disabled. Set is_active to true first."),
  toolDisabled: (tool: string) =>
    conflict("tool_disabled", `The agent's tool ${tool} is off. Set tools_config.${tool}.enabled to true first.`),
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
  agentLimitReached: () => conflict("agent_limit_reached", tooMany(USER_ROWS.agents, "agents")),
  agentStorageFull: () =>
    conflict(
      "agent_storage_full",
      `Your agents and their earlier versions have ${AGENT_BYTES / 1_048_576} MB. Delete an agent first.`,
    ),
  apiKeyLimitReached: () =>
    conflict(
      "api_key_limit_reached",
      tooMany(USER_ROWS.api_keys, "API keys that are neither revoked nor expired", "Revoke one first."),
    ),
  threadLimitReached: () =>
    conflict(
      "thread_limit_reached",
      tooMany(USER_ROWS.empty_threads, "threads without a turn", "Chat in one, or delete one first."),
    ),
  budgetLimitReached: () =>
    conflict("budget_limit_reached", tooMany(USER_ROWS.end_user_budgets, "budgets of end users")),
  orderLimitReached: () =>
    conflict(
      "order_limit_reached",
      `You have ${USER_ROWS.unpaid_orders} purchases and plan changes that are not paid: open ones of the last ${UNPAID_ORDER_HOURS} hours, failed ones of the last ${FAILED_ORDER_HOURS === 1 ? "hour" : `${FAILED_ORDER_HOURS} hours`}. Pay one at its checkout_url, or wait.`,
    ),
  secretLimitReached: () => conflict("secret_limit_reached", tooMany(USER_ROWS.secrets, "secrets")),
  notConnectable: () =>
    conflict(
      "not_connectable",
      "Only a secret of type oauth with the grant authorization_code is connected by a person.",
    ),
  mailEndpointExists: () => conflict("endpoint_limit_reached", tooMany(1, "endpoint for e-mail"), "url"),
  endpointLimitReached: () => conflict("endpoint_limit_reached", tooMany(USER_ROWS.webhook_endpoints, "endpoints")),
  purchaseNotRefundable: (status: string) =>
    conflict(
      "purchase_not_refundable",
      `No money of this purchase can be returned: it is ${status}. Only paid purchases that were not refunded yet can be refunded.`,
    ),
  planChangeInFlight: () =>
    conflict("plan_change_in_flight", "Another change of this subscription is in progress. Retry in a minute."),
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
  backupInProgress: () => conflict("backup_in_progress", "A backup is in progress. Start another when it has ended."),
  answerNotKept: () =>
    conflict(
      "answer_not_kept",
      "The request with this Idempotency-Key was carried out, and its answer was not kept, because your answers of the last day fill the room for them. Read its result with a GET.",
    ),
  idempotencyInFlight: () =>
    conflict(
      "idempotency_in_flight",
      "The first request with this Idempotency-Key is still running. Retry in a moment.",
    ),
};
