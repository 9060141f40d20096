import { OVERAGE_INVOICE_CENTS, TOKENS_PER_CENT } from "../constants.ts";
import { errors } from "../errors.ts";
import type { Tx } from "../platform/db.ts";
import { newId } from "../platform/ids.ts";
import type { BillingAccountRow } from "./accounts.store.ts";
import { type OverageStatus, overageCost, overageStatus } from "./overage-record.ts";
import type { BillingRoom } from "./room.ts";
import type { SubscriptionRow } from "./subscriptions.store.ts";

/** On-demand overage: who may use how much, and its invoices. The ledger counts it, within the cap that it is told here. */
export function createOverage(room: BillingRoom) {
  const { db, clock, ledger, accounts, subscriptions, orders } = room;

  const isUnpaid = (user_id: string, tx?: Tx) => orders.some(user_id, { purpose: "overage", status: "failed" }, tx);

  /** Tells the ledger the cap that follows from the subscription, the user's wish and unpaid invoices. */
  const sync = async (tx: Tx, user_id: string, row: SubscriptionRow | undefined): Promise<void> => {
    const account = await accounts.lock(tx, user_id);
    const allowed = account.overage_enabled && row?.status === "active" && !(await isUnpaid(user_id, tx));
    await ledger.setOverage({ user_id, cap_tokens: allowed ? capOf(account, row) : null }, tx);
  };

  const change = async (user_id: string, set: Partial<BillingAccountRow>): Promise<OverageStatus> => {
    await db.transaction(async (tx) => {
      await accounts.lock(tx, user_id);
      const row = await subscriptions.current(user_id, tx);
      if (row?.status !== "active" && set.overage_enabled !== false) throw errors.overageRequiresSubscription();
      if (set.overage_enabled === true && (await isUnpaid(user_id, tx))) {
        throw errors.conflict("overage_unpaid", "An overage invoice is unpaid. Pay it first.");
      }
      await accounts.update(tx, user_id, set);
      await sync(tx, user_id, row);
    });
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
      cap_tokens: capOf(account, row),
      used_tokens: counted.used_tokens,
      held_tokens: counted.held_tokens,
      invoiced_cents: account?.overage_invoiced_cents ?? 0,
      period: start === null || end === null ? null : { start, end },
    });
  };

  /** Orders an invoice over `cents` of overage; the outbox sends it. */
  const invoice = (tx: Tx, row: SubscriptionRow, cents: number) =>
    orders.insert(
      tx,
      {
        user_id: row.user_id,
        id: newId(),
        purpose: "overage",
        provider: row.provider,
        amount_cents: cents,
        currency: row.plan.currency,
        tokens: cents * TOKENS_PER_CENT,
        subscription_id: row.id,
        created_at: clock.now(),
      },
      0,
    );

  return {
    sync,
    status,
    enable: (user_id: string) => change(user_id, { overage_enabled: true }),
    disable: (user_id: string) => change(user_id, { overage_enabled: false }),
    /** null: back to the plan's included tokens. */
    setCap: (user_id: string, cap_tokens: number | null) => change(user_id, { overage_cap_tokens: cap_tokens }),

    /**
     * Ends the overage of a period, in the transaction that renews or ends the subscription: whole cents are invoiced,
     * the rest is carried into the next period. The caller has locked the user's billing.
     */
    async close(tx: Tx, row: SubscriptionRow): Promise<void> {
      const { user_id } = row;
      const { overage_invoiced_cents } = await accounts.lock(tx, user_id);
      const { cents, carried_tokens } = overageCost((await ledger.overage(user_id, tx)).used_tokens);
      await ledger.closeOveragePeriod({ user_id, carried_tokens }, tx);
      await accounts.update(tx, user_id, { overage_invoiced_cents: 0 });
      if (cents > overage_invoiced_cents) await invoice(tx, row, cents - overage_invoiced_cents);
    },

    /** Invoices what has come to the threshold within a period. */
    async invoiceAtThreshold(user_id: string): Promise<void> {
      await db.transaction(async (tx) => {
        const { overage_invoiced_cents } = await accounts.lock(tx, user_id);
        const row = await subscriptions.current(user_id, tx);
        const { cents } = overageCost((await ledger.overage(user_id, tx)).used_tokens);
        const due_cents = cents - overage_invoiced_cents;
        if (row === undefined || due_cents < OVERAGE_INVOICE_CENTS) return;
        await accounts.update(tx, user_id, { overage_invoiced_cents: cents });
        await invoice(tx, row, due_cents);
      });
    },
  };
}

export type Overage = ReturnType<typeof createOverage>;

/** The cap that holds: the user's own, else the plan's included tokens; null when neither is there. */
function capOf(account: BillingAccountRow | undefined, row: SubscriptionRow | undefined): number | null {
  return account?.overage_cap_tokens ?? row?.plan.included_tokens ?? null;
}
