import type { Instant } from "../platform/db.ts";
import type { Plan } from "./plan.ts";

/**
 * How money comes in, or, with the provider `operator`, tokens as if money had come in, and invoices that the operator
 * collects by hand. Purser decides what is bought and what it grants; a provider moves the money and tells of it in
 * PaymentEvents. Amounts are whole cents. Every id that Purser makes (`payment_id`, `subscription_id`) is handed to the
 * provider as metadata and comes back in its events; every `…reference` is the provider's own id.
 */
export type Provider = "operator" | "sandbox" | "stripe";

/** Who pays. `customer_reference` is the provider's customer, once it has named one. */
export interface Payer {
  user_id: string;
  email: string | null;
  customer_reference: string | null;
}

/** Where a hosted checkout page leads back to; null: a page of the provider's or the adapter's choice. */
export interface ReturnUrls {
  success_url: string | null;
  cancel_url: string | null;
}

/** A one-time top-up. */
export interface TopUpOrder extends ReturnUrls {
  payment_id: string;
  payer: Payer;
  amount_cents: number;
  currency: string;
  tokens: number;
}

/** A new subscription, paid monthly from its first payment on. */
export interface SubscriptionOrder extends ReturnUrls {
  subscription_id: string;
  payer: Payer;
  plan: Plan;
}

/** What the user has at the provider already. */
export interface RunningSubscription {
  subscription_id: string;
  subscription_reference: string | null;
}

/**
 * Another plan for a running subscription, whose periods stay where they are. `now` charges the price's difference for
 * the rest of the period, `amount_cents` by Purser's reckoning, as the payment `payment_id`, and nothing else: the
 * price is told with `period_end` once that is paid. `period_end` charges nothing and takes the new price from the next
 * period on. Called again with the present plan to take a change back.
 */
export type PlanChangeOrder = RunningSubscription & { payer: Payer; plan: Plan } & (
    | { when: "now"; payment_id: string; amount_cents: number }
    | { when: "period_end" }
  );

/** Overage used up to now, to be added to the user's invoices or charged at once. */
export interface OverageOrder {
  payment_id: string;
  payer: Payer;
  amount_cents: number;
  currency: string;
  description: string;
  /** The subscription whose overage it is, with the means it is paid by; null when the provider runs none. */
  subscription_reference: string | null;
}

/** What became of an order at once. */
export interface Started {
  /** The hosted page on which the payer completes it; null when there is nothing to do there. */
  checkout_url: string | null;
  /** The provider's customer, to be handed in with the next orders; null when it is not known yet. */
  customer_reference: string | null;
  /** The provider's id of the open checkout or the subscription, null when there is none. */
  reference: string | null;
  /** What is certain already, a refusal too: billing applies these at once, just as if they had come in by webhook. */
  events: PaymentEvent[];
}

/**
 * A provider. Every method may be called again with the same id after a crash and must then not charge twice (send the
 * id as the idempotency key, and look for what was begun under it where such keys are forgotten). Failures throw
 * `errors.paymentsNotConfigured()`, `errors.paymentFailed(…)` when the money was refused, or `errors.upstream(…)`, whose
 * message says what is known of the money.
 */
export interface Payments {
  readonly provider: Provider | "none";
  /**
   * true: the provider runs the periods and tells of each in `period_paid`. false: Purser's own clock does, and then
   * `subscribe`, `setCancelAtPeriodEnd` and `endSubscription` are never asked for.
   */
  readonly runs_periods: boolean;
  topUp(order: TopUpOrder): Promise<Started>;
  changePlan(order: PlanChangeOrder): Promise<Started>;
  /** A refusal does not throw: it is a `failed` event, for what was used stays owed. `checkout_url` is where it can be paid. */
  chargeOverage(order: OverageOrder): Promise<Started>;
  subscribe(order: SubscriptionOrder): Promise<Started>;
  /** true: no further period after this one; false takes that back. */
  setCancelAtPeriodEnd(order: RunningSubscription & { cancel: boolean }): Promise<void>;
  /** Ends it at the provider at once, refunding nothing; harmless when it has ended. Also gives up an open checkout (`reference` of its Started). */
  endSubscription(order: RunningSubscription & { checkout_reference: string | null }): Promise<void>;
}

/** What a bill came to, before any credit that the customer had. */
export interface Billed {
  amount_cents: number;
  currency: string;
}

/** `event_id` names the event for ever, unique within its provider: a second one with it changes nothing. */
interface EventBase {
  provider: Provider;
  event_id: string;
  customer_reference?: string;
}

/**
 * What a provider tells, normalised. The order in which events come in does not matter, nor does how often:
 * `billing.applyPaymentEvent` is idempotent by `event_id` and by what each is about.
 *
 * `reference` is the provider's id of the money that was moved (Stripe: the payment intent): refunds and disputes find
 * what it bought by it, so that no two payments may share one. One that comes before its payment waits for it.
 */
export type PaymentEvent = EventBase &
  /** `amount_cents` was paid of `billed`, which has to be what was ordered; absent where Purser itself made the event. */
  (
    | { kind: "paid"; payment_id: string; reference: string; amount_cents: number; billed?: Billed }
    /** Given up or refused: a checkout that expired, an invoice that is unpaid or written off. Never undoes `paid`. */
    | { kind: "failed"; payment_id: string }
    /** An invoice that is not asked for any more. Money may have come in all the same: it never undoes `paid`. */
    | { kind: "voided"; payment_id: string }
    | {
        kind: "period_paid";
        subscription_id: string;
        subscription_reference: string;
        /** The plan that was paid for. */
        plan_id: string;
        period_start: Instant;
        period_end: Instant;
        reference: string;
        amount_cents: number;
        billed?: Billed;
      }
    /** The period that begins at `period_start` was not paid (yet). The next `period_paid` makes it active again. */
    | {
        kind: "subscription_past_due";
        subscription_id: string;
        subscription_reference: string;
        period_start: Instant;
      }
    /** Over at the provider, whoever ended it; or its checkout was given up. */
    | { kind: "subscription_ended"; subscription_id: string; subscription_reference: string | null }
    /** The sums, so far, of all refunds of this payment that were ever made, and of those that failed after all: both only grow. */
    | { kind: "refunded"; reference: string; refunded_cents: number; refund_failed_cents: number }
    | { kind: "disputed"; reference: string; dispute_reference: string; disputed_cents: number }
    /** A dispute is over: won, the money stays here; lost, it is gone for good. */
    | { kind: "dispute_closed"; reference: string; dispute_reference: string; disputed_cents: number; won: boolean }
  );

/** What an event did: `waiting` for the payment that it is about; `ignored` when nothing of ours is meant. */
export type EventOutcome = "applied" | "duplicate" | "waiting" | "ignored";
