import type { Means } from "../../account/ledger/errors.ts";
import { OVERAGE_INVOICE_CENTS, TOKENS_PER_CENT, TOP_UP_MONTHS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { InSameTx, Tx } from "../../platform/db/db.ts";
import type { DueSource } from "../../platform/db/sweeper.ts";
import { addMonths } from "../../platform/lib/clock.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { AccountStatus, Bucket, GrantSource } from "../ledger/ledger.types.ts";
import type { User } from "../users/accounts.service.ts";
import { createAutoTopups, type OnAutoTopupPaused } from "./auto-topup.service.ts";
import { type BillingOptions, createBillingContext } from "./context.ts";
import { billingErrors } from "./errors.ts";
import { createInbox } from "./inbox.service.ts";
import { createInvoices } from "./invoices.service.ts";
import { createMissedEvents, type OnEventsRead } from "./missed-events.service.ts";
import { createOutbox } from "./outbox.service.ts";
import { createOverage } from "./overage.service.ts";
import { createPaymentList } from "./payment-list.service.ts";
import type { ReturnUrls } from "./payments.types.ts";
import { createPeriods, type OnRenewed } from "./periods.service.ts";
import { createPurchases } from "./purchases.service.ts";
import { createSubscriptions, type Subscription } from "./subscriptions.service.ts";

const THRESHOLD_TOKENS = OVERAGE_INVOICE_CENTS * TOKENS_PER_CENT;

/** Tokens that the operator grants. */
export interface OperatorGrant {
  amount_tokens: number;
  source: GrantSource;
  expires_at?: Instant | undefined;
  note?: string | undefined;
}

/**
 * Plans, subscriptions, purchases and overage. Billing decides what to grant and when; only the ledger writes balances.
 */
export function createBilling(
  options: BillingOptions & {
    notify?: OnRenewed;
    onAutoTopupPaused?: OnAutoTopupPaused;
    onEventsRead?: OnEventsRead;
  },
) {
  const { clock, ledger, payments } = options;
  const context = createBillingContext(options);
  const overage = createOverage(context);
  const periods = createPeriods(context, overage, async (renewal, tx) => options.notify?.(renewal, tx));
  const auto_topups = createAutoTopups(context, async (pause, tx) => options.onAutoTopupPaused?.(pause, tx));
  const inbox = createInbox(context, periods, overage, auto_topups);
  const outbox = createOutbox(context, inbox.apply);
  const onRead: OnEventsRead = (read) => options.onEventsRead?.(read);
  const missed = createMissedEvents(context, { apply: inbox.apply, onRead });
  const subscriptions = createSubscriptions(context, { periods, inbox, outbox });
  const purchases = createPurchases(context, inbox, auto_topups);

  /**
   * Invoices overage that reached the threshold within its period, or that was settled after the subscription ended.
   */
  const thresholds: DueSource = {
    name: "overage",
    nextDueAt: async () => null,
    async carryOut() {
      for (const { user_id } of await ledger.accountsWithOverage(THRESHOLD_TOKENS, TOKENS_PER_CENT)) {
        await overage.invoiceDue(user_id);
      }
    },
  };

  return {
    plans: options.plans,
    /** How users pay here. The operator's simulated payments are not offered to users. */
    payments: payments.provider === "operator" ? ("none" as const) : payments.provider,
    purchases,
    overage,
    auto_topups,
    invoices: createInvoices(context, inbox),
    payment_list: createPaymentList(context),
    /** The due work, in the order in which it must run. */
    sources: [
      missed,
      inbox.waiting,
      periods.renewals,
      thresholds,
      auto_topups.source,
      outbox.source,
    ] satisfies DueSource[],
    /** Applies an event of a payment provider. Idempotent; events may arrive in any order. */
    applyPaymentEvent: inbox.apply,
    /** Deletes old events of payment providers; called periodically. */
    sweep: inbox.sweep,
    subscription: subscriptions.current,
    cancelSubscription: subscriptions.cancel,
    /** The user subscribes or changes plans, and pays for it. */
    subscribe: (user_id: string, plan_id: string, urls?: ReturnUrls) =>
      subscriptions.choose(user_id, plan_id, payments, urls),
    /** What choosing this plan costs. */
    previewPlan: (user_id: string, plan_id: string) => subscriptions.preview(user_id, plan_id, payments),
    /** The operator subscribes the user or changes their plan. No money moves. */
    subscribeWithoutPayment: (user_id: string, plan_id: string, also?: InSameTx<Subscription>) =>
      subscriptions.choose(user_id, plan_id, context.operator, undefined, also),

    /** What a user without enough tokens can do about it. */
    async means(user_id: string): Promise<Means> {
      const [{ status }, { enabled, eligible }] = await Promise.all([
        subscriptions.current(user_id),
        overage.status(user_id),
      ]);
      const may_subscribe = status !== "active" && status !== "past_due";
      return { may_subscribe, overage: !eligible ? "never" : enabled ? "on" : "off" };
    },

    /** Grants tokens on behalf of the operator, with `also` in the same transaction. They expire after 12 months unless `expires_at` is given. */
    async grant(user_id: string, wanted: OperatorGrant, also?: InSameTx<Bucket>): Promise<Bucket> {
      const granted_at = clock.now();
      const expires_at = wanted.expires_at ?? addMonths(granted_at, TOP_UP_MONTHS);
      if (expires_at <= granted_at)
        throw errors.invalidValue("expires_at", `expires_at must be later than now (${granted_at}).`);
      const { amount_tokens, source } = wanted;
      const { posted } = await ledger.accountStatus(user_id);
      if (posted + amount_tokens > Number.MAX_SAFE_INTEGER) throw billingErrors.balanceTooLarge();
      const grant = { user_id, amount_tokens, source, granted_at, expires_at, note: wanted.note ?? null };
      const bucket = await options.db.transaction(async (tx) => {
        const granted = await ledger.grant(grant, tx);
        await also?.(tx, granted);
        return granted;
      });
      await ledger.notifyGrant(user_id);
      return bucket;
    },

    /** Ends the user's subscription and automatic top-ups in the transaction that erases the user. */
    async forgetUser(tx: Tx, user_id: string): Promise<void> {
      await subscriptions.forget(tx, user_id);
      await auto_topups.forget(tx, user_id);
    },
  };
}

export type Billing = ReturnType<typeof createBilling>;

/** contract 3: the profile, from the user, their token account and their subscription once it is paid. */
export function profileOf(user: User, account: AccountStatus, { status, plan_id }: Subscription) {
  const { posted, held, available, debt } = account;
  return {
    id: user.id,
    email: user.email ?? "",
    token_balance: available,
    is_trial: account.is_trial,
    trial_ends_at: account.trial_ends_at,
    created_at: user.created_at,
    plan: status === "active" || status === "past_due" ? plan_id : null,
    balance: { posted, held, available, debt },
    operator_role: user.operator_role,
  };
}
