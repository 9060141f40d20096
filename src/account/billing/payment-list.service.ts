import { errors } from "../../kernel/errors.ts";
import { isUuid } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BillingContext } from "./context.ts";
import type { PaymentRow } from "./payments.store.ts";
import type { ProviderName } from "./payments.types.ts";
import { isRefunded } from "./purchases.service.ts";

/** A payment of any purpose, as its user sees it. */
export interface Payment {
  id: string;
  purpose: "top_up" | "automatic_top_up" | "plan" | "plan_change" | "overage";
  status: "pending" | "succeeded" | "failed" | "refunded" | "void";
  amount_cents: number;
  /** 0 for what the operator gave. */
  paid_cents: number;
  refunded_cents: number;
  currency: string;
  tokens: number;
  /** Of a plan. */
  period_start: Instant | null;
  collected_by: ProviderName;
  checkout_url: string | null;
  created_at: Instant;
  sandbox?: true;
}

/** What a receipt says about a payment. */
export interface PaymentDetail extends Payment {
  /** The plan that was paid, as it was called then. */
  plan_name: string | null;
  /** The provider's own receipt. */
  receipt_url: string | null;
}

const PURPOSES = { top_up: "top_up", period: "plan", upgrade: "plan_change", overage: "overage" } as const;

/** All payments of a user: top-ups, plans, plan changes and overage. */
export function createPaymentList(context: BillingContext) {
  const { ledger, orders } = context;

  /** Null: the payment moved no money through a provider, or the provider has no receipt or does not answer. */
  const findReceipt = async ({ status, provider, reference }: PaymentRow): Promise<string | null> => {
    if (status !== "succeeded" || reference === null) return null;
    const found = context.providerOf(provider)?.receiptUrl?.(reference);
    return (await found?.catch(() => null)) ?? null;
  };

  return {
    /** Newest first. */
    async list(user_id: string, page: { limit: number; before_id: string | null }): Promise<Payment[]> {
      return (await orders.ofUser(user_id, page)).map(paymentRecord);
    },
    /** Throws 404. */
    async one(user_id: string, id: string): Promise<PaymentDetail> {
      const row = isUuid(id) ? await orders.byId(id) : undefined;
      if (row?.user_id !== user_id) throw errors.notFound("This payment");
      const { purpose, plan, bucket_id } = row;
      const bucket = purpose === "period" && bucket_id !== null ? await ledger.bucket(user_id, bucket_id) : undefined;
      const plan_name = plan?.name ?? bucket?.note ?? null;
      return { ...paymentRecord(row), plan_name, receipt_url: await findReceipt(row) };
    },
  };
}

function paymentRecord(row: PaymentRow): Payment {
  const { id, status, amount_cents, currency, tokens, provider, period_start, checkout_url, created_at } = row;
  return {
    id,
    purpose: row.automatic ? "automatic_top_up" : PURPOSES[row.purpose],
    status: isRefunded(row) ? "refunded" : status === "mismatch" ? "failed" : status,
    amount_cents,
    paid_cents: status === "succeeded" ? row.paid_cents : 0,
    refunded_cents: row.refunded_cents - row.refund_failed_cents,
    currency,
    tokens,
    period_start,
    collected_by: provider,
    checkout_url,
    created_at,
    ...(provider === "sandbox" ? { sandbox: true as const } : {}),
  };
}
