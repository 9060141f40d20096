import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../../../src/kernel/constants.ts";
import { type Answer, call } from "../api/client.ts";
import { invoicesQuery, purchasesQuery, stale } from "../api/queries.ts";
import { centsOf, instant, money, number } from "../format.ts";
import { INVOICE_TONES, PURCHASE_TONES } from "../service-words.ts";
import { Badge, Button, Callout, Card, Empty } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { DollarField, wrongDollars } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { AutoTopup } from "./auto-topup.tsx";

type Purchase = Answer<"GET /api/v1/billing/purchases/{id}">;

const COLUMNS: Column<Purchase>[] = [
  {
    title: "When",
    cell: ({ created_at }) => <span className="block min-w-20 md:whitespace-nowrap">{instant(created_at)}</span>,
  },
  {
    title: "Status",
    cell: ({ status, sandbox, automatic, checkout_url }) => (
      <span className="flex flex-wrap gap-1.5">
        <Badge tone={PURCHASE_TONES[status]}>{status}</Badge>
        {automatic === true && <Badge>automatic</Badge>}
        {sandbox === true && <Badge>sandbox</Badge>}
        {status === "pending" && checkout_url !== null && (
          <a href={checkout_url} className="link">
            Go to checkout
          </a>
        )}
      </span>
    ),
  },
  { title: "Tokens", numeric: true, cell: ({ tokens }) => number(tokens) },
  {
    title: "Paid",
    numeric: true,
    cell: ({ amount_cents, refunded_cents, currency }) => (
      <>
        {money(amount_cents, currency)}
        {refunded_cents > 0 && (
          <span className="block text-sm text-muted">{money(refunded_cents, currency)} refunded</span>
        )}
      </>
    ),
  },
];

type Invoice = Answer<"GET /api/v1/billing/invoices">["invoices"][number];
const INVOICE_COLUMNS: Column<Invoice>[] = [
  {
    title: "When",
    cell: ({ created_at }) => <span className="block min-w-20 md:whitespace-nowrap">{instant(created_at)}</span>,
  },
  {
    title: "Status",
    cell: ({ status, sandbox, checkout_url, collected_by }) => (
      <span className="flex flex-wrap gap-1.5">
        <Badge tone={INVOICE_TONES[status]}>{status}</Badge>
        {sandbox === true && <Badge>sandbox</Badge>}
        {checkout_url !== null && (
          <a href={checkout_url} className="link">
            Pay invoice
          </a>
        )}
        {status === "open" && collected_by === "operator" && (
          <span className="text-sm text-muted">the operator collects it</span>
        )}
      </span>
    ),
  },
  { title: "Tokens", numeric: true, cell: ({ tokens }) => number(tokens) },
  { title: "Amount", numeric: true, cell: ({ amount_cents, currency }) => money(amount_cents, currency) },
];

/** Top-ups, automatic top-ups and overage invoices. */
export function PurchasesTab() {
  return (
    <div className="space-y-4">
      <Purchases />
      <AutoTopup />
      <Card title="Overage" note="Invoiced at the end of a period, or earlier for a large amount" flush>
        <PagedTable
          label="Invoices of overage"
          query={invoicesQuery}
          columns={INVOICE_COLUMNS}
          keyOf={(invoice) => invoice.id}
          empty={<p className="px-4 pb-5 text-muted">No invoices yet.</p>}
        />
      </Card>
    </div>
  );
}

function Purchases() {
  return (
    <Card title="Top-ups" flush>
      <PagedTable
        label="Purchases"
        query={purchasesQuery}
        columns={COLUMNS}
        keyOf={(purchase) => purchase.id}
        empty={
          <Empty icon="billing" title="No top-ups yet">
            Your top-ups appear here with their status.
          </Empty>
        }
      />
    </Card>
  );
}

const AMOUNTS = [5, 10, 25, 50];

/** An idempotency key: a repeated request does not buy twice. */
const newKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-");

/** Buys tokens for an amount of dollars. */
export function TopUp({ onClose }: { onClose: () => void }) {
  const [amount, setAmount] = useState("10");
  const [bought, setBought] = useState<Purchase | null>(null);
  const attempt = useRef({ amount, key: newKey() });
  const cents = centsOf(amount);
  const wrong = wrongDollars(amount === "" ? "0" : amount, PURCHASE_CENTS.min);
  const valid = wrong === null && cents <= PURCHASE_CENTS.max;
  const buy = useMutation({
    mutationFn: () => {
      if (attempt.current.amount !== amount) attempt.current = { amount, key: newKey() };
      const back = `${location.origin}/billing?tab=purchases`;
      return call("POST /api/v1/billing/purchase", {
        body: { amount_cents: cents, success_url: back, cancel_url: back },
        headers: { "Idempotency-Key": attempt.current.key },
      });
    },
    onSuccess: async (purchase) => {
      if (purchase.checkout_url !== null) return location.assign(purchase.checkout_url);
      setBought(purchase);
      await stale("profile", "buckets", "transactions", "purchases", "agents");
    },
  });
  if (bought !== null) {
    return (
      <Dialog title="Tokens bought" onClose={onClose}>
        <div className="space-y-4">
          <Callout tone="good" icon="check">
            Your account has {number(bought.tokens)} more tokens.
          </Callout>
          {bought.sandbox === true && <p className="text-muted">Payments are simulated: no money was moved.</p>}
          <div className="flex justify-end">
            <Button kind="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Buy tokens" onClose={onClose}>
      <DialogForm save={buy} action="Buy tokens" onCancel={onClose} disabled={!valid}>
        <div className="flex gap-2">
          {AMOUNTS.map((dollars) => (
            <Button
              key={dollars}
              className="flex-1"
              aria-pressed={amount === String(dollars)}
              kind={amount === String(dollars) ? "primary" : "plain"}
              onClick={() => setAmount(String(dollars))}
            >
              ${dollars}
            </Button>
          ))}
        </div>
        <DollarField
          label="Amount in US dollars"
          param="amount_cents"
          least_cents={PURCHASE_CENTS.min}
          value={amount}
          onValue={setAmount}
        />
        <p aria-live="polite">
          {valid ? (
            <>
              <strong>{number(cents * TOKENS_PER_CENT)} tokens</strong> for {money(cents, "usd")}, valid for 12 months.
            </>
          ) : (
            <span className="text-muted">{wrong ?? `The maximum is ${money(PURCHASE_CENTS.max, "usd")}.`}</span>
          )}
        </p>
      </DialogForm>
    </Dialog>
  );
}
