import { errors } from "../errors.ts";
import type { Payments } from "./payments.types.ts";

/** PURSER_PAYMENTS=none: nothing can be bought; every order is 503 `payments_not_configured`. */
export function createNoPayments(): Payments {
  const refuse = async () => {
    throw errors.paymentsNotConfigured();
  };
  return {
    provider: "none",
    runs_periods: false,
    topUp: refuse,
    subscribe: refuse,
    changePlan: refuse,
    setCancelAtPeriodEnd: refuse,
    endSubscription: refuse,
    chargeOverage: refuse,
  };
}
