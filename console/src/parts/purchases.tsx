import { type FormEvent, useRef, useState } from "react";
import { PURCHASE_CENTS, TOKENS_PER_CENT } from "../../../src/constants.ts";
import { type Answer, call } from "../api/client.ts";
import { invoicesQuery, purchasesQuery, stale } from "../api/queries.ts";
import { instant, money, number } from "../format.ts";
import { useAct } from "../ui/act.ts";
import { Badge, Button, Callout, Card, Empty } from "../ui/basics.tsx";
import { Dialog, FormEnd } from "../ui/dialog.tsx";
import { FormErrorProvider, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";

type Purchase = Answer<"GET /api/v1/billing/purchases/{id}">;
const TONES = { pending: "warn", succeeded: "good", failed: "bad", refunded: "neutral" } as const;

const COLUMNS: Column<Purchase>[] = [
  { title: "When", cell: ({ created_at }) => <span className="md:whitespace-nowrap">{instant(created_at)}</span> },
  {
    title: "Status",
    cell: ({ status, sandbox, checkout_url }) => (
      <span className="flex flex-wrap gap-1.5">
        <Badge tone={TONES[status]}>{status}</Badge>
        {sandbox === true && <Badge>sandbox</Badge>}
        {status === "pending" && checkout_url !== null && (
          <a href={checkout_url} className="link">
            Go to the checkout
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
          <span className="block text-sm text-muted">{money(refunded_cents, currency)} given back</span>
        )}
      </>
    ),
  },
];

type Invoice = Answer<"GET /api/v1/billing/invoices">["invoices"][number];
const INVOICE_TONES = { open: "warn", paid: "good", unpaid: "bad", void: "neutral" } as const;
const INVOICE_COLUMNS: Column<Invoice>[] = [
  { title: "When", cell: ({ created_at }) => <span className="md:whitespace-nowrap">{instant(created_at)}</span> },
  {
    title: "Status",
    cell: ({ status, sandbox, checkout_url, collected_by }) => (
      <span className="flex flex-wrap gap-1.5">
        <Badge tone={INVOICE_TONES[status]}>{status}</Badge>
        {sandbox === true && <Badge>sandbox</Badge>}
        {checkout_url !== null && (
          <a href={checkout_url} className="link">
            Pay it
          </a>
        )}
        {status === "open" && collected_by === "operator" && (
          <span className="text-sm text-muted">whoever runs this service asks for it</span>
        )}
      </span>
    ),
  },
  { title: "Tokens", numeric: true, cell: ({ tokens }) => number(tokens) },
  { title: "Amount", numeric: true, cell: ({ amount_cents, currency }) => money(amount_cents, currency) },
];

/** What was paid, and what overage is to be paid. */
export function PurchasesTab() {
  return (
    <div className="space-y-4">
      <Purchases />
      <Card title="Overage" note="Invoiced at a period's end, or once there is much of it" flush>
        <PagedTable
          label="Invoices of overage"
          query={invoicesQuery}
          columns={INVOICE_COLUMNS}
          keyOf={(invoice) => invoice.id}
          empty={<p className="px-4 pb-5 text-muted">Nothing was invoiced.</p>}
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
          <Empty icon="billing" title="Nothing bought yet">
            Top-ups stand here, with what became of them.
          </Empty>
        }
      />
    </Card>
  );
}

const AMOUNTS = [5, 10, 25, 50];

/** A name for one intention to buy: sent again, it buys nothing twice. */
const newKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-");

/** Buys tokens for an amount of dollars. */
export function TopUp({ onClose }: { onClose: () => void }) {
  const [amount, setAmount] = useState("10");
  const [bought, setBought] = useState<Purchase | null>(null);
  const intention = useRef({ amount, key: newKey() });
  const { act, busy, error } = useAct();
  const cents = Math.round(Number(amount) * 100);
  const valid = Number.isFinite(cents) && cents >= PURCHASE_CENTS.min && cents <= PURCHASE_CENTS.max;
  const buy = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      if (intention.current.amount !== amount) intention.current = { amount, key: newKey() };
      const back = `${location.origin}/billing?tab=purchases`;
      const purchase = await call("POST /api/v1/billing/purchase", {
        body: { amount_cents: cents, success_url: back, cancel_url: back },
        headers: { "Idempotency-Key": intention.current.key },
      });
      if (purchase.checkout_url !== null) return location.assign(purchase.checkout_url);
      setBought(purchase);
      await stale("profile", "buckets", "transactions", "purchases", "agents");
    });
  };
  if (bought !== null) {
    return (
      <Dialog title="Bought" onClose={onClose}>
        <div className="space-y-4">
          <Callout tone="good" icon="check">
            {number(bought.tokens)} tokens are in your account.
          </Callout>
          {bought.sandbox === true && <p className="text-muted">This is a sandbox: no money was moved.</p>}
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
      <FormErrorProvider value={error}>
        <form onSubmit={buy} className="space-y-4">
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
          <TextField
            label="Amount in US dollars"
            param="amount_cents"
            type="number"
            min={PURCHASE_CENTS.min / 100}
            step="0.01"
            inputMode="decimal"
            required
            value={amount}
            onValue={setAmount}
          />
          <p aria-live="polite">
            {valid ? (
              <>
                <strong>{number(cents * TOKENS_PER_CENT)} tokens</strong>, good for 12 months.
              </>
            ) : (
              <span className="text-muted">The least is $1.</span>
            )}
          </p>
          <FormEnd error={error} busy={busy} onCancel={onClose} disabled={!valid}>
            Buy
          </FormEnd>
        </form>
      </FormErrorProvider>
    </Dialog>
  );
}
