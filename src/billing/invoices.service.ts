import { errors } from "../errors.ts";
import type { Instant } from "../platform/db.ts";
import { isUuid } from "../platform/ids.ts";
import type { Inbox } from "./inbox.service.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { PaymentEvent, Provider } from "./payments.types.ts";
import type { BillingRoom } from "./room.ts";

/** `unpaid` stops overage until it is paid or void; `open` does not. */
export type InvoiceStatus = "open" | "paid" | "unpaid" | "void";

/** What a period's overage came to, or a part of that, as the API shows it. */
export interface OverageInvoice {
  id: string;
  user_id: string;
  status: InvoiceStatus;
  amount_cents: number;
  refunded_cents: number;
  currency: string;
  tokens: number;
  collected_by: Provider;
  checkout_url: string | null;
  created_at: Instant;
  sandbox?: true;
}

/** What the operator can say of an invoice that they collect by hand. */
export type InvoiceVerdict = Exclude<InvoiceStatus, "open">;

// Only purchases are a mismatch: overage grants nothing.
const STATUS = { pending: "open", succeeded: "paid", failed: "unpaid", void: "void", mismatch: "unpaid" } as const;

/** Invoices of overage: `overage.service.ts` writes them, providers and the operator tell what became of them. */
export function createInvoices(room: BillingRoom, inbox: Inbox) {
  const { orders } = room;
  return {
    /** Newest first; of one user, or of all. */
    async list(filter: { user_id?: string; status?: InvoiceStatus | undefined }, page: InvoicePage) {
      const status = (Object.keys(STATUS) as PaymentRow["status"][]).find((each) => STATUS[each] === filter.status);
      return (await orders.invoices({ ...filter, status }, page)).map(invoiceRecord);
    },

    /**
     * Notes what became of an invoice that the operator collects: paid, unpaid (overage stops) or void. 404; 409 where a
     * provider collects it, for it would go on doing so, and where that would take back what was noted before.
     */
    async settle(id: string, verdict: InvoiceVerdict): Promise<OverageInvoice> {
      const row = await one(id);
      if (row.provider !== "operator" && room.paymentsOf(row.provider) !== null) throw collectedElsewhere(row.provider);
      const is_closed = row.status === "succeeded" ? verdict !== "paid" : row.status === "void" && verdict === "unpaid";
      if (is_closed) throw errors.conflict("invoice_closed", `This invoice is ${STATUS[row.status]} already.`);
      await inbox.apply(verdictEvent(row, verdict));
      return invoiceRecord(await one(id));
    },
  };

  async function one(id: string): Promise<PaymentRow> {
    const row = isUuid(id) ? await orders.byId(id) : undefined;
    if (row?.purpose !== "overage") throw errors.notFound("This invoice");
    return row;
  }
}

interface InvoicePage {
  limit: number;
  before_id: string | null;
}

function verdictEvent({ provider, id: payment_id, amount_cents }: PaymentRow, verdict: InvoiceVerdict): PaymentEvent {
  const event = { provider, event_id: `${verdict}:${payment_id}`, payment_id };
  if (verdict === "unpaid") return { ...event, kind: "failed" };
  if (verdict === "void") return { ...event, kind: "voided" };
  return { ...event, kind: "paid", reference: `operator:${payment_id}`, amount_cents };
}

function collectedElsewhere(provider: Provider) {
  return errors.conflict("invoice_collected_elsewhere", `${provider} collects this invoice. Say it there.`);
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
