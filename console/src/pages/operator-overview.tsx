import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { listOf } from "../api/queries.ts";
import { money, number } from "../format.ts";
import { Audit } from "../parts/system-panel.tsx";
import { PageHeader } from "../ui/basics.tsx";
import { type Column, ListCard } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";

/** The first page of the operator's section. */
export function OperatorOverviewPage() {
  return (
    <>
      <PageHeader title="Operator" note="The service at a glance." />
      <div className="space-y-4">
        <Audit />
        <Margins />
      </div>
    </>
  );
}

const GROUPS = [
  ["model", "Model"],
  ["user", "User"],
  ["plan", "Plan"],
  ["day", "Day"],
] as const;
type Group = Answer<"GET /api/v1/admin/usage">["usage"][number];
const dollars = (micro_usd: number | null) => (micro_usd === null ? "unknown" : money(micro_usd / 10_000, "usd"));

function Margins() {
  const [group_by, setGroup] = useState<(typeof GROUPS)[number][0]>("model");
  const query = listOf(["operator", "usage", group_by], async (page, signal) => {
    const sent = { ...page, group_by };
    const { usage, next_cursor } = await call("GET /api/v1/admin/usage", { query: sent, signal });
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
