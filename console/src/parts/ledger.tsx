import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type LedgerFilters, type Transaction, transactionsQuery } from "../api/queries.ts";
import { chosenFilters, withFilter } from "../filters.ts";
import { instant, number, period, words } from "../format.ts";
import { Button, Card, Empty } from "../ui/basics.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { AgentPicker } from "../ui/picker.tsx";
import { SelectField } from "../ui/select.tsx";
import { ExplainRequest } from "./explain.tsx";

const TYPES = ["grant", "usage", "expiry", "refund", "clawback", "overage", "absorbed", "adjustment"] as const;

const CHARGES = new Set<string>(["usage", "overage", "absorbed"]);

const COLUMNS: Column<Transaction>[] = [
  { title: "#", wide: true, numeric: true, cell: ({ seq }) => <span className="text-muted">{number(seq)}</span> },
  {
    title: "When",
    cell: ({ created_at }) => <span className="block min-w-20 md:whitespace-nowrap">{instant(created_at)}</span>,
  },
  {
    title: "Type",
    cell: ({ type, model, description, agent_id, agent_name, agent_deleted, run_id, request_id, seq }) => (
      <>
        <span className="font-medium">{words(type)}</span>
        <span className="block text-sm wrap-anywhere text-muted">
          {model ?? description}
          {agent_id !== null && " · "}
          {agent_id !== null && run_id !== null && !agent_deleted && (
            <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id }} className="link">
              {agent_name ?? "view run"}
            </Link>
          )}
          {agent_id !== null && run_id === null && !agent_deleted && agent_name}
          {agent_deleted && `${agent_name ?? "agent"} (deleted)`}
          {request_id !== null && CHARGES.has(type) && (
            <>
              {" · "}
              <Link
                from="/billing"
                to="."
                search={(old) => ({ ...old, why: request_id, line: seq })}
                resetScroll={false}
                className="link"
                aria-label={`Explain line ${seq}`}
              >
                explain
              </Link>
            </>
          )}
        </span>
      </>
    ),
  },
  {
    title: "Tokens",
    numeric: true,
    cell: ({ amount }) => (
      <span className={`whitespace-nowrap ${amount > 0 ? "text-good" : ""}`}>
        {amount > 0 ? `+${number(amount)}` : number(amount).replace("-", "−")}
      </span>
    ),
  },
  { title: "Balance", wide: true, numeric: true, cell: ({ balance_after }) => number(balance_after) },
];

/** All ledger lines, with filters and a CSV download. */
export function LedgerTab() {
  const { type, agent_id, run_id, from, to, why, line } = useSearch({ from: "/signed-in/billing" });
  const navigate = useNavigate({ from: "/billing" });
  const filters = chosenFilters({ type, agent_id, run_id, ...period(from, to) }) as LedgerFilters;
  const set = (name: string) => (value: string) => void navigate({ search: withFilter(name, value), replace: true });
  const csv = useCsvDownload("/api/v1/users/me/transactions", {
    filters,
    file: "purser-ledger.csv",
    saved: "Ledger downloaded",
  });
  return (
    <Card flush>
      <div className="grid grid-cols-2 items-end gap-3 border-b border-line px-4 py-3 sm:flex sm:flex-wrap">
        <SelectField
          label="Type"
          className="w-full sm:w-36"
          value={type ?? ""}
          options={[["", "all"], ...TYPES.map((name) => [name, words(name)] as const)]}
          onValue={set("type")}
        />
        <AgentPicker label="Agent" className="w-full sm:w-44" value={agent_id ?? ""} onValue={set("agent_id")} />
        <DayField label="From" value={from ?? ""} onValue={set("from")} />
        <DayField label="To" value={to ?? ""} onValue={set("to")} />
        {run_id !== undefined && (
          <Button icon="close" onClick={() => set("run_id")("")}>
            Show all runs
          </Button>
        )}
        {csv.button}
      </div>
      {csv.problem}
      {why !== undefined && (
        <ExplainRequest
          request_id={why}
          entry={line}
          onClose={() =>
            void navigate({ search: ({ why: _why, line: _line, ...old }) => old, replace: true, resetScroll: false })
          }
        />
      )}
      <PagedTable
        label="Ledger"
        query={transactionsQuery(filters)}
        columns={COLUMNS}
        keyOf={(entry) => entry.id}
        empty={
          <Empty icon="billing" title="No lines match these filters">
            The ledger has a line for each grant and each charge. Choose other filters.
          </Empty>
        }
      />
    </Card>
  );
}
