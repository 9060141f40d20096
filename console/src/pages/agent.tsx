import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, agentQuery, type Run, runsQuery, schedulesQuery, stale } from "../api/queries.ts";
import { chosenFilters, useFilterSetter } from "../filters.ts";
import { dollars, instant, number, period } from "../format.ts";
import { AgentSettings } from "../parts/agent-settings.tsx";
import { timeTaken } from "../parts/run-columns.tsx";
import { RunDialog } from "../parts/run-dialog.tsx";
import { AgentSchedules, PausedSchedule } from "../parts/schedules.tsx";
import { AgentTriggers } from "../parts/triggers.tsx";
import { Versions } from "../parts/versions.tsx";
import { STATUS_OPTIONS, starterName, statusQuery, TRIGGER_OPTIONS } from "../run-words.ts";
import { agentWarning } from "../service-words.ts";
import { Button, buttonClass, Callout, Card, Empty, PageHeader, Status, Tabs } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { DayField } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";

/** One agent: its runs, schedules and settings. */
export function AgentPage() {
  const { id } = useParams({ from: "/signed-in/agents/$id" });
  const { tab = "runs" } = useSearch({ from: "/signed-in/agents/$id" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const { data: schedules } = useQuery(schedulesQuery(id));
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const [asking, setAsking] = useState(false);

  const start = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/runs", { params: { id } }),
    onSuccess: () => stale("runs", "agents"),
  });
  const copy = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/duplicate", { params: { id } }),
    onSuccess: async () => {
      confirmSaved("Agent duplicated");
      await stale("agents");
    },
  });
  // These are not called for a person who has gone to another page meanwhile.
  const openCopy = ({ id: copy_id }: Agent) => void navigate({ to: "/agents/$id/edit", params: { id: copy_id } });
  const openRun = ({ id: run_id }: Run) => void navigate({ to: "/agents/$id/runs/$run_id", params: { id, run_id } });
  const askInput = () => setAsking(true);
  const takes_input = agent.input_schema !== null;
  const run = takes_input ? askInput : () => start.mutate(undefined, { onSuccess: openRun });
  return (
    <>
      <PageHeader title={agent.name} note={agent.description ?? undefined}>
        <Button kind="primary" icon="play" busy={start.isPending} disabled={!agent.is_active} onClick={run}>
          Run now
        </Button>
        {!takes_input && (
          <Button disabled={!agent.is_active} onClick={askInput}>
            Run with input
          </Button>
        )}
        <Link to="/agents/$id/chat" params={{ id }} className={buttonClass()}>
          <Icon name="chat" /> Chat
        </Link>
        <Link to="/agents/$id/edit" params={{ id }} className={buttonClass()}>
          <Icon name="edit" /> Edit
        </Link>
        <WithTooltip text="Duplicate agent">
          <Button
            aria-label="Duplicate agent"
            className="px-2"
            icon="copy"
            busy={copy.isPending}
            onClick={() => copy.mutate(undefined, { onSuccess: openCopy })}
          />
        </WithTooltip>
        <WithTooltip text="Delete agent">
          <Button kind="danger" onClick={() => setDeleting(true)} aria-label="Delete agent" className="px-2">
            <Icon name="trash" />
          </Button>
        </WithTooltip>
      </PageHeader>
      <div className="mb-4 space-y-3 empty:hidden">
        {start.error !== null && <ProblemNotice error={start.error} />}
        {copy.error !== null && <ProblemNotice error={copy.error} />}
        {!agent.is_active && (
          <Callout tone="warn" icon="stop">
            This agent is disabled. It does not run and does not chat. Edit it to enable it.
          </Callout>
        )}
        {schedules?.map(
          (schedule) => schedule.status === "paused" && <PausedSchedule key={schedule.id} schedule={schedule} />,
        )}
        {agent.warnings.map(({ code, message }) => (
          <Callout key={code} tone="warn" icon="warning">
            {agentWarning(code, message)}
          </Callout>
        ))}
      </div>
      <AgentTabs id={id} tab={tab} />
      {tab === "runs" && <Runs agent={agent} onRun={run} busy={start.isPending} />}
      {tab === "schedule" && <AgentSchedules agent={agent} />}
      {tab === "triggers" && <AgentTriggers agent={agent} />}
      {tab === "settings" && <AgentSettings agent={agent} />}
      {asking && <RunDialog agent={agent} onRun={openRun} onClose={() => setAsking(false)} />}
      {tab === "versions" && <Versions agent={agent} />}
      {deleting && <DeleteAgent agent={agent} onClose={() => setDeleting(false)} />}
    </>
  );
}

type Tab = "runs" | "schedule" | "triggers" | "settings" | "versions";

function AgentTabs({ id, tab }: { id: string; tab: Tab }) {
  const link = (name: string, of: Tab) => ({
    name,
    chosen: tab === of,
    to: "/agents/$id" as const,
    params: { id },
    search: of === "runs" ? {} : { tab: of },
  });
  const tabs = [
    link("Runs", "runs"),
    link("Schedules", "schedule"),
    link("Triggers", "triggers"),
    link("Settings", "settings"),
    link("Versions", "versions"),
  ];
  return <Tabs label="Parts of the agent" tabs={tabs} />;
}

function DeleteAgent({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const navigate = useNavigate();
  const remove = async () => {
    await call("DELETE /api/v1/agents/{id}", { params: { id: agent.id } });
    await navigate({ to: "/agents" });
    await stale("agents");
  };
  return (
    <Confirm
      title={`Delete ${agent.name}?`}
      action="Delete agent"
      saved="Agent deleted"
      onConfirm={remove}
      onClose={onClose}
    >
      This ends its schedules, cancels its runs and deletes its history. Its charges stay in your ledger. This cannot be
      undone.
    </Confirm>
  );
}

const runColumns = (id: string): Column<Run>[] => [
  {
    title: "Run",
    cell: (run) => (
      <Link
        to="/agents/$id/runs/$run_id"
        params={{ id, run_id: run.id }}
        className="block min-w-20 font-medium hover:underline md:whitespace-nowrap"
      >
        {instant(run.queued_at)}
      </Link>
    ),
  },
  { title: "Status", cell: (run) => <Status status={run.status} has_errors={run.has_errors} /> },
  { title: "Started by", wide: true, cell: starterName },
  { title: "Duration", wide: true, numeric: true, cell: timeTaken },
  { title: "Steps", wide: true, numeric: true, cell: (run) => number(run.steps_count) },
  { title: "Cost", numeric: true, cell: (run) => dollars(run.usage.cost_tokens) },
];

interface RunsProps {
  agent: Agent;
  onRun: () => void;
  /** A run is being started. */
  busy: boolean;
}

function NoRuns({ agent, onRun, busy }: RunsProps) {
  const has_task = (agent.run_prompt ?? "") !== "";
  return (
    <Empty
      icon="play"
      title="No runs yet"
      action={
        has_task ? (
          <Button kind="primary" icon="play" busy={busy} onClick={onRun}>
            Start first run
          </Button>
        ) : (
          <Link to="/agents/$id/edit" params={{ id: agent.id }} className={buttonClass("primary")}>
            Enter a task
          </Link>
        )
      }
    >
      {has_task
        ? "Run the agent and watch each step."
        : "The agent has no task. Enter one to run it, or talk with it in a chat."}
    </Empty>
  );
}

function Runs({ agent, onRun, busy }: RunsProps) {
  const { id } = agent;
  const { status, trigger, from, to } = useSearch({ from: "/signed-in/agents/$id" });
  const filters = chosenFilters({ ...statusQuery(status), trigger, ...period(from, to) });
  const set = useFilterSetter();
  return (
    <Card flush>
      <div className="grid grid-cols-2 gap-3 border-b border-line px-4 py-3 sm:flex sm:flex-wrap">
        <SelectField
          label="Status"
          className="w-full sm:w-52"
          value={status ?? ""}
          options={STATUS_OPTIONS}
          onValue={set("status")}
        />
        <SelectField
          label="Started by"
          className="w-full sm:w-36"
          value={trigger ?? ""}
          options={TRIGGER_OPTIONS}
          onValue={set("trigger")}
        />
        <DayField label="From" value={from ?? ""} onValue={set("from")} />
        <DayField label="To" value={to ?? ""} onValue={set("to")} />
      </div>
      <PagedTable
        label="Runs"
        query={runsQuery(id, filters)}
        columns={runColumns(id)}
        keyOf={(run) => run.id}
        empty={
          Object.keys(filters).length > 0 ? (
            <Empty icon="play" title="No runs match these filters">
              Choose other filters.
            </Empty>
          ) : (
            <NoRuns agent={agent} onRun={onRun} busy={busy} />
          )
        }
      />
    </Card>
  );
}
