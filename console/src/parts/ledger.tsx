import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { groupId, groupLinesQuery, type LedgerFilters, ledgerQuery, type TransactionGroup } from "../api/billing.ts";
import type { Transaction } from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { count, instant, number, period } from "../format.ts";
import { Button, Card, Empty } from "../ui/basics.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { AgentPicker } from "../ui/picker.tsx";
import { SelectField } from "../ui/select.tsx";
import { VirtualList } from "../ui/virtual-list.tsx";
import { useMinWidth, type VirtualColumn } from "../ui/virtual-table.tsx";
import { ExplainRequest } from "./explain.tsx";

type EntryType = Transaction["type"];
const TYPES: Record<EntryType, string> = {
  grant: "Grant",
  usage: "Usage",
  overage: "Overage",
  absorbed: "Not charged",
  expiry: "Expiry",
  refund: "Refund",
  clawback: "Taken back",
  adjustment: "Adjustment",
};
const TYPE_OPTIONS = [["", "All"], ...Object.entries(TYPES)] as [EntryType | "", string][];
const CHARGES = new Set<EntryType>(["usage", "overage", "absorbed"]);

/** A row of the table: a group, a line of an unfolded group, or what happens to the lines of a group. */
type Row =
  | { id: string; group: TransactionGroup; is_open: boolean; onToggle: (() => void) | null }
  | { id: string; line: Transaction }
  | { id: string; note: string };

const signed = (amount: number) => (amount > 0 ? `+${number(amount)}` : number(amount).replace("-", "−"));

function Tokens({ amount }: { amount: number }) {
  return <span className={`whitespace-nowrap ${amount > 0 ? "text-good" : ""}`}>{signed(amount)}</span>;
}

/** The agent of an entry: a link to the run if there is one. */
function AgentName({ entry }: { entry: Transaction }) {
  const { agent_id, agent_name, agent_deleted, run_id } = entry;
  if (agent_deleted) return `${agent_name ?? "Agent"} (deleted)`;
  if (agent_id === null || run_id === null) return agent_name;
  return (
    <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id }} className="link relative z-[1]">
      {agent_name ?? "Agent"}
    </Link>
  );
}

interface ExplainProps {
  request_id: string | null;
  /** The line; absent: all charges of a run. */
  line?: number;
  label: string;
}
function Explain({ request_id, line, label }: ExplainProps) {
  if (request_id === null) return null;
  return (
    <Link
      from="/billing"
      to="."
      search={({ line: _line, ...old }) => ({ ...old, why: request_id, ...(line === undefined ? {} : { line }) })}
      resetScroll={false}
      className="link relative z-[1]"
      aria-label={label}
    >
      Explain
    </Link>
  );
}

/** Unfolds a group. The whole row is its button. */
function Unfold({ row }: { row: Extract<Row, { group: object }> }) {
  if (row.onToggle === null) return null;
  const { newest, run_id, entries } = row.group;
  const of = run_id === null ? `the call of ${newest.model}` : `the run of ${newest.agent_name ?? "an agent"}`;
  return (
    <button
      type="button"
      aria-expanded={row.is_open}
      aria-label={`${count(entries, "line")} of ${of}`}
      onClick={row.onToggle}
      className="grid size-6 cursor-pointer place-items-center rounded text-muted after:absolute after:inset-0"
    >
      <Icon name="down" className={`size-4 transition-transform ${row.is_open ? "" : "-rotate-90"}`} />
    </button>
  );
}

const overageOf = ({ overage_tokens, absorbed_tokens }: TransactionGroup) =>
  [
    overage_tokens > 0 && `${number(overage_tokens)} as overage`,
    absorbed_tokens > 0 && `${number(absorbed_tokens)} not charged`,
  ].filter((text) => text !== false);

function What({ row }: { row: Row }) {
  if ("note" in row) return <span className="text-muted">{row.note}</span>;
  const entry = "line" in row ? row.line : row.group.newest;
  const details = (parts: readonly (string | null | undefined)[]) =>
    parts.filter((part) => part != null && part !== "").join(" · ");
  if ("line" in row) {
    return (
      <span className="block truncate pl-2">
        {TYPES[entry.type]}{" "}
        <span className="text-sm text-muted">{details([entry.model, `line ${number(entry.seq)}`])}</span>
      </span>
    );
  }
  const { group } = row;
  const is_charge = CHARGES.has(entry.type);
  return (
    <>
      <span dir="auto" className="block truncate font-medium">
        {group.run_id !== null ? (
          <>
            Run of <AgentName entry={entry} />
          </>
        ) : is_charge ? (
          "Request"
        ) : (
          TYPES[entry.type]
        )}
      </span>
      <span dir="auto" className="block truncate text-sm text-muted">
        {is_charge && group.run_id === null && entry.agent_id !== null && (
          <>
            <AgentName entry={entry} /> ·{" "}
          </>
        )}
        {details([
          is_charge ? entry.model : entry.description,
          group.entries > 1 ? count(group.entries, "line") : null,
          ...overageOf(group),
        ])}
      </span>
    </>
  );
}

function WhyCell({ row }: { row: Row }) {
  if ("note" in row) return null;
  const entry = "line" in row ? row.line : row.group.newest;
  if (!CHARGES.has(entry.type)) return null;
  if ("group" in row && row.group.run_id !== null)
    return <Explain request_id={entry.request_id} label={`Explain the run at line ${entry.seq}`} />;
  return <Explain request_id={entry.request_id} line={entry.seq} label={`Explain line ${entry.seq}`} />;
}

const entryOf = (row: Row) => ("note" in row ? null : "line" in row ? row.line : row.group.newest);
/** A line of overage moves no balance, so its amount is in grey. */
function AmountCell({ row }: { row: Row }) {
  if ("note" in row) return null;
  if ("group" in row) return <Tokens amount={row.group.moved_tokens} />;
  const is_moving = row.line.type !== "overage" && row.line.type !== "absorbed";
  return is_moving ? (
    <Tokens amount={row.line.amount} />
  ) : (
    <span className="text-muted">({number(-row.line.amount)})</span>
  );
}
const BalanceCell = ({ row }: { row: Row }) => {
  const entry = entryOf(row);
  return entry === null ? null : <span className="whitespace-nowrap">{number(entry.balance_after)}</span>;
};
const When = ({ row }: { row: Row }) => {
  const entry = entryOf(row);
  return entry === null ? null : <span className="whitespace-nowrap text-muted">{instant(entry.created_at)}</span>;
};

const COLUMNS: VirtualColumn<Row>[] = [
  { id: "open", title: "", width: "2.5rem", cell: (row) => ("group" in row ? <Unfold row={row} /> : null) },
  { id: "when", title: "When", width: "9.5rem", cell: (row) => <When row={row} /> },
  { id: "what", title: "What", width: "minmax(8rem,1fr)", cell: (row) => <What row={row} /> },
  { id: "why", title: "Why", width: "5rem", cell: (row) => <WhyCell row={row} /> },
  { id: "tokens", title: "Tokens", width: "8rem", numeric: true, cell: (row) => <AmountCell row={row} /> },
  { id: "balance", title: "Balance after", width: "8.5rem", numeric: true, cell: (row) => <BalanceCell row={row} /> },
  {
    id: "phone",
    title: "What",
    width: "minmax(0,1fr)",
    cell: (row) => (
      <>
        <What row={row} />
        <span className="flex items-baseline justify-between gap-2 text-sm">
          <When row={row} /> <WhyCell row={row} /> <AmountCell row={row} />
        </span>
      </>
    ),
  },
];
const WIDE = { phone: false } as const;
const PHONE = { when: false, what: false, why: false, tokens: false, balance: false } as const;
const keyOf = ({ id }: Row) => id;

/** The groups as rows, and the lines of those that are unfolded. */
function useRows(groups: readonly TransactionGroup[], filters: LedgerFilters): Row[] {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = useCallback((id: string) => {
    setOpen((old) => {
      const changed = new Set(old);
      if (!changed.delete(id)) changed.add(id);
      return changed;
    });
  }, []);
  const unfolded = groups.filter((group) => open.has(groupId(group)));
  const lines = useQueries({
    queries: unfolded.map((group) => groupLinesQuery(group, filters)),
    combine: useCallback(
      (results: { data: Transaction[] | undefined; isError: boolean }[]) =>
        results.map(({ data, isError }) => data ?? (isError ? "These lines did not load." : "Loading…")),
      [],
    ),
  });
  return useMemo(() => {
    let place = -1;
    return groups.flatMap((group): Row[] => {
      const id = groupId(group);
      const is_open = open.has(id);
      const row = { id, group, is_open, onToggle: group.entries > 1 ? () => toggle(id) : null };
      if (!is_open) return [row];
      place += 1;
      const found = lines[place];
      if (typeof found === "string" || found === undefined) return [row, { id: `${id} note`, note: found ?? "" }];
      return [row, ...found.map((line) => ({ id: `line ${line.id}`, line }))];
    });
  }, [groups, open, lines, toggle]);
}

/** The ledger by run and call, with filters and a CSV download of its lines. */
export function LedgerTab() {
  const { type, agent_id, run_id, from, to, why, line } = useSearch({ from: "/signed-in/billing" });
  const navigate = useNavigate({ from: "/billing" });
  const filters = chosenFilters({ type, agent_id, run_id, ...period(from, to) }) as LedgerFilters;
  const set = useFilterSetter();
  const csv = useCsvDownload("/api/v1/users/me/transactions", {
    filters,
    of: "ledger",
    saved: "Ledger downloaded",
  });
  const loaded = useInfiniteQuery(ledgerQuery(filters));
  const { data } = loaded;
  const groups = useMemo(() => data?.pages.flatMap(({ rows }) => rows) ?? [], [data]);
  const rows = useRows(groups, filters);
  const is_phone = !useMinWidth("(min-width: 48rem)");
  return (
    <Card flush>
      <div className="grid grid-cols-2 items-end gap-3 border-b border-line px-4 py-3 sm:flex sm:flex-wrap">
        <SelectField
          label="Type"
          className="w-full sm:w-36"
          value={type ?? ""}
          options={TYPE_OPTIONS}
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
      <VirtualList
        loaded={loaded}
        label="Ledger"
        columns={COLUMNS}
        hidden={is_phone ? PHONE : WIDE}
        rows={rows}
        keyOf={keyOf}
        row_rem={is_phone ? 5 : 3.25}
        empty={
          <Empty icon="billing" title="No lines match these filters">
            The ledger has a line for each grant and each charge. Choose other filters.
          </Empty>
        }
      />
    </Card>
  );
}
