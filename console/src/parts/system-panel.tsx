import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type List, listOf, queryClient, stale } from "../api/queries.ts";
import { instant, money, number } from "../format.ts";
import { OWN_ZONE, zoneName } from "../schedule-words.ts";
import { INVOICE_TONES } from "../service-words.ts";
import { Badge, Button, Callout, Card } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { FormErrorProvider, onSubmit, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";

/** The operator's panels for the whole service: audit, test clock and overage invoices. */

export function Audit({ api_key }: { api_key: string }) {
  const audit = useMutation({ mutationFn: () => call("GET /api/v1/admin/audit", { key: api_key }) });
  const checked = Object.entries(audit.data?.checked ?? {});
  return (
    <Card
      title="Audit"
      note="Recomputes every balance from the ledger."
      actions={
        <Button busy={audit.isPending} onClick={() => audit.mutate()}>
          Run audit
        </Button>
      }
    >
      <div className="space-y-2" aria-live="polite">
        {audit.isError && <ProblemNotice error={audit.error} />}
        {audit.data?.ok === true && (
          <Callout tone="good" icon="check">
            All balances match the ledger.
          </Callout>
        )}
        {audit.data?.ok === false && (
          <Callout tone="bad" icon="warning">
            <ul className="space-y-1.5">
              {audit.data.violations.map(({ invariant, account_id, detail }) => (
                <li key={`${invariant} ${account_id} ${detail}`} className="wrap-anywhere">
                  <strong>{invariant}</strong> {account_id}: {detail}
                </li>
              ))}
            </ul>
          </Callout>
        )}
        {checked.length > 0 && (
          <p className="text-sm text-muted">
            Checked: {checked.map(([what, amount]) => `${number(amount)} ${what.replaceAll("_", " ")}`).join(", ")}.
          </p>
        )}
      </div>
    </Card>
  );
}

const STEPS = [
  ["+1 hour", 3_600_000],
  ["+1 day", 86_400_000],
  ["+30 days", 30 * 86_400_000],
] as const;

/** Sets the test clock. Shown only if the service has one. */
export function TestClock({ api_key }: { api_key: string }) {
  const query = { queryKey: ["operator", "clock"], queryFn: () => call("GET /api/v1/admin/clock", { key: api_key }) };
  const clock = useQuery({ ...query, retry: false });
  const [to, setTo] = useState("");
  const set = useMutation({
    mutationFn: (target: string) => call("PUT /api/v1/admin/clock", { key: api_key, body: { now: target } }),
    onSuccess: async (moved) => {
      queryClient.setQueryData(query.queryKey, moved);
      setTo("");
      confirmSaved("Clock set");
      await stale("operator");
    },
  });
  if (clock.data === undefined) return null;
  const { now } = clock.data;
  return (
    <Card
      title="Test clock"
      note="The clock moves only when you set it. The service then does everything that falls due."
    >
      <div className="space-y-4">
        <p>
          Now: <strong>{instant(now)}</strong> <span className="text-muted">({now})</span>
        </p>
        <FormErrorProvider value={set.error}>
          <form
            onSubmit={onSubmit(() => set.mutate(new Date(to).toISOString()))}
            className="flex flex-wrap items-end gap-2"
          >
            <TextField
              label={`New time (${zoneName(OWN_ZONE)})`}
              param="now"
              type="datetime-local"
              required
              value={to}
              onValue={setTo}
            />
            <Button type="submit" busy={set.isPending}>
              Set clock
            </Button>
            {STEPS.map(([name, ms]) => (
              <Button
                key={name}
                busy={set.isPending}
                onClick={() => set.mutate(new Date(Date.parse(now) + ms).toISOString())}
              >
                {name}
              </Button>
            ))}
          </form>
        </FormErrorProvider>
        {set.error !== null && <ProblemNotice error={set.error} />}
      </div>
    </Card>
  );
}

type Invoice = Awaited<ReturnType<typeof fetchInvoices>>["invoices"][number];
const fetchInvoices = (key: string, query: { limit: number; cursor?: string }) =>
  call("GET /api/v1/admin/invoices", { key, query });

/** Invoices for used overage. */
export function Invoices({ api_key }: { api_key: string }) {
  const [asking, setAsking] = useState<{ invoice: Invoice; status: "paid" | "void" } | null>(null);
  const query: List<Invoice> = listOf(["operator", "invoices"], async (page) => {
    const { invoices, next_cursor } = await fetchInvoices(api_key, page);
    return { rows: invoices, next_cursor };
  });
  const columns: Column<Invoice>[] = [
    { title: "When", cell: ({ created_at }) => instant(created_at) },
    { title: "User", wide: true, cell: ({ user_id }) => <code className="text-xs break-all">{user_id}</code> },
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
    <Card title="Overage invoices" note="You collect the open invoices. Mark each invoice as paid or void." flush>
      <PagedTable
        label="Overage invoices"
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty={<p className="px-4 pb-5 text-muted">No invoices. Purser invoices overage at the end of a period.</p>}
      />
      {asking !== null && <Settle {...asking} api_key={api_key} onClose={() => setAsking(null)} />}
    </Card>
  );
}

interface SettleProps {
  invoice: Invoice;
  status: "paid" | "void";
  api_key: string;
  onClose: () => void;
}
/** Asks before an invoice is closed: a closed one cannot be opened again. */
function Settle({ invoice: { id, amount_cents, currency }, status, api_key, onClose }: SettleProps) {
  const is_void = status === "void";
  const amount = money(amount_cents, currency);
  const settle = async () => {
    await call("PUT /api/v1/admin/invoices/{id}", { key: api_key, params: { id }, body: { status } });
    await stale("operator");
  };
  return (
    <Confirm
      title={is_void ? `Void the invoice of ${amount}?` : `Mark the invoice of ${amount} as paid?`}
      action={is_void ? "Void invoice" : "Mark as paid"}
      kind={is_void ? "danger" : "primary"}
      saved={`Invoice marked as ${status}`}
      onConfirm={settle}
      onClose={onClose}
    >
      {is_void ? "The user no longer owes it." : "You have received the money."} This cannot be undone.
    </Confirm>
  );
}
