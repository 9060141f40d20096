import type { Payments, Provider, Started } from "./payments.types.ts";

/**
 * Payments that succeed at once and move no money. `sandbox`: what a user buys while trying Purser out, in the amounts
 * that it would cost. `operator`: what the operator gives, as if paid, so that nothing was paid; overage is not given,
 * and is never asked for here.
 */
export function createAsIfPaid(provider: "sandbox" | "operator"): Payments {
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
    subscribe: runsNone,
    changePlan: async (order) => (order.when === "now" ? payment(order) : started()),
    setCancelAtPeriodEnd: runsNone,
    endSubscription: runsNone,
    chargeOverage: provider === "operator" ? byHand : async (order) => payment(order),
  };
}

/** Only asked of providers that run periods themselves. */
async function runsNone(): Promise<never> {
  throw new Error("the service's own clock runs the periods of what is as if paid");
}

async function byHand(): Promise<never> {
  throw new Error("the operator collects overage by hand");
}

/** What was paid of `amount_cents`: the operator's gifts cost nobody anything, and nothing can be refunded of them. */
export function paidCents(provider: Provider, amount_cents: number): number {
  return provider === "operator" ? 0 : amount_cents;
}
