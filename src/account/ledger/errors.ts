import { USER_ROWS } from "../../kernel/constants.ts";
import { conflict, failure, invalid, tooMany } from "../../kernel/purser-error.ts";

/** contract 2: what a 402 tells besides its code and its remedies. Token counts. */
export interface PaymentFigures {
  required: number;
  available: number;
  held: number;
  shortfall: number;
  max_affordable_output_tokens?: number;
}

export type PaymentCode =
  | "trial_ended"
  | "key_budget_exceeded"
  | "end_user_budget_exceeded"
  | "overage_cap_reached"
  | "out_of_tokens"
  | "in_flight_exhausted"
  | "insufficient_balance";

/** The remedies that a user without tokens has. */
export interface Means {
  /** True without a running subscription. */
  may_subscribe: boolean;
  /** `never`: without an active subscription, or with an unpaid invoice. */
  overage: "on" | "off" | "never";
}
/** Called only for a 402. */
export type MeansOf = (user_id: string) => Promise<Means>;

/** Filters the remedies for this user. A user with overage can raise its cap. */
function remediesFor(remedies: readonly string[], { may_subscribe, overage }: Means): string[] {
  return remedies.flatMap((remedy) => {
    if (remedy === "subscribe") return may_subscribe ? remedy : [];
    if (remedy === "enable_overage" && overage === "on") return "raise_overage_cap";
    if (remedy === "enable_overage" && overage === "never") return [];
    return remedy;
  });
}

/** The message and the remedies of each 402. */
const PAYMENT: Record<PaymentCode, { message: string; remedies: string[]; retry_after_s?: number }> = {
  trial_ended: {
    message: "The free trial has ended. Subscribe to a plan or buy a top-up to go on.",
    remedies: ["subscribe", "top_up"],
  },
  key_budget_exceeded: {
    message:
      "This API key's budget does not cover this request. Use another key, raise its budget_tokens (PATCH /api/v1/api-keys/{id}), or wait for its budget_resets_at.",
    remedies: ["use_another_key", "create_another_key"],
  },
  end_user_budget_exceeded: {
    message:
      "The budget of this end user (the request's user) does not cover this request. Raise it: PUT /api/v1/end-user-budgets/{user}.",
    remedies: ["raise_end_user_budget"],
  },
  overage_cap_reached: {
    message: "The overage cap of this period is reached. Raise the cap, top up, or wait for the renewal.",
    remedies: ["raise_overage_cap", "top_up"],
  },
  out_of_tokens: {
    message: "No tokens are left. Subscribe, buy a top-up, or (as a subscriber) enable overage.",
    remedies: ["top_up", "subscribe", "enable_overage"],
  },
  in_flight_exhausted: {
    message: "The balance is held by calls in flight. Retry when they have settled, or top up.",
    remedies: ["retry", "top_up"],
    retry_after_s: 2,
  },
  insufficient_balance: {
    message: "The balance does not cover this request. Lower max_tokens, or top up.",
    remedies: ["lower_max_tokens", "top_up", "subscribe", "enable_overage"],
  },
};

export const PAYMENT_CODES = Object.keys(PAYMENT) as PaymentCode[];

/** Errors of the ledger: every 402 with its figures and remedies, and others. */
export const ledgerErrors = {
  payment: (code: PaymentCode, figures: PaymentFigures, means: Means) => {
    const { message, remedies, retry_after_s } = PAYMENT[code];
    const metadata = { ...figures, remedies: remediesFor(remedies, means) };
    return failure({ status: 402, type: "payment_required", code, message, metadata, retry_after_s });
  },
  /** `free`: tokens that no call holds. */
  adjustmentTooLarge: (free: number) =>
    invalid(
      "invalid_value",
      `The user has ${free} tokens that no call holds, so no more can be taken. Give an amount_tokens of at least -${free}.`,
      "amount_tokens",
    ),
  budgetLimitReached: () =>
    conflict("budget_limit_reached", tooMany(USER_ROWS.end_user_budgets, "budgets of end users")),
};
