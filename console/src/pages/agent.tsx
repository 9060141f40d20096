import { useMutation, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { type Agent, agentQuery, occurrencesQuery, type Run, runsQuery, stale } from "../api/queries.ts";
import { ago, duration, instant, number, period } from "../format.ts";
import { AgentSettings } from "../parts/agent-settings.tsx";
import { RunDialog } from "../parts/run-dialog.tsx";
import { filterName, filterQuery, RUN_FILTERS } from "../run-words.ts";
import { OWN_ZONE, ownTime, scheduleInWords, wallTime } from "../schedule-words.ts";
import { agentWarning, scheduleReason } from "../service-words.ts";
import { Badge, Button, buttonClass, Callout, Card, Empty, PageHeader, Status, Tabs } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { DayField } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";

/** One agent: its runs, schedule and settings. */
export function AgentPage() {
  const { id } = useParams({ from: "/signed-in/agents/$id" });
  const { tab = "runs" } = useSearch({ from: "/signed-in/agents/$id" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const [asking, setAsking] = useState(false);

  const start = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/runs", { params: { id } }),
    onSuccess: () => stale("runs", "agents"),
  });
  // Not called for a person who has gone to another page meanwhile.
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
        <WithTooltip text="Delete agent">
          <Button kind="danger" onClick={() => setDeleting(true)} aria-label="Delete agent" className="px-2">
            <Icon name="trash" />
          </Button>
        </WithTooltip>
      </PageHeader>
      <div className="mb-4 space-y-3 empty:hidden">
        {start.error !== null && <ProblemNotice error={start.error} />}
        {!agent.is_active && (
          <Callout tone="warn" icon="stop">
            This agent is disabled. It does not run and does not chat. Edit it to enable it.
          </Callout>
        )}
        {agent.schedule_status === "paused" && <Paused agent={agent} />}
        {agent.warnings.map(({ code, message }) => (
          <Callout key={code} tone="warn" icon="warning">
            {agentWarning(code, message)}
          </Callout>
        ))}
      </div>
      <AgentTabs id={id} tab={tab} />
      {tab === "runs" && <Runs id={id} onRun={run} busy={start.isPending} />}
      {tab === "schedule" && <Schedule agent={agent} />}
      {tab === "settings" && <AgentSettings agent={agent} />}
      {asking && <RunDialog agent={agent} onRun={openRun} onClose={() => setAsking(false)} />}
      {deleting && <DeleteAgent agent={agent} onClose={() => setDeleting(false)} />}
    </>
  );
}

type Tab = "runs" | "schedule" | "settings";

function AgentTabs({ id, tab }: { id: string; tab: Tab }) {
  const link = (name: string, of: Tab) => ({
    name,
    chosen: tab === of,
    to: "/agents/$id" as const,
    params: { id },
    search: of === "runs" ? {} : { tab: of },
  });
  const tabs = [link("Runs", "runs"), link("Schedule", "schedule"), link("Settings", "settings")];
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
      This ends its schedule, cancels its runs and deletes its history. Its charges stay in your ledger. This cannot be
      undone.
    </Confirm>
  );
}

/** Says why the schedule is paused. One button resumes it. */
function Paused({ agent }: { agent: Agent }) {
  const resume = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/resume", { params: { id: agent.id } }),
    onSuccess: async () => {
      await stale("agents");
      confirmSaved("Schedule resumed");
    },
  });
  return (
    <Callout tone="warn" icon="clock">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <p className="min-w-60 flex-1">
          The schedule is paused, so the agent does not run by itself. Reason:{" "}
          {scheduleReason(agent.schedule_paused_reason ?? "")}.
        </p>
        <Button icon="play" busy={resume.isPending} onClick={() => resume.mutate()}>
          Resume schedule
        </Button>
      </div>
      {resume.error !== null && <ProblemNotice error={resume.error} />}
    </Callout>
  );
}

const runColumns = (id: string): Column<Run>[] => [
  {
    title: "Run",
    cell: (run) => (
      <Link
        to="/agents/$id/runs/$run_id"
        params={{ id, run_id: run.id }}
        className="font-medium whitespace-nowrap hover:underline"
      >
        {instant(run.queued_at)}
      </Link>
    ),
  },
  { title: "Status", cell: (run) => <Status status={run.status} has_errors={run.has_errors} /> },
  {
    title: "Started by",
    wide: true,
    cell: (run) => ({ schedule: "schedule", manual: "you", chat: "chat" })[run.trigger],
  },
  {
    title: "Duration",
    wide: true,
    numeric: true,
    cell: (run) =>
      run.started_at === null || run.finished_at === null ? "—" : duration(run.started_at, run.finished_at),
  },
  { title: "Steps", wide: true, numeric: true, cell: (run) => number(run.steps_count) },
  { title: "Tokens", numeric: true, cell: (run) => number(run.usage.cost_tokens) },
];

const ANY = ["", "any"] as const;
const STATUSES = [ANY, ...RUN_FILTERS.map((filter) => [filter, filterName(filter)] as const)];
const TRIGGERS = [ANY, ["manual", "you"], ["schedule", "schedule"], ["chat", "chat"]] as const;

function Runs({ id, onRun, busy }: { id: string; onRun: () => void; busy: boolean }) {
  const { status, trigger, from, to } = useSearch({ from: "/signed-in/agents/$id" });
  const navigate = useNavigate({ from: "/agents/$id" });
  const chosen = Object.entries({ ...(status && filterQuery(status)), trigger, ...period(from, to) }).filter(
    ([, value]) => value !== undefined,
  );
  const set = (name: string) => (value: string) =>
    void navigate({ search: (old) => ({ ...old, [name]: value === "" ? undefined : value }) as never, replace: true });
  return (
    <Card flush>
      <div className="grid grid-cols-2 gap-3 border-b border-line px-4 py-3 sm:flex sm:flex-wrap">
        <SelectField
          label="Status"
          className="w-full sm:w-52"
          value={status ?? ""}
          options={STATUSES}
          onValue={set("status")}
        />
        <SelectField
          label="Started by"
          className="w-full sm:w-36"
          value={trigger ?? ""}
          options={TRIGGERS}
          onValue={set("trigger")}
        />
        <DayField label="From" value={from ?? ""} onValue={set("from")} />
        <DayField label="To" value={to ?? ""} onValue={set("to")} />
      </div>
      <PagedTable
        label="Runs"
        query={runsQuery(id, Object.fromEntries(chosen))}
        columns={runColumns(id)}
        keyOf={(run) => run.id}
        empty={
          chosen.length > 0 ? (
            <Empty icon="play" title="No runs match these filters">
              Choose other filters.
            </Empty>
          ) : (
            <Empty
              icon="play"
              title="No runs yet"
              action={
                <Button kind="primary" icon="play" busy={busy} onClick={onRun}>
                  Start first run
                </Button>
              }
            >
              Run the agent and watch each step.
            </Empty>
          )
        }
      />
    </Card>
  );
}

/** A reason with its times in the browser's zone and links to the runs that it names. */
function Reason({ reason, agent_id }: { reason: string; agent_id: string }) {
  return reason.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})/).map((part, nth) => {
    if (nth % 2 === 0) return part;
    if (part.endsWith("Z")) return wallTime(part, OWN_ZONE);
    return (
      <Link key={part} to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id: part }} className="link">
        that run
      </Link>
    );
  });
}

type Occurrence = Answer<"GET /api/v1/agents/{id}/occurrences">["occurrences"][number];

function Schedule({ agent }: { agent: Agent }) {
  const columns: Column<Occurrence>[] = [
    { title: "Due", cell: ({ at }) => <span className="whitespace-nowrap">{wallTime(at, OWN_ZONE)}</span> },
    {
      title: "Result",
      cell: ({ at, state, run_id, run }) =>
        run_id === null ? (
          <Badge tone="warn">{state}</Badge>
        ) : run === null ? (
          <span className="text-muted">ran, no longer kept</span>
        ) : (
          <Link
            to="/agents/$id/runs/$run_id"
            params={{ id: agent.id, run_id }}
            aria-label={`View run of ${wallTime(at, OWN_ZONE)}`}
          >
            <Status status={run.status} has_errors={run.has_errors} />
          </Link>
        ),
    },
    { title: "Reason", cell: ({ reason }) => <Reason reason={scheduleReason(reason ?? "")} agent_id={agent.id} /> },
  ];
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,20rem)_1fr]">
      <Card title="Next runs" note={scheduleInWords(agent)}>
        {agent.schedule_status === "paused" ? (
          <p className="text-muted">None while the schedule is paused.</p>
        ) : agent.upcoming_runs.length === 0 ? (
          <p className="text-muted">
            None.{" "}
            <Link to="/agents/$id/edit" params={{ id: agent.id }} className="link">
              Set a schedule
            </Link>
          </p>
        ) : (
          <ol className="space-y-2">
            {agent.upcoming_runs.map(({ at, note }) => (
              <li key={at}>
                {wallTime(at, agent.schedule_timezone)} <span className="text-muted">· {ago(at)}</span>
                <span className="block text-sm text-muted empty:hidden">{ownTime(at, agent.schedule_timezone)}</span>
                {note !== undefined && <span className="block text-sm text-warn">{note}</span>}
              </li>
            ))}
          </ol>
        )}
      </Card>
      <Card title="Past due times" note="Each with its run, or the reason why there was none" flush>
        <PagedTable
          label="Occurrences"
          query={occurrencesQuery(agent.id)}
          columns={columns}
          keyOf={({ at, schedule_id }) => `${at} ${schedule_id}`}
          empty={
            <Empty icon="clock" title="No due times yet">
              Purser records each due time of the schedule here.
            </Empty>
          }
        />
      </Card>
    </div>
  );
}
