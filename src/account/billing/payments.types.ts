import type { Instant } from "../../platform/lib/instant.ts";
import type { Plan } from "./plan.ts";

/**
 * The source of a payment. `stripe` moves money, `sandbox` simulates it, `operator` gives tokens and collects invoices
 * manually. Purser decides what is bought and granted; the provider reports in PaymentEvents.
 * Amounts are whole cents. Purser sends its ids (`payment_id`, `subscription_id`) as metadata and receives them back in
 * events. Each `…reference` is an id of the provider.
 */
export type ProviderName = "operator" | "sandbox" | "stripe";

/** The payer. `customer_reference` is the customer's id at the provider, once known. */
export interface Payer {
  user_id: string;
  email: string | null;
  customer_reference: string | null;
}

/** The address that a hosted checkout page returns to. null uses the default of the adapter. */
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
  /** Saves the payment method, so that `chargeTopUp` can charge it later. */
  save_method: boolean;
}

/** A new subscription, paid monthly starting with the first payment. */
export interface SubscriptionOrder extends ReturnUrls {
  subscription_id: string;
  payer: Payer;
  plan: Plan;
}

/** The user's existing subscription at the provider. */
export interface RunningSubscription {
  subscription_id: string;
  subscription_reference: string | null;
}

/**
 * A plan change of a running subscription; its periods keep their dates. `now` charges only `amount_cents`, the price
 * difference for the rest of the period, as payment `payment_id`; the new price follows with `period_end` once that is
 * paid. `period_end` charges nothing now and sets the price from the next period. To undo a change, send the current
 * plan. With `cancel` it also sets what `setCancelAtPeriodEnd` sets.
 */
export type PlanChangeOrder = RunningSubscription & { payer: Payer; plan: Plan } & (
    | { when: "now"; payment_id: string; amount_cents: number }
    | { when: "period_end"; cancel?: boolean }
  );

/** An amount that is charged while the payer is away: overage used so far, or an automatic top-up. */
export interface BillOrder {
  payment_id: string;
  payer: Payer;
  amount_cents: number;
  currency: string;
  description: string;
  /** The subscription that supplies the payment method; null when the provider runs none. */
  subscription_reference: string | null;
}

/** The immediate result of an order. */
export interface Started {
  /** The hosted page where the payer completes the order; null when nothing is left to do there. */
  checkout_url: string | null;
  /** The customer's id at the provider, to send with later orders; null when not known yet. */
  customer_reference: string | null;
  /** The provider's id of the open checkout or subscription; null when there is none. */
  reference: string | null;
  /**
   * Events that are already certain, including a declined payment. Billing applies them at once, as if a webhook had
   * delivered them.
   */
  events: PaymentEvent[];
}

/**
 * A payment provider. Every method can be called again with the same id after a crash and must not charge twice: use
 * the id as idempotency key, and look up earlier attempts if the provider forgets keys.
 * Failures throw `errors.paymentsNotConfigured()`, `errors.paymentFailed(…)` for a declined payment, or
 * `errors.upstream(…)`; its message says what is known about the money.
 */
export interface PaymentProvider {
  readonly provider: ProviderName | "none";
  /** The list of events that this provider keeps; absent where there are no webhooks that can be missed. */
  readonly event_list?: EventList;
  /** Asks the provider for something that changes nothing. Returns what is wrong, or null. Absent: there is no provider. */
  check?(): Promise<string | null>;
  /**
   * true: the provider runs the periods and reports each in `period_paid`. false: Purser's clock runs them, and billing
   * never calls `subscribe`, `setCancelAtPeriodEnd` or `endSubscription`.
   */
  readonly runs_periods: boolean;
  topUp(order: TopUpOrder): Promise<Started>;
  changePlan(order: PlanChangeOrder): Promise<Started>;
  /**
   * A declined payment does not throw; it returns a `failed` event, because the amount is still owed. `checkout_url` is
   * the page to pay it.
   */
  chargeOverage(order: BillOrder): Promise<Started>;
  /** A declined payment does not throw; it returns a `failed` event. Nothing is owed then. */
  chargeTopUp(order: BillOrder): Promise<Started>;
  /**
   * Ends an order of `changePlan` (`now`) or `chargeTopUp` that must not be charged any more, and that an earlier call may
   * have begun. Returns its `paid` event if the money was taken before, a `voided` event if it cannot be taken any more,
   * or nothing while a payment is in progress, whose event follows.
   */
  withdraw(order: { payment_id: string; payer: Payer }): Promise<PaymentEvent[]>;
  subscribe(order: SubscriptionOrder): Promise<Started>;
  /** The page with the provider's receipt of moved money; null if there is none. Absent where no money moves. */
  receiptUrl?(reference: string): Promise<string | null>;
  /** Returns the money. The result is a `refunded` event with the new totals. */
  refund(order: RefundOrder): Promise<PaymentEvent>;
  /** true ends the subscription after this period; false undoes that. */
  setCancelAtPeriodEnd(order: RunningSubscription & { cancel: boolean }): Promise<void>;
  /**
   * Ends the subscription at the provider at once, without a refund; no error if it has already ended. Also cancels an
   * open checkout (`reference` of its Started).
   */
  endSubscription(order: RunningSubscription & { checkout_reference: string | null }): Promise<void>;
}

/** The events that a provider keeps, for reading those that its webhook did not deliver. */
export interface EventList {
  /** How long the provider keeps an event. */
  readonly kept_days: number;
  /**
   * A page of the events created from `from` to `to`, newest first, after the event `after`. Throws the provider's failure,
   * also when `after` is not kept any more.
   */
  page(options: { from: Instant; to: Instant; after: string | null; limit: number }): Promise<EventPage>;
}

export interface EventPage {
  events: ListedEvent[];
  has_more: boolean;
  /** The provider's clock when it answered; null if the answer has no time. */
  listed_at: Instant | null;
}

export interface ListedEvent {
  event_id: string;
  created_at: Instant;
  /**
   * What a webhook with this event would report: empty if it does not concern Purser, null if the provider does not have its
   * object any more. Throws when the provider does not answer.
   */
  paymentEvents(): Promise<PaymentEvent[] | null>;
}

/** The return of all money of a payment that has not been returned yet. */
export interface RefundOrder {
  payment_id: string;
  /** The provider's id of the moved money. */
  reference: string;
  amount_cents: number;
  /** The sum of refunds before this one. */
  refunded_cents: number;
}

/** The amount of a bill before the customer's credit is subtracted. */
export interface Billed {
  amount_cents: number;
  currency: string;
}

/** `event_id` is unique within its provider. A second event with the same id changes nothing. */
interface EventBase {
  provider: ProviderName;
  event_id: string;
  customer_reference?: string;
}

/**
 * A normalised provider event. Order and repetition do not matter: `billing.applyPaymentEvent` is idempotent by
 * `event_id` and by the object that the event is about.
 * `reference` is the provider's id of the moved money (Stripe: the payment intent). Refunds and disputes find their
 * payment by it, so each payment needs its own. An event that arrives before its payment waits.
 */
export type PaymentEvent = EventBase &
  /** `amount_cents` was paid of `billed`, which must equal the order. `billed` is absent in Purser's own events. */
  (
    | { kind: "paid"; payment_id: string; reference: string; amount_cents: number; billed?: Billed }
    /** Expired or declined: an expired checkout, or an invoice that is unpaid or written off. Never undoes `paid`. */
    | { kind: "failed"; payment_id: string }
    /** An invoice that is no longer due. Money may still have arrived, so it never undoes `paid`. */
    | { kind: "voided"; payment_id: string }
    | {
        kind: "period_paid";
        subscription_id: string;
        subscription_reference: string;
        /** The plan of the payment. */
        plan_id: string;
        period_start: Instant;
        period_end: Instant;
        reference: string;
        amount_cents: number;
        billed?: Billed;
      }
    /**
     * The period that begins at `period_start` is not paid. The next `period_paid` makes the subscription active again.
     */
    | {
        kind: "subscription_past_due";
        subscription_id: string;
        subscription_reference: string;
        period_start: Instant;
      }
    /** The subscription ended at the provider, or its checkout expired. */
    | { kind: "subscription_ended"; subscription_id: string; subscription_reference: string | null }
    /** Totals so far: all refunds of this payment, and the refunds that failed later. Both only grow. */
    | { kind: "refunded"; reference: string; refunded_cents: number; refund_failed_cents: number }
    | { kind: "disputed"; reference: string; dispute_reference: string; disputed_cents: number }
    /** A dispute closed. If won, the money stays; if lost, it does not come back. */
    | { kind: "dispute_closed"; reference: string; dispute_reference: string; disputed_cents: number; won: boolean }
  );

/** The effect of an event: `waiting` for its payment, or `ignored` because it concerns no object of Purser's. */
export type EventOutcome = "applied" | "duplicate" | "waiting" | "ignored";

/** A subscription that continues into its next period. */
export interface Renewal {
  user_id: string;
  plan_id: string;
  period_start: Instant;
  period_end: Instant;
}
