import { errors } from "../../kernel/errors.ts";
import type { InSameTx } from "../../platform/db/db.ts";
import { isUuid } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BillingContext } from "./context.ts";
import { billingErrors } from "./errors.ts";
import type { Inbox } from "./inbox.service.ts";
import type { CreatedWithin, PageOfAll, PaymentRow } from "./payments.store.ts";
import type { PaymentEvent, ProviderName } from "./payments.types.ts";

/** `unpaid` stops overage until the invoice is paid or void; `open` does not. */
export type InvoiceStatus = "open" | "paid" | "unpaid" | "void";

/** An invoice for the overage of a period, or for a part of it, as the API shows it. */
export interface OverageInvoice {
  id: string;
  user_id: string;
  status: InvoiceStatus;
  amount_cents: number;
  refunded_cents: number;
  currency: string;
  tokens: number;
  collected_by: ProviderName;
  checkout_url: string | null;
  created_at: Instant;
  sandbox?: true;
}

/** The outcomes that the operator can record for an invoice that they collect manually. */
export type InvoiceVerdict = Exclude<InvoiceStatus, "open">;

// Only purchases can be a mismatch, because overage grants nothing.
const STATUS = { pending: "open", succeeded: "paid", failed: "unpaid", void: "void", mismatch: "unpaid" } as const;

/** Overage invoices. `overage.service.ts` writes them; providers and the operator report their outcome. */
export function createInvoices(context: BillingContext, inbox: Inbox) {
  const { orders } = context;
  return {
    /** Lists invoices of one user or of all users. */
    async list(
      filter: { user_id?: string; status?: InvoiceStatus | undefined } & CreatedWithin,
      page: PageOfAll,
    ): Promise<OverageInvoice[]> {
      const status = (Object.keys(STATUS) as PaymentRow["status"][]).find((each) => STATUS[each] === filter.status);
      return (await orders.invoices({ ...filter, status }, page)).map(invoiceRecord);
    },

    /**
     * Records the outcome of an invoice that the operator collects: paid, unpaid (stops overage) or void. Throws 404
     * for an unknown invoice, and 409 when a provider collects it or its outcome is final. `also` gets the invoice as it
     * was.
     */
    async settle(id: string, verdict: InvoiceVerdict, also?: InSameTx<OverageInvoice>): Promise<OverageInvoice> {
      const row = await one(id);
      if (row.provider !== "operator" && context.providerOf(row.provider) !== null)
        throw billingErrors.invoiceCollectedElsewhere(row.provider);
      const is_closed = row.status === "succeeded" ? verdict !== "paid" : row.status === "void" && verdict === "unpaid";
      if (is_closed) throw billingErrors.invoiceClosed(STATUS[row.status]);
      await inbox.apply(verdictEvent(row, verdict), async (tx) => also?.(tx, invoiceRecord(row)));
      return invoiceRecord(await one(id));
    },
  };

  async function one(id: string): Promise<PaymentRow> {
    const row = isUuid(id) ? await orders.byId(id) : undefined;
    if (row?.purpose !== "overage") throw errors.unknown("This invoice");
    return row;
  }
}

function verdictEvent({ provider, id: payment_id, amount_cents }: PaymentRow, verdict: InvoiceVerdict): PaymentEvent {
  const event = { provider, event_id: `${verdict}:${payment_id}`, payment_id };
  if (verdict === "unpaid") return { ...event, kind: "failed" };
  if (verdict === "void") return { ...event, kind: "voided" };
  return { ...event, kind: "paid", reference: `operator:${payment_id}`, amount_cents };
}

function invoiceRecord(row: PaymentRow): OverageInvoice {
  const { id, user_id, amount_cents, currency, tokens, provider, checkout_url, created_at } = row;
  return {
    id,
    user_id,
    status: STATUS[row.status],
    amount_cents,
    refunded_cents: row.refunded_cents - row.refund_failed_cents,
    currency,
    tokens,
    collected_by: provider,
    checkout_url,
    created_at,
    ...(provider === "sandbox" ? { sandbox: true as const } : {}),
  };
}
