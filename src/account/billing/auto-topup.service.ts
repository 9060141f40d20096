import type { PauseReason } from "../../api/contract/payments.ts";
import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { DueSource } from "../../platform/db/sweeper.ts";
import { startOfMonth } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { type AutoTopupRow, createAutoTopupStore } from "./auto-topup.store.ts";
import type { BillingContext } from "./context.ts";
import { dryRun } from "./dry-run.ts";
import { billingErrors } from "./errors.ts";
import type { PaymentRow } from "./payments.store.ts";
import { NOTHING_DUE, type Preview } from "./preview.ts";

/** Users per step of the sweep. */
const STEP = 500;

/** Automatic top-ups as the API shows them. The numbers are null until the user has set them. */
export interface AutoTopup {
  enabled: boolean;
  threshold_tokens: number | null;
  amount_cents: number | null;
  monthly_cap_cents: number | null;
  status: "off" | "active" | "paused" | "cap_reached";
  paused_reason: PauseReason | null;
  paused_at: Instant | null;
  ordered_this_month_cents: number;
}

/** Fields that are left out or null keep their values. */
export interface AutoTopupChange {
  enabled?: boolean | undefined;
  threshold_tokens?: number | null | undefined;
  amount_cents?: number | null | undefined;
  monthly_cap_cents?: number | null | undefined;
}

/** The event of a pause. */
export interface AutoTopupPaused {
  user_id: string;
  payment_id: string;
  amount_cents: number;
  reason: PauseReason;
}

export type OnAutoTopupPaused = (pause: AutoTopupPaused, tx: Tx) => Promise<void>;

/**
 * Automatic top-ups: a sweep orders a purchase for each user whose balance is below their threshold, and the outbox sends
 * it. The lock on the user's billing allows one order at a time over all nodes.
 */
export function createAutoTopups(context: BillingContext, notify: OnAutoTopupPaused) {
  const { db, clock, ledger, accounts, orders, payments } = context;
  const store = createAutoTopupStore(db);

  const ordered = (user_id: string, tx?: Tx) =>
    store.ordered(user_id, { from: startOfMonth(clock.now()), provider: payments.provider }, tx);

  const isOrderAllowed = async (row: AutoTopupRow, tx?: Tx): Promise<boolean> => {
    const { cents, is_open } = await ordered(row.user_id, tx);
    return !is_open && cents + row.amount_cents <= row.monthly_cap_cents;
  };

  /** Orders a top-up if the settings want one now. */
  const orderIn = async (tx: Tx, user_id: string): Promise<PaymentRow | null> => {
    const { provider } = payments;
    await accounts.lock(tx, user_id);
    const row = await store.find(user_id, tx);
    if (provider === "none" || row === undefined || !row.enabled || row.paused_reason !== null) return null;
    if ((await ledger.accountsBelow([row], tx)).length === 0 || !(await isOrderAllowed(row, tx))) return null;
    const { amount_cents } = row;
    const about = { user_id, id: newId(), purpose: "top_up" as const, provider, created_at: clock.now() };
    const tokens = amount_cents * TOKENS_PER_CENT;
    return orders.insert(tx, { ...about, amount_cents, tokens, currency: "usd", automatic: true }, 0);
  };
  const order = async (user_id: string): Promise<void> => {
    if ((await context.userStatus(user_id)) === "active") await db.transaction((tx) => orderIn(tx, user_id));
  };

  const setIn = async (tx: Tx, user_id: string, wanted: AutoTopupChange): Promise<AutoTopupSettings | null> => {
    await accounts.lock(tx, user_id);
    const changed = mergedSettings(await store.find(user_id, tx), wanted);
    if (changed === null) return null;
    if (changed.enabled && payments.provider === "none") throw billingErrors.paymentsNotConfigured();
    await store.upsert(tx, { user_id, ...changed, paused_reason: null, paused_at: null });
    return changed;
  };

  const source: DueSource = {
    name: "automatic top-ups",
    nextDueAt: async () => null,
    async carryOut() {
      if (payments.provider === "none") return;
      for (let after: string | null = null; ; ) {
        const rows: AutoTopupRow[] = await store.atWork({ after, limit: STEP });
        const low = new Set((await ledger.accountsBelow(rows)).map(({ user_id }) => user_id));
        for (const row of rows) if (low.has(row.user_id) && (await isOrderAllowed(row))) await order(row.user_id);
        after = rows.at(-1)?.user_id ?? after;
        if (rows.length < STEP) return;
      }
    },
  };

  const get = async (user_id: string): Promise<AutoTopup> => {
    const [row, { cents }] = await Promise.all([store.find(user_id), ordered(user_id)]);
    return autoTopupRecord(row, cents);
  };

  return {
    source,
    get,
    /** Changes the settings and resumes them. Throws 400, and 503 where users cannot pay. */
    async set(user_id: string, wanted: AutoTopupChange): Promise<AutoTopup> {
      await db.transaction((tx) => setIn(tx, user_id, wanted));
      return get(user_id);
    },
    /** What these settings order at once, and the most of a month: they are stored and rolled back. Throws as `set` does. */
    async preview(user_id: string, wanted: AutoTopupChange): Promise<Preview> {
      const { settings, payment } = await dryRun(db, async (tx) => {
        const settings = await setIn(tx, user_id, wanted);
        return { settings, payment: await orderIn(tx, user_id) };
      });
      return {
        ...NOTHING_DUE,
        due_now_cents: payment?.amount_cents ?? 0,
        tokens: payment?.tokens ?? 0,
        most_cents: settings?.enabled ? settings.monthly_cap_cents : 0,
      };
    },
    /** Pauses the user's automatic top-ups because of `payment`, if it is one. The caller holds the billing lock. */
    async pause(tx: Tx, payment: PaymentRow, reason: PauseReason): Promise<void> {
      const { user_id, id: payment_id, amount_cents } = payment;
      if (!payment.automatic) return;
      const is_new = await store.pause(tx, user_id, { paused_reason: reason, paused_at: clock.now() });
      if (is_new) await notify({ user_id, payment_id, amount_cents, reason }, tx);
    },
    /** Whether a payment should save its card for automatic top-ups. */
    isOn: async (user_id: string): Promise<boolean> => (await store.find(user_id))?.enabled ?? false,
    forget: (tx: Tx, user_id: string) => store.delete(tx, user_id),
  };
}

export type AutoTopups = ReturnType<typeof createAutoTopups>;

function autoTopupRecord(row: AutoTopupRow | undefined, ordered_this_month_cents: number): AutoTopup {
  const { enabled = false, threshold_tokens = null, amount_cents = null, monthly_cap_cents = null } = row ?? {};
  const { paused_reason = null, paused_at = null } = row ?? {};
  const is_capped = ordered_this_month_cents + (amount_cents ?? 0) > (monthly_cap_cents ?? 0);
  return {
    enabled,
    threshold_tokens,
    amount_cents,
    monthly_cap_cents,
    status: !enabled ? "off" : paused_reason !== null ? "paused" : is_capped ? "cap_reached" : "active",
    paused_reason,
    paused_at,
    ordered_this_month_cents,
  };
}

type AutoTopupSettings = Pick<AutoTopupRow, "enabled" | "threshold_tokens" | "amount_cents" | "monthly_cap_cents">;

/** The settings after a change; null when nothing was set and they stay off. Throws 400. */
function mergedSettings(known: AutoTopupSettings | undefined, wanted: AutoTopupChange): AutoTopupSettings | null {
  const { enabled = true } = wanted;
  const threshold_tokens = wanted.threshold_tokens ?? known?.threshold_tokens;
  const amount_cents = wanted.amount_cents ?? known?.amount_cents;
  const monthly_cap_cents = wanted.monthly_cap_cents ?? known?.monthly_cap_cents;
  if (!enabled && threshold_tokens === undefined && amount_cents === undefined && monthly_cap_cents === undefined)
    return null;
  if (threshold_tokens === undefined) throw errors.missingField("threshold_tokens");
  if (amount_cents === undefined) throw errors.missingField("amount_cents");
  if (monthly_cap_cents === undefined) throw errors.missingField("monthly_cap_cents");
  const { min, max } = PURCHASE_CENTS;
  if (amount_cents < min || amount_cents > max)
    throw errors.invalidValue("amount_cents", `A purchase must cost ${min} to ${max} cents. Change amount_cents.`);
  if (monthly_cap_cents < amount_cents)
    throw errors.invalidValue("monthly_cap_cents", `monthly_cap_cents must be at least amount_cents, ${amount_cents}.`);
  return { enabled, threshold_tokens, amount_cents, monthly_cap_cents };
}
