import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, type RegisteredRouter, useSearch } from "@tanstack/react-router";
import type { RowSelectionState } from "@tanstack/react-table";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import {
  type AllRunsFilters,
  allRunsQuery,
  type FoundRun,
  newestRunsQuery,
  queryClient,
  type Run,
} from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { dayForInput, daysOfFields, dollars, instant, period } from "../format.ts";
import { parsePair } from "../metadata.ts";
import { COST_COLUMN, DURATION_COLUMN, MODEL_COLUMN, QUEUED_COLUMN } from "../parts/run-columns.tsx";
import { RunPanel } from "../parts/run-panel.tsx";
import { RunSelection } from "../parts/run-selection.tsx";
import { STATUS_OPTIONS, starterName, statusQuery, TRIGGER_OPTIONS } from "../run-words.ts";
import { inWords } from "../service-words.ts";
import { Card, Empty, PageHeader, Segments, Status } from "../ui/basics.tsx";
import { BesideList } from "../ui/beside-list.tsx";
import { useCsvDownload } from "../ui/csv-download.tsx";
import { DayField } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { AgentPicker, ModelPicker } from "../ui/picker.tsx";
import { SelectField } from "../ui/select.tsx";
import { rowLink, VirtualList } from "../ui/virtual-list.tsx";
import { useMinWidth, type VirtualColumn } from "../ui/virtual-table.tsx";
import { WaitingField } from "../ui/waiting-field.tsx";

const agentName = ({ agent: { name, deleted } }: FoundRun) => `${name ?? "Agent"}${deleted ? " (deleted)" : ""}`;

/** Opens the run beside the list. The whole row is its link. */
function RunLink({ run, className = "" }: { run: FoundRun; className?: string }) {
  return (
    <Link from="/runs" to="." search={(old) => ({ ...old, run: run.id })} {...rowLink(className)}>
      {agentName(run)}
      <span className="sr-only">, run of {instant(run.queued_at)}</span>
    </Link>
  );
}

function StatusAndMarks({ run }: { run: FoundRun }) {
  return (
    <span className="flex items-center gap-1.5">
      <Status status={run.status} has_errors={run.has_errors} />
      {run.has_injection && (
        <span className="text-warn" title="Something that it read contained instructions for the model">
          <Icon name="shield" />
          <span className="sr-only">with instructions from outside</span>
        </span>
      )}
    </span>
  );
}

function FirstLine({ run: { first_line, error } }: { run: FoundRun }) {
  return (
    <span dir="auto" className={`block truncate ${error === null ? "text-muted" : "text-bad"}`}>
      {error === null ? first_line : inWords(first_line ?? "")}
    </span>
  );
}

const COLUMNS: VirtualColumn<FoundRun>[] = [
  { id: "status", title: "Status", width: "11rem", cell: (run) => <StatusAndMarks run={run} /> },
  { id: "agent", title: "Agent", width: "minmax(6rem,9rem)", cell: (run) => <RunLink run={run} /> },
  { id: "line", title: "Output or error", width: "minmax(6rem,1fr)", cell: (run) => <FirstLine run={run} /> },
  {
    id: "trigger",
    title: "Started by",
    width: "5.5rem",
    cell: (run) => <span className="block truncate text-muted">{starterName(run)}</span>,
  },
  MODEL_COLUMN,
  DURATION_COLUMN,
  COST_COLUMN,
  QUEUED_COLUMN,
  {
    id: "phone",
    title: "Run",
    width: "minmax(0,1fr)",
    cell: (run) => (
      <>
        <span className="flex items-baseline justify-between gap-3">
          <RunLink run={run} className="min-w-0" />
          <span className="shrink-0 text-sm text-muted">{instant(run.queued_at)}</span>
        </span>
        <FirstLine run={run} />
        <span className="flex items-center justify-between gap-3">
          <StatusAndMarks run={run} />
          <span>{dollars(run.usage.cost_tokens)}</span>
        </span>
      </>
    ),
  },
];
const PHONE = { select: false, status: false, agent: false, line: false, trigger: false, model: false } as const;
const HIDDEN = {
  phone: { ...PHONE, duration: false, cost: false, when: false },
  narrow: { phone: false, trigger: false, model: false, duration: false },
  wide: { phone: false },
};

/** Days that people ask for most. */
function presets(today: Date) {
  const daysAgo = (days: number) => {
    const date = new Date(today);
    date.setDate(date.getDate() - days);
    return dayForInput(date.toISOString());
  };
  const monday = ((today.getDay() + 6) % 7) + 7;
  return [
    ["All", undefined, undefined],
    ["Today", daysAgo(0), daysAgo(0)],
    ["Yesterday", daysAgo(1), daysAgo(1)],
    ["7 days", daysAgo(7), daysAgo(0)],
    ["Last week", daysAgo(monday), daysAgo(monday - 6)],
  ] as const;
}

/** The runs as loaded page by page, with the newest states of the newest ones. */
function useRuns(filters: AllRunsFilters) {
  const loaded = useInfiniteQuery(allRunsQuery(filters));
  const { data: newest } = useQuery({ ...newestRunsQuery(filters), enabled: loaded.isSuccess });
  const rows = useMemo(() => {
    const old = loaded.data?.pages.flatMap(({ rows }) => rows) ?? [];
    if (newest === undefined || newest.length === 0) return old;
    const fresh = new Map(newest.map((run) => [run.id, run]));
    const known = new Set(old.map(({ id }) => id));
    return [...newest.filter(({ id }) => !known.has(id)), ...old.map((run) => fresh.get(run.id) ?? run)];
  }, [loaded.data, newest]);
  return { loaded, rows };
}

/** The runs of all agents, found by words and filters. */
export function RunsPage() {
  const search = useSearch({ from: "/signed-in/runs" });
  const set = useFilterSetter();
  const filters = filtersOf(search);
  const csv = useCsvDownload("/api/v1/runs", { filters, of: "runs", saved: "Runs downloaded" });
  const { loaded, rows } = useRuns(filters);
  const [selected, setSelected] = useState<RowSelectionState>({});
  const is_wide = useMinWidth("(min-width: 64rem)");
  const is_phone = !useMinWidth("(min-width: 48rem)");
  const show = set("run");
  const onNext = (next: Run) => {
    void queryClient.invalidateQueries({ queryKey: ["runs", "newest"] });
    show(next.id);
  };
  const open = search.run;
  const found = rows.find(({ id }) => id === open);
  const panel = open !== undefined && (
    <RunPanel key={open} run_id={open} {...(found === undefined ? {} : { found })} onNext={onNext} />
  );
  const title = found === undefined ? "Run" : `Run of ${agentName(found)}`;
  const with_panel = is_wide && open !== undefined;
  const has_filters = Object.keys(filters).length > 0;
  const list = (
    <Card flush>
      <Filters search={search} set={set} csv={csv.button} />
      {csv.problem}
      <VirtualList
        loaded={loaded}
        label="Runs"
        columns={COLUMNS}
        hidden={is_phone ? HIDDEN.phone : with_panel || !is_wide ? HIDDEN.narrow : HIDDEN.wide}
        rows={rows}
        keyOf={keyOf}
        row_rem={is_phone ? 6 : 2.75}
        current={open}
        selected={selected}
        onSelected={setSelected}
        empty={
          <Empty icon="play" title={has_filters ? "No runs match these filters" : "No runs yet"}>
            {has_filters ? "Choose other filters." : "Each run of an agent is listed here."}
          </Empty>
        }
      />
      <RunSelection runs={rows.filter(({ id }) => selected[id] === true)} onSelected={setSelected} />
    </Card>
  );
  return (
    <div data-wide>
      <PageHeader title="Runs" note="The runs of all agents, newest first.">
        <Presets from={search.from} to={search.to} />
      </PageHeader>
      <BesideList list={list} panel={panel} title={title} is_wide={is_wide} onClose={() => show("")} />
    </div>
  );
}

type RunsSearch = ReturnType<typeof useSearch<RegisteredRouter, "/signed-in/runs">>;

/** The filters of the page's address, as the API's parameters. */
function filtersOf({ q, status, trigger, agent_id, model_id, user, metadata, from, to }: RunsSearch) {
  const [name, value] = parsePair(metadata ?? "");
  const pair = metadata === undefined ? {} : { [`metadata[${name}]`]: value };
  const state = statusQuery(status);
  return chosenFilters({ q, ...state, trigger, agent_id, model_id, user, ...pair, ...period(from, to) });
}

interface FiltersProps {
  search: RunsSearch;
  set: (name: string) => (value: string) => void;
  /** The button that downloads the list. */
  csv: ReactNode;
}
function Filters({ search, set, csv }: FiltersProps) {
  const { q, status, trigger, agent_id, model_id, user, metadata, from, to } = search;
  const [was_narrowed] = useState([trigger, user, metadata].some((each) => each !== undefined));
  const days = daysOfFields(from, to);
  return (
    <div className="space-y-3 border-b border-line px-4 py-3">
      <div className="grid grid-cols-2 items-end gap-3 sm:flex sm:flex-wrap">
        <SearchField value={q ?? ""} onValue={set("q")} />
        <SelectField
          label="Status"
          className="w-full sm:w-36"
          value={status ?? ""}
          options={STATUS_OPTIONS}
          onValue={set("status")}
        />
        <AgentPicker label="Agent" className="w-full sm:w-40" value={agent_id ?? ""} onValue={set("agent_id")} />
        <ModelPicker
          label="Model"
          className="w-full sm:w-40"
          value={model_id ?? ""}
          none="All"
          onValue={set("model_id")}
        />
        {csv}
      </div>
      <details open={was_narrowed}>
        <summary className="w-fit text-sm text-muted hover:text-ink">More filters</summary>
        <div className="mt-2 grid grid-cols-2 items-end gap-3 sm:flex sm:flex-wrap">
          <SelectField
            label="Started by"
            className="w-full sm:w-32"
            value={trigger ?? ""}
            options={TRIGGER_OPTIONS}
            onValue={set("trigger")}
          />
          <WaitingField label="End user" value={user ?? ""} onValue={set("user")} placeholder="As requests name it" />
          <WaitingField
            label="Metadata"
            value={metadata ?? ""}
            onValue={(typed) => (typed === "" || /^[^=]+=./.test(typed)) && set("metadata")(typed)}
            placeholder="order=4711"
          />
          <DayField label="From" value={days.from} onValue={set("from")} />
          <DayField label="To" value={days.to} onValue={set("to")} />
        </div>
      </details>
    </div>
  );
}

const keyOf = ({ id }: FoundRun) => id;

function Presets({ from, to }: { from: string | undefined; to: string | undefined }) {
  return (
    <Segments
      label="Days"
      segments={presets(new Date()).map(([name, first, last]) => ({
        name,
        chosen: from === first && to === last,
        search: { from: first, to: last },
      }))}
    />
  );
}

/** The search in the runs' texts. The key "/" begins it. */
function SearchField({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  const field = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const begin = (event: KeyboardEvent) => {
      const { target } = event;
      const is_typing = target instanceof HTMLElement && target.matches("input, textarea, select, [role=combobox]");
      if (event.key !== "/" || is_typing || document.querySelector("dialog[open]") !== null) return;
      event.preventDefault();
      field.current?.querySelector("input")?.focus();
    };
    document.addEventListener("keydown", begin);
    return () => document.removeEventListener("keydown", begin);
  }, []);
  return (
    <div ref={field} className="max-sm:col-span-2">
      <WaitingField label="Words" type="search" value={value} onValue={onValue} placeholder="output, input ( / )" />
    </div>
  );
}
