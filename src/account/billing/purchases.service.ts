import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import type { Tx } from "../../platform/db/db.ts";
import { isUuid, newId } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { AutoTopups } from "./auto-topup.service.ts";
import { type BillingContext, limitUnpaidOrders } from "./context.ts";
import { billingErrors } from "./errors.ts";
import type { Inbox } from "./inbox.service.ts";
import type { CreatedWithin, PageOfAll, PaymentRow, PurchaseState } from "./payments.store.ts";
import type { Billed, ProviderName, ReturnUrls } from "./payments.types.ts";
import { NOTHING_DUE, type Preview } from "./preview.ts";

const CURRENCY = "usd";

/** A top-up as the API shows it. */
export interface Purchase {
  id: string;
  status: "pending" | "succeeded" | "failed" | "refunded";
  amount_cents: number;
  refunded_cents: number;
  currency: string;
  tokens: number;
  checkout_url: string | null;
  bucket_id: string | null;
  created_at: Instant;
  /** Bought by an automatic top-up. */
  automatic?: true;
  sandbox?: true;
}

/** A purchase in the operator's list. */
interface AdminPurchase extends Omit<Purchase, "status"> {
  status: PurchaseState;
  user_id: string;
  purpose: "top_up" | "period" | "upgrade";
  provider: ProviderName;
  reference: string | null;
  /** The wrong bill of a mismatch. */
  billed: Billed | null;
}

/** One-time top-ups at the standard token rate. */
export function createPurchases(context: BillingContext, inbox: Inbox, auto_topups: Pick<AutoTopups, "isOn">) {
  const { db, clock, accounts, orders, payments } = context;
  return {
    /** Orders a top-up. `checkout_url` is the hosted payment page, if any. Throws 400, 402 `payment_failed`, 409 or 503. */
    async purchase(
      user_id: string,
      wanted: { amount_cents?: number | undefined; tokens?: number | undefined } & ReturnUrls,
    ): Promise<Purchase> {
      const price = purchasePrice(wanted);
      const { provider } = payments;
      if (provider === "none") throw billingErrors.paymentsNotConfigured();
      const about = { user_id, id: newId(), purpose: "top_up" as const, provider, created_at: clock.now() };
      const payment = await db.transaction(async (tx) => {
        await accounts.lock(tx, user_id);
        await limitUnpaidOrders(context, tx, user_id);
        return orders.insert(tx, { ...about, ...price, currency: CURRENCY }, null);
      });
      const { success_url, cancel_url } = wanted;
      const order = { payment_id: payment.id, payer: await context.payerOf(user_id), ...price, currency: CURRENCY };
      const save_method = await auto_topups.isOn(user_id);
      const started = await payments.topUp({ ...order, success_url, cancel_url, save_method }).catch(async (error) => {
        const event_id = `refused:${payment.id}`;
        await inbox.apply({ provider, event_id, kind: "failed", payment_id: payment.id });
        throw error;
      });
      await context.rememberCustomer(user_id, provider, started);
      await orders.setAccepted(payment, started);
      for (const event of started.events) await inbox.apply(event);
      return this.one(user_id, payment.id);
    },

    /** What this purchase costs. Throws as `purchase` does before it asks a provider. */
    async preview(
      user_id: string,
      wanted: { amount_cents?: number | undefined; tokens?: number | undefined },
    ): Promise<Preview> {
      const { amount_cents, tokens } = purchasePrice(wanted);
      if (payments.provider === "none") throw billingErrors.paymentsNotConfigured();
      await db.transaction((tx) => limitUnpaidOrders(context, tx, user_id));
      return { ...NOTHING_DUE, due_now_cents: amount_cents, tokens };
    },

    /** Returns the user's purchase. Throws 404 when it does not exist. */
    async one(user_id: string, id: string): Promise<Purchase> {
      const row = isUuid(id) ? await orders.topUp(user_id, id) : undefined;
      if (row === undefined) throw errors.notFound("This purchase");
      return purchaseRecord(row);
    },

    /** Newest first. */
    async list(user_id: string, page: { limit: number; before_id: string | null }): Promise<Purchase[]> {
      return (await orders.topUps(user_id, page)).map(purchaseRecord);
    },

    /**
     * Returns the money of a purchase of any user through its provider, and takes its tokens back. Throws 404, 409 when
     * no money can be returned, or the provider's failure. `record` is called before the provider is asked, and again in the
     * transaction of the refund: if the process dies between, the log still says who asked.
     */
    async refund(
      id: string,
      record: (tx: Tx, before: AdminPurchase, state: "requested" | "refunded") => Promise<void>,
    ): Promise<AdminPurchase> {
      const row = isUuid(id) ? await orders.byId(id) : undefined;
      if (row === undefined || row.purpose === "overage") throw errors.unknown("This purchase");
      const before = adminRecord(row);
      const paid_cents = row.status === "succeeded" ? row.paid_cents : (row.mismatch_cents ?? 0);
      const amount_cents = paid_cents - before.refunded_cents;
      if (amount_cents <= 0 || row.reference === null) throw billingErrors.purchaseNotRefundable(before.status);
      const provider = context.providerOf(row.provider);
      if (provider === null) throw billingErrors.paymentsNotConfigured();
      const { reference, refunded_cents } = row;
      await db.transaction((tx) => record(tx, before, "requested"));
      const event = await provider.refund({ payment_id: id, reference, amount_cents, refunded_cents });
      await inbox.apply(event, (tx) => record(tx, before, "refunded"));
      return adminRecord((await orders.byId(id)) ?? row);
    },

    /** Lists top-ups, upgrades and subscription periods of all users. */
    async listAll(
      filter: { status?: PurchaseState | undefined } & CreatedWithin,
      page: PageOfAll,
    ): Promise<AdminPurchase[]> {
      return (await orders.purchases(filter, page)).map(adminRecord);
    },
  };
}

function adminRecord(row: PaymentRow): AdminPurchase {
  const { user_id, purpose, provider, reference, mismatch_cents, mismatch_currency } = row;
  if (purpose === "overage") throw new Error("the list of purchases contains an overage invoice");
  const is_mismatch = mismatch_cents !== null && mismatch_currency !== null;
  const billed = is_mismatch ? { amount_cents: mismatch_cents, currency: mismatch_currency } : null;
  const record = purchaseRecord(row);
  return { ...record, status: is_mismatch ? "mismatch" : record.status, user_id, purpose, provider, reference, billed };
}

/** Shows a mismatch to its user as failed, or as refunded after a full refund. */
function purchaseRecord(row: PaymentRow): Purchase {
  const { id, amount_cents, currency, tokens, checkout_url, bucket_id, created_at } = row;
  const refunded_cents = row.refunded_cents - row.refund_failed_cents;
  return {
    id,
    status: isRefunded(row) ? "refunded" : row.status === "void" || row.status === "mismatch" ? "failed" : row.status,
    amount_cents,
    refunded_cents,
    currency,
    tokens,
    checkout_url,
    bucket_id,
    created_at,
    ...(row.automatic ? { automatic: true as const } : {}),
    ...(row.provider === "sandbox" ? { sandbox: true as const } : {}),
  };
}

/** Whether all money of a payment was returned. */
export function isRefunded(row: PaymentRow): boolean {
  const refunded_cents = row.refunded_cents - row.refund_failed_cents;
  const moved_cents = row.status === "succeeded" ? row.paid_cents : row.mismatch_cents;
  return moved_cents !== null && refunded_cents > 0 && refunded_cents >= moved_cents;
}

/** The cost and the tokens of a top-up. */
export interface PurchasePrice {
  amount_cents: number;
  tokens: number;
}

/**
 * The price of a top-up of `amount_cents` or `tokens`. Tokens are granted exactly; their price rounds up to a whole
 * cent. Throws 400 outside the limits, and when both or neither are given.
 */
export function purchasePrice(wanted: {
  amount_cents?: number | undefined;
  tokens?: number | undefined;
}): PurchasePrice {
  const { amount_cents, tokens } = wanted;
  if (amount_cents !== undefined && tokens !== undefined) {
    throw errors.invalidValue("tokens", "Give amount_cents or tokens, not both: each determines the other.");
  }
  if (amount_cents !== undefined)
    return checked("amount_cents", { amount_cents, tokens: amount_cents * TOKENS_PER_CENT });
  if (tokens !== undefined) return checked("tokens", { amount_cents: Math.ceil(tokens / TOKENS_PER_CENT), tokens });
  throw errors.missingField("amount_cents");
}

function checked(param: "amount_cents" | "tokens", price: PurchasePrice): PurchasePrice {
  const { min, max } = PURCHASE_CENTS;
  if (price.amount_cents >= min && price.amount_cents <= max) return price;
  const unit = param === "tokens" ? TOKENS_PER_CENT : 1;
  throw errors.invalidValue(
    param,
    `A purchase must cost ${min} to ${max} cents. Give ${param} between ${min * unit} and ${max * unit}.`,
  );
}
