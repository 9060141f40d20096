import { OVERAGE_INVOICE_CENTS, TOKENS_PER_CENT } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Tx } from "../../platform/db/db.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { BillingAccountChange, BillingAccountRow } from "./accounts.store.ts";
import type { BillingContext } from "./context.ts";
import { dryRun } from "./dry-run.ts";
import { billingErrors } from "./errors.ts";
import { highestCap, type OverageStatus, overageCollector, overageCost, overageStatus } from "./overage.ts";
import { NOTHING_DUE, type Preview } from "./preview.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** The settings that a user changes. */
type OverageChange = Pick<BillingAccountChange, "overage_enabled" | "overage_cap_tokens">;

/** On-demand overage: caps and invoices. The ledger counts the tokens and enforces the cap that this service sets. */
export function createOverage(context: BillingContext) {
  const { db, clock, ledger, accounts, subscriptions, orders, payments } = context;

  const isUnpaid = (user_id: string, tx?: Tx) => orders.some(user_id, { purpose: "overage", status: "failed" }, tx);
  const getCollector = (row: SubscriptionRow, account: BillingAccountRow | undefined) =>
    overageCollector(row, account, payments.provider);

  /** The cap in force: the user's own, or the plan's included tokens. null when neither exists. */
  const computeCap = (account: BillingAccountRow | undefined, row: SubscriptionRow | undefined): number | null => {
    const own = account?.overage_cap_tokens ?? null;
    if (row === undefined) return own;
    // another plan or payment method may allow less than the cap that the user set
    return Math.min(own ?? row.plan.included_tokens, highestCap(row, getCollector(row, account)));
  };

  /** Sets the cap in the ledger from the subscription, the user's setting and unpaid invoices. */
  const sync = async (tx: Tx, user_id: string, row: SubscriptionRow | undefined): Promise<void> => {
    const account = await accounts.lock(tx, user_id);
    const allowed = account.overage_enabled && row?.status === "active" && !(await isUnpaid(user_id, tx));
    await ledger.setOverage({ user_id, cap_tokens: allowed ? computeCap(account, row) : null }, tx);
  };

  const changeIn = async (tx: Tx, user_id: string, set: OverageChange) => {
    const account = await accounts.lock(tx, user_id);
    const row = await subscriptions.current(user_id, tx);
    if (row?.status !== "active" && set.overage_enabled !== false) {
      throw row?.status === "past_due"
        ? billingErrors.subscriptionPastDue()
        : billingErrors.overageRequiresSubscription();
    }
    if (set.overage_enabled === true && (await isUnpaid(user_id, tx))) {
      throw billingErrors.overageUnpaid();
    }
    if (row !== undefined) checkCap(set.overage_cap_tokens ?? 0, highestCap(row, getCollector(row, account)));
    await accounts.update(tx, user_id, set);
    await sync(tx, user_id, row);
    return row;
  };

  const change = async (user_id: string, set: OverageChange): Promise<OverageStatus> => {
    await db.transaction((tx) => changeIn(tx, user_id, set));
    await ledger.notifyGrant(user_id);
    return status(user_id);
  };

  const status = async (user_id: string): Promise<OverageStatus> => {
    const [account, row, counted, unpaid] = await Promise.all([
      accounts.find(user_id),
      subscriptions.current(user_id),
      ledger.overage(user_id),
      isUnpaid(user_id),
    ]);
    const { current_period_start: start = null, current_period_end: end = null } = row ?? {};
    return overageStatus({
      enabled: account?.overage_enabled ?? false,
      eligible: row?.status === "active" && !unpaid,
      cap_tokens: computeCap(account, row),
      used_tokens: counted.used_tokens,
      held_tokens: counted.held_tokens,
      invoiced_cents: account?.overage_invoiced_cents ?? 0,
      currency: row?.plan.currency ?? NOTHING_DUE.currency,
      period: start === null || end === null ? null : { start, end },
    });
  };

  /** Creates an overage invoice of `cents`. The outbox sends it, or the operator collects it manually. */
  const invoice = (tx: Tx, row: SubscriptionRow, account: BillingAccountRow, cents: number) => {
    const provider = getCollector(row, account);
    return orders.insert(
      tx,
      {
        user_id: row.user_id,
        id: newId(),
        purpose: "overage",
        provider,
        amount_cents: cents,
        currency: row.plan.currency,
        tokens: cents * TOKENS_PER_CENT,
        subscription_id: row.id,
        created_at: clock.now(),
      },
      provider === "operator" ? null : 0,
    );
  };

  /**
   * Closes the overage of a period in the transaction that renews or ends the subscription. Whole cents are invoiced,
   * the rest is carried over. The caller holds the lock on the user's billing.
   */
  const close = async (tx: Tx, row: SubscriptionRow): Promise<void> => {
    const { user_id } = row;
    const account = await accounts.lock(tx, user_id);
    const { cents, carried_tokens } = overageCost((await ledger.overage(user_id, tx)).used_tokens);
    await ledger.closeOveragePeriod({ user_id, carried_tokens }, tx);
    await accounts.update(tx, user_id, { overage_invoiced_cents: 0 });
    const due_cents = cents - account.overage_invoiced_cents;
    if (due_cents > 0) await invoice(tx, row, account, due_cents);
  };

  return {
    sync,
    close,
    status,
    enable: (user_id: string) => change(user_id, { overage_enabled: true }),
    disable: (user_id: string) => change(user_id, { overage_enabled: false }),
    /** What the overage of this period costs after a change: the change is made and rolled back. Throws as the change does. */
    async preview(user_id: string, set: OverageChange): Promise<Preview> {
      const { row, counted, invoiced_cents } = await dryRun(db, async (tx) => {
        const row = await changeIn(tx, user_id, set);
        const { overage_invoiced_cents: invoiced_cents } = await accounts.lock(tx, user_id);
        return { row, counted: await ledger.overage(user_id, tx), invoiced_cents };
      });
      const { cap_tokens, used_tokens, held_tokens } = counted;
      const most_tokens = Math.max(cap_tokens ?? 0, used_tokens + held_tokens);
      const due_cents = overageCost(used_tokens).cents - invoiced_cents;
      return {
        ...NOTHING_DUE,
        currency: row?.plan.currency ?? NOTHING_DUE.currency,
        next: row === undefined ? null : { at: row.current_period_end, amount_cents: due_cents },
        most_cents: overageCost(most_tokens).cents,
      };
    },
    /** null restores the default: the plan's included tokens. */
    setCap: (user_id: string, cap_tokens: number | null) => change(user_id, { overage_cap_tokens: cap_tokens }),

    /**
     * Invoices overage that reached the threshold within a period, or that was settled after the subscription ended.
     */
    async invoiceDue(user_id: string): Promise<void> {
      await db.transaction(async (tx) => {
        const account = await accounts.lock(tx, user_id);
        const row = await subscriptions.current(user_id, tx);
        if (row === undefined || row.status === "incomplete") {
          const last = await subscriptions.lastEnded(tx, user_id);
          if (last !== undefined) await close(tx, last);
          return;
        }
        const { cents } = overageCost((await ledger.overage(user_id, tx)).used_tokens);
        const due_cents = cents - account.overage_invoiced_cents;
        if (due_cents < OVERAGE_INVOICE_CENTS) return;
        await accounts.update(tx, user_id, { overage_invoiced_cents: cents });
        await invoice(tx, row, account, due_cents);
      });
    },
  };
}

export type Overage = ReturnType<typeof createOverage>;

function checkCap(cap_tokens: number, highest: number): void {
  if (cap_tokens > highest)
    throw errors.invalidValue("cap_tokens", `cap_tokens must be at most ${highest} for this subscription.`);
}
