import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { allRunsQuery, type FoundRun } from "../api/queries.ts";
import { chosenFilters, withFilter } from "../filters.ts";
import { dollars, instant, number, period } from "../format.ts";
import { parsePair } from "../metadata.ts";
import { RUN_STATUSES, type RunStatus, TRIGGER_OPTIONS } from "../run-words.ts";
import { AgentPicker } from "../ui/agent-picker.tsx";
import { Card, Empty, PageHeader, Status } from "../ui/basics.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField, TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { SelectField } from "../ui/select.tsx";

const COLUMNS: Column<FoundRun>[] = [
  {
    title: "Run",
    cell: ({ id: run_id, agent, queued_at }) => (
      <>
        {agent.deleted ? (
          <span className="whitespace-nowrap">{instant(queued_at)}</span>
        ) : (
          <Link
            to="/agents/$id/runs/$run_id"
            params={{ id: agent.id, run_id }}
            className="font-medium whitespace-nowrap hover:underline"
          >
            {instant(queued_at)}
          </Link>
        )}
        <span className="block text-sm wrap-anywhere text-muted">
          {agent.name ?? "Agent"}
          {agent.deleted && " (deleted)"}
        </span>
      </>
    ),
  },
  { title: "Status", cell: ({ status, has_errors }) => <Status status={status} has_errors={has_errors} /> },
  {
    title: "Output or error",
    wide: true,
    cell: ({ first_line, metadata }) => (
      <>
        <span dir="auto" className="line-clamp-2 max-w-md wrap-anywhere">
          {first_line}
        </span>
        <span className="block text-sm wrap-anywhere text-muted empty:hidden">
          {Object.entries(metadata ?? {})
            .map(([name, value]) => `${name}=${value}`)
            .join(", ")}
        </span>
      </>
    ),
  },
  {
    title: "Tokens",
    numeric: true,
    cell: ({ usage }) => (
      <>
        {number(usage.cost_tokens)}
        <span className="block text-sm text-muted">{dollars(usage.cost_tokens)}</span>
      </>
    ),
  },
];

const STATUSES = Object.keys(RUN_STATUSES) as RunStatus[];
const STATUS_OPTIONS = [["", "any"], ...STATUSES.map((each) => [each, RUN_STATUSES[each].name] as const)] as const;

/** The runs of all agents, found by words and filters. */
export function RunsPage() {
  const { q, status, trigger, agent_id, metadata, from, to } = useSearch({ from: "/signed-in/runs" });
  const navigate = useNavigate({ from: "/runs" });
  const [name, value] = parsePair(metadata ?? "");
  const pair = metadata === undefined ? {} : { [`metadata[${name}]`]: value };
  const filters = chosenFilters({ q, status, trigger, agent_id, ...pair, ...period(from, to) });
  const set = (filter: string) => (chosen: string) =>
    void navigate({ search: withFilter(filter, chosen), replace: true, resetScroll: false });
  const csv = useCsvDownload("/api/v1/runs", { filters, file: "purser-runs.csv", saved: "Runs downloaded" });
  return (
    <>
      <PageHeader title="Runs" note="The runs of all agents, newest first." />
      <Card flush>
        <div className="grid grid-cols-2 items-end gap-3 border-b border-line px-4 py-3 sm:flex sm:flex-wrap">
          <WaitingField
            label="Words"
            type="search"
            value={q ?? ""}
            onValue={set("q")}
            placeholder="in output or input"
          />
          <SelectField
            label="Status"
            className="w-full sm:w-40"
            value={status ?? ""}
            options={STATUS_OPTIONS}
            onValue={set("status")}
          />
          <SelectField
            label="Started by"
            className="w-full sm:w-32"
            value={trigger ?? ""}
            options={TRIGGER_OPTIONS}
            onValue={set("trigger")}
          />
          <AgentPicker label="Agent" className="w-full sm:w-44" value={agent_id ?? ""} onValue={set("agent_id")} />
          <WaitingField
            label="Metadata"
            value={metadata ?? ""}
            onValue={(typed) => (typed === "" || /^[^=]+=./.test(typed)) && set("metadata")(typed)}
            placeholder="customer=4711"
          />
          <DayField label="From" value={from ?? ""} onValue={set("from")} />
          <DayField label="To" value={to ?? ""} onValue={set("to")} />
          {csv.button}
        </div>
        {csv.problem}
        <PagedTable
          label="Runs"
          query={allRunsQuery(filters)}
          columns={COLUMNS}
          keyOf={({ id }) => id}
          empty={
            <Empty
              icon="play"
              title={Object.keys(filters).length === 0 ? "No runs yet" : "No runs match these filters"}
            >
              {Object.keys(filters).length === 0 ? "Each run of an agent is listed here." : "Choose other filters."}
            </Empty>
          }
        />
      </Card>
    </>
  );
}

/** How long a filter waits for the next letter. */
const TYPING_MS = 300;

interface WaitingProps {
  label: string;
  type?: string;
  value: string;
  placeholder: string;
  onValue: (value: string) => void;
}
/** A text of a filter, which is applied when the person stops typing. */
function WaitingField({ value, onValue, ...field }: WaitingProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the callback is new in each rendering
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onValue(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return <TextField {...field} className="w-full sm:w-44" maxLength={200} value={text} onValue={setText} />;
}
