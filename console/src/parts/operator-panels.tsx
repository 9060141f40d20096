import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { listOf, stale } from "../api/queries.ts";
import { count, instant, money, number, words } from "../format.ts";
import { failure } from "../run-words.ts";
import { PURCHASE_TONES } from "../service-words.ts";
import { Badge, Button, Card, Status } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { type Column, ListCard } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { SelectField } from "../ui/select.tsx";

/** The operator's panels over all users: margins, failing runs, purchases and the log of acts. */

const GROUPS = [
  ["model", "Model"],
  ["user", "User"],
  ["plan", "Plan"],
  ["day", "Day"],
] as const;
type Group = Answer<"GET /api/v1/admin/usage">["usage"][number];
const dollars = (micro_usd: number | null) => (micro_usd === null ? "unknown" : money(micro_usd / 10_000, "usd"));

export function Margins({ api_key }: { api_key: string }) {
  const [group_by, setGroup] = useState<(typeof GROUPS)[number][0]>("model");
  const query = listOf(["operator", "usage", group_by], async (page, signal) => {
    const sent = { ...page, group_by };
    const { usage, next_cursor } = await call("GET /api/v1/admin/usage", { key: api_key, query: sent, signal });
    return { rows: usage, next_cursor };
  });
  const nameOf = (row: Group) => row.model_name ?? row.email ?? row.user_id ?? row.date ?? row.plan_id ?? "no plan";
  const columns: Column<Group>[] = [
    { title: "Group", cell: (row) => <span className="break-all">{nameOf(row)}</span> },
    { title: "Requests", wide: true, numeric: true, cell: (row) => number(row.requests) },
    { title: "Billed tokens", numeric: true, cell: (row) => number(row.cost_tokens) },
    { title: "Revenue", wide: true, numeric: true, cell: (row) => dollars(row.revenue_micro_usd) },
    { title: "Upstream cost", wide: true, numeric: true, cell: (row) => dollars(row.upstream_cost_micro_usd) },
    { title: "Margin", numeric: true, cell: (row) => dollars(row.margin_micro_usd) },
  ];
  return (
    <ListCard
      title="Usage and margin"
      note="The last 30 days, all users."
      query={query}
      columns={columns}
      keyOf={nameOf}
      empty="No usage in the last 30 days."
    >
      <div className="max-w-48 px-4 pb-3">
        <SelectField label="Group by" value={group_by} options={GROUPS} onValue={setGroup} />
      </div>
    </ListCard>
  );
}

const UserLink = ({ id }: { id: string }) => (
  <Link to="/operator" search={{ user: id }} className="link">
    <code className="text-xs break-all">{id}</code>
  </Link>
);

type Run = Answer<"GET /api/v1/admin/runs">["runs"][number];

export function FailedRuns({ api_key }: { api_key: string }) {
  const query = listOf(["operator", "runs"], async (page, signal) => {
    const sent = { ...page, has_errors: true };
    const { runs, next_cursor } = await call("GET /api/v1/admin/runs", { key: api_key, query: sent, signal });
    return { rows: runs, next_cursor };
  });
  const columns: Column<Run>[] = [
    { title: "When", cell: ({ queued_at }) => <span className="block min-w-20">{instant(queued_at)}</span> },
    { title: "Agent", cell: ({ agent_name }) => <span className="wrap-anywhere">{agent_name ?? "deleted"}</span> },
    { title: "User", wide: true, cell: ({ user_id }) => <UserLink id={user_id} /> },
    {
      title: "Status",
      cell: ({ status, has_errors, failed_steps, error }) => (
        <>
          <Status status={status} has_errors={has_errors} />
          <span className="block text-sm text-muted">
            {error === null ? count(failed_steps, "failed step") : words(failure(error.code))}
          </span>
        </>
      ),
    },
  ];
  return (
    <ListCard
      title="Runs with errors"
      note="Runs of all users that failed, or succeeded with failed steps, newest first."
      query={query}
      columns={columns}
      keyOf={({ id }) => id}
      empty="No run has errors."
    />
  );
}

type Purchase = Answer<"GET /api/v1/admin/purchases">["purchases"][number];

export function AllPurchases({ api_key }: { api_key: string }) {
  const [refunding, setRefunding] = useState<Purchase | null>(null);
  const query = listOf(["operator", "purchases"], async (page, signal) => {
    const { purchases, next_cursor } = await call("GET /api/v1/admin/purchases", { key: api_key, query: page, signal });
    return { rows: purchases, next_cursor };
  });
  const columns: Column<Purchase>[] = [
    { title: "When", cell: ({ created_at }) => instant(created_at) },
    { title: "User", wide: true, cell: ({ user_id }) => <UserLink id={user_id} /> },
    { title: "Status", cell: ({ status }) => <Badge tone={PURCHASE_TONES[status]}>{status}</Badge> },
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
        empty="No purchases yet."
      />
      {refunding !== null && (
        <WithReason
          title={`Refund ${money(refunding.amount_cents, refunding.currency)}?`}
          action="Refund purchase"
          saved="Purchase refunded"
          onClose={() => setRefunding(null)}
          onConfirm={(reason) => {
            const params = { id: refunding.id };
            return call("POST /api/v1/admin/purchases/{id}/refund", { key: api_key, params, body: { reason } });
          }}
        >
          The payment provider returns the money. The user loses the tokens; spent ones become debt.
        </WithReason>
      )}
    </>
  );
}

type Act = Answer<"GET /api/v1/admin/acts">["acts"][number];
const ACT_COLUMNS: Column<Act>[] = [
  { title: "When", cell: ({ at }) => instant(at) },
  { title: "Operator", wide: true, cell: ({ who }) => <span className="break-all">{who.name}</span> },
  { title: "Act", cell: ({ what }) => what },
  { title: "Concerns", cell: (act) => <Concerned act={act} /> },
  { title: "Reason", cell: ({ reason }) => <span className="wrap-anywhere">{reason ?? ""}</span> },
];

/** The user whom an act concerns, otherwise its target: an operator key or the service. */
function Concerned({ act: { user_id, user_email, target } }: { act: Act }) {
  if (user_id === null) {
    return (
      <>
        {words(target.type)} {target.id !== null && <code className="block text-xs break-all">{target.id}</code>}
      </>
    );
  }
  if (user_email === null) {
    return (
      <>
        erased user <code className="block text-xs break-all">{user_id}</code>
      </>
    );
  }
  return (
    <>
      <Link to="/operator" search={{ user: user_id }} className="link break-all">
        {user_email}
      </Link>
      {target.type !== "user" && target.id !== user_id && (
        <span className="block text-sm text-muted max-md:hidden">
          {words(target.type)} <code className="text-xs break-all">{target.id}</code>
        </span>
      )}
    </>
  );
}

export function ActLog({ api_key }: { api_key: string }) {
  const query = listOf(["operator", "acts"], async (page, signal) => {
    const { acts, next_cursor } = await call("GET /api/v1/admin/acts", { key: api_key, query: page, signal });
    return { rows: acts, next_cursor };
  });
  return (
    <ListCard
      title="Log of acts"
      note="Every change that an operator made. The audit verifies it."
      query={query}
      columns={ACT_COLUMNS}
      keyOf={({ id }) => id}
      empty="No operator has changed anything yet."
    />
  );
}

export function Models({ api_key }: { api_key: string }) {
  const models = useQuery({
    queryKey: ["operator", "models"],
    queryFn: async () => (await call("GET /api/v1/admin/models", { key: api_key })).models,
  });
  return (
    <Card title="Models" note="The models on offer.">
      {models.isError && <ProblemNotice error={models.error} />}
      <p className="wrap-anywhere">{(models.data ?? []).map(({ id }) => id).join(", ")}</p>
    </Card>
  );
}

interface WithReasonProps {
  title: string;
  action: string;
  saved: string;
  children: string;
  onConfirm: (reason: string) => Promise<unknown>;
  onClose: () => void;
}

/** A confirmation that asks for the reason, which the log of acts keeps. */
export function WithReason({ title, action, saved, children, onConfirm, onClose }: WithReasonProps) {
  const [reason, setReason] = useState("");
  const confirm = async () => {
    await onConfirm(reason);
    await stale("operator");
  };
  return (
    <Confirm title={title} action={action} saved={saved} onClose={onClose} onConfirm={confirm}>
      <p className="mb-4">{children}</p>
      <TextField label="Reason" required value={reason} onValue={setReason} hint="The log of acts keeps it." />
    </Confirm>
  );
}
