import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { listFrom } from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { money, number, period, words } from "../format.ts";
import { reasonIfAny, UserLink, WithReason } from "../parts/operator-panels.tsx";
import { INVOICE_TONES, PURCHASE_TONES } from "../service-words.ts";
import { Badge, Button, PageHeader } from "../ui/basics.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField } from "../ui/fields.tsx";
import { type Column, ListCard, When } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";

/** The money of all users: purchases, and invoices of overage. */
export function OperatorPaymentsPage() {
  const { from, to } = useSearch({ from: "/signed-in/operator/payments" });
  const set = useFilterSetter();
  return (
    <>
      <PageHeader title="Payments" note="What all users paid, and what they owe." />
      <div className="space-y-4">
        <div className="grid grid-cols-2 items-end gap-3 sm:flex">
          <DayField label="From" value={from ?? ""} onValue={set("from")} />
          <DayField label="To" value={to ?? ""} onValue={set("to")} />
        </div>
        <AllPurchases />
        <Invoices />
      </div>
    </>
  );
}

const PURCHASE_OPTIONS = [
  ["", "All"],
  ...(Object.keys(PURCHASE_TONES) as Purchase["status"][]).map((status) => [status, words(status)] as const),
] as const;
const INVOICE_OPTIONS = [
  ["", "All"],
  ...(Object.keys(INVOICE_TONES) as Invoice["status"][]).map((status) => [status, words(status)] as const),
] as const;

type Purchase = Answer<"GET /api/v1/admin/purchases">["purchases"][number];

function AllPurchases() {
  const [refunding, setRefunding] = useState<Purchase | null>(null);
  const { status, from, to } = useSearch({ from: "/signed-in/operator/payments" });
  const set = useFilterSetter();
  const filters = chosenFilters({ status, ...period(from, to) });
  const csv = useCsvDownload("/api/v1/admin/purchases", { filters, of: "purchases", saved: "Purchases downloaded" });
  const query = listFrom(["operator", "purchases", filters], "GET /api/v1/admin/purchases", "purchases", {
    query: filters,
  });
  const columns: Column<Purchase>[] = [
    { title: "When", cell: ({ created_at }) => <When at={created_at} /> },
    { title: "User", wide: true, cell: ({ user_id, user_email }) => <UserLink id={user_id} email={user_email} /> },
    { title: "For", wide: true, cell: ({ purpose }) => words(purpose) },
    { title: "Status", cell: ({ status }) => <Badge tone={PURCHASE_TONES[status]}>{words(status)}</Badge> },
    { title: "Amount", numeric: true, cell: ({ amount_cents, currency }) => money(amount_cents, currency) },
    {
      title: "",
      numeric: true,
      cell: (purchase) =>
        (purchase.status === "succeeded" || purchase.status === "mismatch") &&
        purchase.provider !== "operator" && (
          <Button kind="quiet" onClick={() => setRefunding(purchase)}>
            Refund purchase
          </Button>
        ),
    },
  ];
  return (
    <>
      <ListCard
        title="Purchases"
        note="Top-ups, upgrades and periods of all users."
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty={Object.keys(filters).length > 0 ? "No purchases match these filters." : "No purchases yet."}
      >
        <div className="grid grid-cols-2 items-end gap-3 px-4 pb-3 sm:flex">
          <SelectField
            label="Status"
            className="w-full sm:w-40"
            value={status ?? ""}
            options={PURCHASE_OPTIONS}
            onValue={set("status")}
          />
          {csv.button}
        </div>
        {csv.problem}
      </ListCard>
      {refunding !== null && (
        <WithReason
          title={`Refund ${money(refunding.amount_cents, refunding.currency)}?`}
          action="Refund purchase"
          saved="Purchase refunded"
          onClose={() => setRefunding(null)}
          onConfirm={(reason) => {
            const params = { id: refunding.id };
            return call("POST /api/v1/admin/purchases/{id}/refund", { params, body: { reason } });
          }}
        >
          The payment provider returns the money. The user loses the tokens; spent ones become debt.
        </WithReason>
      )}
    </>
  );
}

type Invoice = Answer<"GET /api/v1/admin/invoices">["invoices"][number];

/** Invoices for used overage. */
function Invoices() {
  const [asking, setAsking] = useState<{ invoice: Invoice; status: "paid" | "void" } | null>(null);
  const { invoices: status, from, to } = useSearch({ from: "/signed-in/operator/payments" });
  const set = useFilterSetter();
  const filters = chosenFilters({ status, ...period(from, to) });
  const query = listFrom(["operator", "invoices", filters], "GET /api/v1/admin/invoices", "invoices", {
    query: filters,
  });
  const columns: Column<Invoice>[] = [
    { title: "When", cell: ({ created_at }) => <When at={created_at} /> },
    { title: "User", wide: true, cell: ({ user_id, user_email }) => <UserLink id={user_id} email={user_email} /> },
    { title: "Tokens", wide: true, numeric: true, cell: ({ tokens }) => number(tokens) },
    { title: "Amount", numeric: true, cell: ({ amount_cents, currency }) => money(amount_cents, currency) },
    { title: "Status", cell: ({ status }) => <Badge tone={INVOICE_TONES[status]}>{status}</Badge> },
    {
      title: "",
      numeric: true,
      cell: (invoice) =>
        invoice.collected_by === "operator" &&
        (invoice.status === "open" || invoice.status === "unpaid") && (
          <span className="flex justify-end gap-1 max-md:flex-col">
            <Button kind="quiet" onClick={() => setAsking({ invoice, status: "paid" })}>
              Mark as paid
            </Button>
            <Button kind="quiet" onClick={() => setAsking({ invoice, status: "void" })}>
              Void invoice
            </Button>
          </span>
        ),
    },
  ];
  return (
    <>
      <ListCard
        title="Overage invoices"
        note="You collect the open invoices. Mark each invoice as paid or void."
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          Object.keys(filters).length > 0
            ? "No invoices match these filters."
            : "No invoices. Purser invoices overage at the end of a period."
        }
      >
        <div className="px-4 pb-3">
          <SelectField
            label="Status of invoices"
            className="w-full sm:w-40"
            value={status ?? ""}
            options={INVOICE_OPTIONS}
            onValue={set("invoices")}
          />
        </div>
      </ListCard>
      {asking !== null && <Settle {...asking} onClose={() => setAsking(null)} />}
    </>
  );
}

interface SettleProps {
  invoice: Invoice;
  status: "paid" | "void";
  onClose: () => void;
}
/** Asks before an invoice is closed: a closed one cannot be opened again. */
function Settle({ invoice: { id, amount_cents, currency }, status, onClose }: SettleProps) {
  const is_void = status === "void";
  const amount = money(amount_cents, currency);
  return (
    <WithReason
      title={is_void ? `Void the invoice of ${amount}?` : `Mark the invoice of ${amount} as paid?`}
      action={is_void ? "Void invoice" : "Mark as paid"}
      kind={is_void ? "danger" : "primary"}
      saved={`Invoice marked as ${status}`}
      optional
      onConfirm={(reason) =>
        call("PUT /api/v1/admin/invoices/{id}", { params: { id }, body: { status, ...reasonIfAny(reason) } })
      }
      onClose={onClose}
    >
      {is_void ? "The user no longer owes it." : "You have received the money."} This cannot be undone.
    </WithReason>
  );
}
