import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { call } from "../api/client.ts";
import { type List, listOf, queryClient, stale } from "../api/queries.ts";
import { instant, money, number } from "../format.ts";
import { OWN_ZONE, zoneName } from "../schedule-words.ts";
import { useAct } from "../ui/act.ts";
import { Badge, Button, Callout, Card } from "../ui/basics.tsx";
import { FormErrorProvider, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

/** What concerns the whole service: its audit, the test clock, and invoices that nobody but its operator collects. */

export function Audit({ api_key }: { api_key: string }) {
  const audit = useMutation({ mutationFn: () => call("GET /api/v1/admin/audit", { key: api_key }) });
  const checked = Object.entries(audit.data?.checked ?? {});
  return (
    <Card
      title="Audit"
      note="Recomputes every balance from the ledger."
      actions={
        <Button busy={audit.isPending} onClick={() => audit.mutate()}>
          Audit now
        </Button>
      }
    >
      <div className="space-y-2" aria-live="polite">
        {audit.isError && <ProblemNotice error={audit.error} />}
        {audit.data?.ok === true && (
          <Callout tone="good" icon="check">
            Every invariant holds.
          </Callout>
        )}
        {audit.data?.ok === false && (
          <Callout tone="bad" icon="warning">
            <ul className="space-y-1.5">
              {audit.data.violations.map(({ invariant, account_id, detail }) => (
                <li key={`${invariant} ${account_id} ${detail}`} className="break-words">
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

/** Where the service runs on a settable clock; nothing where it does not. */
export function TestClock({ api_key }: { api_key: string }) {
  const query = { queryKey: ["operator", "clock"], queryFn: () => call("GET /api/v1/admin/clock", { key: api_key }) };
  const clock = useQuery({ ...query, retry: false });
  const [to, setTo] = useState("");
  const { act, busy, error } = useAct();
  if (clock.data === undefined) return null;
  const { now } = clock.data;
  const set = (target: string) =>
    act(async () => {
      const moved = await call("PUT /api/v1/admin/clock", { key: api_key, body: { now: target } });
      queryClient.setQueryData(query.queryKey, moved);
      setTo("");
      await stale("operator");
    });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void set(new Date(to).toISOString());
  };
  return (
    <Card title="Test clock" note="It stands still until it is set; then all that falls due on the way is carried out.">
      <div className="space-y-4">
        <p>
          It is <strong>{instant(now)}</strong> <span className="text-muted">({now})</span>
        </p>
        <FormErrorProvider value={error}>
          <form onSubmit={submit} className="flex flex-wrap items-end gap-2">
            <TextField
              label={`Set it to (${zoneName(OWN_ZONE)} time)`}
              param="now"
              type="datetime-local"
              required
              value={to}
              onValue={setTo}
            />
            <Button type="submit" busy={busy}>
              Set the clock
            </Button>
            {STEPS.map(([name, ms]) => (
              <Button key={name} busy={busy} onClick={() => set(new Date(Date.parse(now) + ms).toISOString())}>
                {name}
              </Button>
            ))}
          </form>
        </FormErrorProvider>
        {error !== null && <ProblemNotice error={error} />}
      </div>
    </Card>
  );
}

type Invoice = Awaited<ReturnType<typeof fetchInvoices>>["invoices"][number];
const fetchInvoices = (key: string, query: { limit: number; cursor?: string }) =>
  call("GET /api/v1/admin/invoices", { key, query });
const TONES = { open: "warn", paid: "good", unpaid: "bad", void: "neutral" } as const;

/** Overage that was used and is to be paid. */
export function Invoices({ api_key }: { api_key: string }) {
  const { act, busy, error } = useAct();
  const settle = (invoice: Invoice, status: "paid" | "void") =>
    act(async () => {
      await call("PUT /api/v1/admin/invoices/{id}", { key: api_key, params: { id: invoice.id }, body: { status } });
      await stale("operator");
    });
  const query: List<Invoice> = listOf(["operator", "invoices"], async (page) => {
    const { invoices, next_cursor } = await fetchInvoices(api_key, page);
    return { rows: invoices, next_cursor };
  });
  const columns: Column<Invoice>[] = [
    { title: "When", cell: ({ created_at }) => instant(created_at) },
    { title: "User", wide: true, cell: ({ user_id }) => <code className="text-xs break-all">{user_id}</code> },
    { title: "Tokens", wide: true, numeric: true, cell: ({ tokens }) => number(tokens) },
    { title: "Amount", numeric: true, cell: ({ amount_cents, currency }) => money(amount_cents, currency) },
    { title: "State", cell: ({ status }) => <Badge tone={TONES[status]}>{status}</Badge> },
    {
      title: "",
      numeric: true,
      cell: (invoice) =>
        invoice.collected_by === "operator" &&
        (invoice.status === "open" || invoice.status === "unpaid") && (
          <span className="flex justify-end gap-1 max-md:flex-col">
            <Button kind="quiet" busy={busy} onClick={() => settle(invoice, "paid")}>
              Paid
            </Button>
            <Button kind="quiet" busy={busy} onClick={() => settle(invoice, "void")}>
              Void
            </Button>
          </span>
        ),
    },
  ];
  return (
    <Card
      title="Overage invoices"
      note="What nobody can be charged for stays open until you say what became of it."
      flush
    >
      {error !== null && (
        <div className="px-4 pb-3">
          <ProblemNotice error={error} />
        </div>
      )}
      <PagedTable
        label="Overage invoices"
        query={query}
        columns={columns}
        keyOf={({ id }) => id}
        empty={<p className="px-4 pb-5 text-muted">None. Overage is invoiced at a period's end.</p>}
      />
    </Card>
  );
}
