import { errors } from "../errors.ts";
import type { Payments } from "./payments.types.ts";

/** PURSER_PAYMENTS=none: users cannot buy anything. Every order fails with 503 `payments_not_configured`. */
export function createDisabledPayments(): Payments {
  const fail = async () => {
    throw errors.paymentsNotConfigured();
  };
  return {
    provider: "none",
    runs_periods: false,
    topUp: fail,
    subscribe: fail,
    changePlan: fail,
    setCancelAtPeriodEnd: fail,
    endSubscription: fail,
    chargeOverage: fail,
  };
}
