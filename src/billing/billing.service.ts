import { OVERAGE_INVOICE_CENTS, TOKENS_PER_CENT, TOP_UP_MONTHS } from "../constants.ts";
import { errors, type Means } from "../errors.ts";
import type { Bucket, GrantSource } from "../ledger/ledger.types.ts";
import { addMonths } from "../platform/clock.ts";
import type { Instant } from "../platform/db.ts";
import type { DueSource } from "../platform/timeline.ts";
import { createInbox } from "./inbox.service.ts";
import { createInvoices } from "./invoices.service.ts";
import { createOutbox } from "./outbox.service.ts";
import { createOverage } from "./overage.service.ts";
import type { ReturnUrls } from "./payments.types.ts";
import { createPeriods, type OnRenewed } from "./periods.service.ts";
import { createPurchases } from "./purchases.service.ts";
import { type BillingOptions, createRoom } from "./room.ts";
import { createSubscriptions } from "./subscriptions.service.ts";

const THRESHOLD_TOKENS = OVERAGE_INVOICE_CENTS * TOKENS_PER_CENT;

/** A grant by the operator's hand. */
export interface OperatorGrant {
  amount_tokens: number;
  source: GrantSource;
  expires_at?: Instant | undefined;
  note?: string | undefined;
}

/** Plans, subscriptions, purchases and overage: decides what is granted when; the ledger alone writes balances. */
export function createBilling(options: BillingOptions & { notify?: OnRenewed }) {
  const { clock, ledger, payments } = options;
  const room = createRoom(options);
  const overage = createOverage(room);
  const periods = createPeriods(room, overage, async (renewal, tx) => options.notify?.(renewal, tx));
  const inbox = createInbox(room, periods, overage);
  const outbox = createOutbox(room, inbox.apply);
  const subscriptions = createSubscriptions(room, { periods, inbox, outbox });
  const purchases = createPurchases(room, inbox);

  /** Overage that has come to the threshold within its period, or that a call came to after the subscription's end. */
  const thresholds: DueSource = {
    name: "overage",
    nextDueAt: async () => null,
    async carryOut() {
      for (const { user_id } of await ledger.overageFrom(THRESHOLD_TOKENS, TOKENS_PER_CENT)) {
        await overage.invoiceDue(user_id);
      }
    },
  };

  return {
    plans: options.plans,
    /** How people pay here. The operator's hand, which also grants as if paid, is none of theirs. */
    payments: payments.provider === "operator" ? ("none" as const) : payments.provider,
    purchases,
    overage,
    invoices: createInvoices(room, inbox),
    /** In the order in which they are to be carried out. */
    sources: [inbox.waiting, periods.renewals, thresholds, outbox.source] satisfies DueSource[],
    /** Takes in what a payment provider tells. Idempotent; harmless in any order. */
    applyPaymentEvent: inbox.apply,
    subscription: subscriptions.current,
    cancelSubscription: subscriptions.cancel,
    /** The user subscribes or changes plans, and pays. */
    subscribe: (user_id: string, plan_id: string, urls?: ReturnUrls) =>
      subscriptions.choose(user_id, plan_id, payments, urls),
    /** The operator subscribes the user, or changes their plan, as if paid. */
    subscribeAsIfPaid: (user_id: string, plan_id: string) => subscriptions.choose(user_id, plan_id, room.operator),

    /** What a user whose tokens do not suffice could do about it. */
    async means(user_id: string): Promise<Means> {
      const [{ status }, { enabled, eligible }] = await Promise.all([
        subscriptions.current(user_id),
        overage.status(user_id),
      ]);
      const may_subscribe = status !== "active" && status !== "past_due";
      return { may_subscribe, overage: !eligible ? "never" : enabled ? "on" : "off" };
    },

    /** Grants tokens by the operator's hand; they last 12 months unless `expires_at` says otherwise. */
    async grant(user_id: string, wanted: OperatorGrant): Promise<Bucket> {
      const granted_at = clock.now();
      const expires_at = wanted.expires_at ?? addMonths(granted_at, TOP_UP_MONTHS);
      if (expires_at <= granted_at)
        throw errors.invalidValue("expires_at", `expires_at must lie after now (${granted_at}).`);
      const { amount_tokens, source } = wanted;
      const { posted } = await ledger.standing(user_id);
      if (posted + amount_tokens > Number.MAX_SAFE_INTEGER)
        throw errors.invalidValue("amount_tokens", "amount_tokens is more than this balance can take and stay exact.");
      return ledger.grant({ user_id, amount_tokens, source, granted_at, expires_at, note: wanted.note ?? null });
    },

    /** Ends what the user subscribed to, within the transaction that erases them. */
    forgetUser: subscriptions.forget,
  };
}

export type Billing = ReturnType<typeof createBilling>;
