import { FAILED_ORDER_HOURS, UNPAID_ORDER_HOURS, USER_ROWS } from "../../kernel/constants.ts";
import { conflict, failure, forbidden, invalid, missing } from "../../kernel/purser-error.ts";

/** Errors of plans, subscriptions, payments and overage. */
export const billingErrors = {
  paymentsNotConfigured: () =>
    failure({
      status: 503,
      type: "api_error",
      code: "payments_not_configured",
      message: "Nothing can be bought here yet. Ask the operator of this service to set up payments, or for tokens.",
    }),
  paymentFailed: (message = "The payment was refused. Check the payment method, or use another.") =>
    failure({ status: 402, type: "payment_required", code: "payment_failed", message }),
  balanceTooLarge: () =>
    invalid(
      "invalid_value",
      "amount_tokens would make the balance too large to stay exact. Give fewer tokens.",
      "amount_tokens",
    ),
  orderLimitReached: () =>
    conflict(
      "order_limit_reached",
      `You have ${USER_ROWS.unpaid_orders} purchases and plan changes that are not paid: open ones of the last ${UNPAID_ORDER_HOURS} hours, failed ones of the last ${FAILED_ORDER_HOURS === 1 ? "hour" : `${FAILED_ORDER_HOURS} hours`}. Pay one at its checkout_url, or wait.`,
    ),
  purchaseNotRefundable: (status: string) =>
    conflict(
      "purchase_not_refundable",
      `No money of this purchase can be returned: it is ${status}. Only paid purchases that were not refunded yet can be refunded.`,
    ),
  noSubscription: () => missing("There is no subscription to cancel. POST /api/v1/billing/subscription makes one."),
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
  overageRequiresSubscription: () =>
    forbidden("overage_requires_subscription", "Overage needs a subscription. Subscribe to a plan first."),
  overageUnpaid: () =>
    conflict("overage_unpaid", "An overage invoice is unpaid. Pay it first: GET /api/v1/billing/invoices lists it."),
  invoiceClosed: (status: string) => conflict("invoice_closed", `This invoice is already ${status}.`),
  invoiceCollectedElsewhere: (provider: string) =>
    conflict("invoice_collected_elsewhere", `${provider} collects this invoice. Record its outcome there.`),
  archived: (what: string, before: string) =>
    missing(
      `${what} is not in the database. Rows of before ${before} are in the operator's archive: ask the operator for them.`,
    ),
};
