import { Link } from "@tanstack/react-router";
import { type Payment, paymentsQuery } from "../api/billing.ts";
import { day, instant, money, number } from "../format.ts";
import { Badge, Card, Empty, type Tone } from "../ui/basics.tsx";
import { type Column, PagedTable, When } from "../ui/list.tsx";
import { AutoTopup } from "./auto-topup.tsx";

export const PURPOSES: Record<Payment["purpose"], string> = {
  top_up: "Top-up",
  automatic_top_up: "Automatic top-up",
  plan: "Plan",
  plan_change: "Change of plan",
  overage: "Overage",
};

/** The state of a payment as people say it, and its colour. */
export function stateOf({
  status,
  purpose,
  checkout_url,
  collected_by,
  amount_cents,
  paid_cents,
}: Payment): [string, Tone] {
  if (status === "pending") {
    if (purpose === "overage" && collected_by === "operator") return ["Collected by the operator", "warn"];
    return checkout_url === null ? ["In progress", "warn"] : ["Waits for payment", "warn"];
  }
  if (status === "failed") return purpose === "overage" ? ["Not paid yet", "bad"] : ["Failed", "bad"];
  if (status === "refunded") return ["Refunded", "neutral"];
  if (status === "void") return ["Not owed any more", "neutral"];
  return paid_cents === 0 && amount_cents > 0 ? ["Given by the operator", "neutral"] : ["Paid", "good"];
}

/** Whether money was paid, so that a receipt can say so. */
const hasReceipt = ({ status, paid_cents }: Payment) =>
  (status === "succeeded" || status === "refunded") && paid_cents > 0;

const COLUMNS: Column<Payment>[] = [
  {
    title: "When",
    cell: ({ created_at }) => <When at={created_at} />,
  },
  {
    title: "What",
    cell: ({ purpose, period_start }) => (
      <>
        <span className="font-medium">{PURPOSES[purpose]}</span>
        {period_start !== null && <span className="block text-sm text-muted">period from {day(period_start)}</span>}
      </>
    ),
  },
  {
    title: "State",
    cell: (payment) => {
      const [state, tone] = stateOf(payment);
      const { sandbox, refunded_cents, status, currency, checkout_url } = payment;
      return (
        <span className="flex flex-wrap items-center gap-1.5">
          <Badge tone={tone}>{state}</Badge>
          {sandbox === true && <Badge>Simulated</Badge>}
          {refunded_cents > 0 && status !== "refunded" && (
            <span className="text-sm text-muted">{money(refunded_cents, currency)} refunded</span>
          )}
          {checkout_url !== null && (
            <a href={checkout_url} className="link">
              Pay now
            </a>
          )}
        </span>
      );
    },
  },
  { title: "Tokens", numeric: true, wide: true, cell: ({ tokens }) => number(tokens) },
  { title: "Amount", numeric: true, cell: ({ amount_cents, currency }) => money(amount_cents, currency) },
  {
    title: "Receipt",
    cell: (payment) =>
      hasReceipt(payment) && (
        <Link
          to="/billing/receipts/$id"
          params={{ id: payment.id }}
          className="link"
          aria-label={`Receipt of ${instant(payment.created_at)}`}
        >
          Receipt
        </Link>
      ),
  },
];

/** Payments of every purpose in one list, and the settings of automatic top-ups. */
export function PaymentsTab() {
  return (
    <div className="space-y-4">
      <Card title="Payments" note="Top-ups, plans and overage, newest first" flush>
        <PagedTable
          label="Payments"
          query={paymentsQuery}
          columns={COLUMNS}
          keyOf={(payment) => payment.id}
          empty={
            <Empty icon="billing" title="No payments yet">
              Each payment appears here with its state and its receipt.
            </Empty>
          }
        />
      </Card>
      <AutoTopup />
    </div>
  );
}
