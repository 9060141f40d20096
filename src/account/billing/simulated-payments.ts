import { billingErrors } from "./errors.ts";
import type { PaymentProvider, ProviderName, Started } from "./payments.types.ts";

/**
 * Payments that succeed at once and move no money. `sandbox` records the amounts that a purchase would cost. `operator`
 * records 0 cents, because the operator gives the tokens; it never charges overage.
 */
export function createSimulatedPayments(provider: "sandbox" | "operator"): PaymentProvider {
  const started = (...events: Started["events"]): Started => ({
    checkout_url: null,
    customer_reference: null,
    reference: null,
    events,
  });
  const payment = ({ payment_id, amount_cents }: { payment_id: string; amount_cents: number }) =>
    started({
      provider,
      event_id: `paid:${payment_id}`,
      kind: "paid",
      payment_id,
      reference: `${provider}:${payment_id}`,
      amount_cents: paidCents(provider, amount_cents),
    });
  return {
    provider,
    runs_periods: false,
    topUp: async (order) => payment(order),
    subscribe: runsNoPeriods,
    changePlan: async (order) => (order.when === "now" ? payment(order) : started()),
    refund: async ({ payment_id, reference, amount_cents, refunded_cents }) => ({
      provider,
      event_id: `refund:${payment_id}:${refunded_cents}`,
      kind: "refunded",
      reference,
      refunded_cents: refunded_cents + amount_cents,
      refund_failed_cents: 0,
    }),
    setCancelAtPeriodEnd: runsNoPeriods,
    endSubscription: runsNoPeriods,
    chargeTopUp: async (order) => payment(order),
    withdraw: async ({ payment_id }) => [
      { provider, event_id: `voided:${payment_id}`, kind: "voided" as const, payment_id },
    ],
    chargeOverage: provider === "operator" ? collectedManually : async (order) => payment(order),
  };
}

/** Billing calls this only for providers that run periods themselves. */
async function runsNoPeriods(): Promise<never> {
  throw new Error("Simulated payments do not run subscription periods; Purser's clock does.");
}

async function collectedManually(): Promise<never> {
  throw new Error("The operator collects overage manually; there is nothing to charge here.");
}

/** The cents that count as paid. The operator's gifts cost nothing, so no refund of them is possible. */
export function paidCents(provider: ProviderName, amount_cents: number): number {
  return provider === "operator" ? 0 : amount_cents;
}

/** PURSER_PAYMENTS=none: users cannot buy anything. Every order fails with 503 `payments_not_configured`. */
export function createDisabledPayments(): PaymentProvider {
  const fail = async () => {
    throw billingErrors.paymentsNotConfigured();
  };
  return {
    provider: "none",
    runs_periods: false,
    topUp: fail,
    subscribe: fail,
    changePlan: fail,
    refund: fail,
    setCancelAtPeriodEnd: fail,
    endSubscription: fail,
    chargeOverage: fail,
    chargeTopUp: fail,
    withdraw: fail,
  };
}
