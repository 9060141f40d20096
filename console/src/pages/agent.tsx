import { useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, agentQuery, occurrencesQuery, type Run, runsQuery, stale } from "../api/queries.ts";
import { ago, duration, instant, number } from "../format.ts";
import { AgentSettings } from "../parts/agent-settings.tsx";
import { OWN_ZONE, scheduleInWords, wallTime, zoneName } from "../schedule-words.ts";
import { useAct } from "../ui/act.ts";
import { Badge, Button, buttonClass, Callout, Card, Empty, PageHeader, Status } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { SelectField } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { Tabs } from "../ui/tabs.tsx";

/** One agent: its runs, when it runs, and what it is. */
export function AgentPage() {
  const { id } = useParams({ from: "/house/agents/$id" });
  const { tab = "runs" } = useSearch({ from: "/house/agents/$id" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  const navigate = useNavigate();
  const { act, busy, error } = useAct();
  const [deleting, setDeleting] = useState(false);

  const runNow = () =>
    act(async () => {
      const run = await call("POST /api/v1/agents/{id}/runs", { params: { id } });
      await stale("runs", "agents");
      await navigate({ to: "/agents/$id/runs/$run_id", params: { id, run_id: run.id } });
    });
  const remove = async () => {
    await call("DELETE /api/v1/agents/{id}", { params: { id } });
    await navigate({ to: "/agents" });
    await stale("agents");
  };
  return (
    <>
      <PageHeader title={agent.name} note={agent.description ?? undefined}>
        <Button kind="primary" icon="play" busy={busy} disabled={!agent.is_active} onClick={runNow}>
          Run now
        </Button>
        <Link to="/agents/$id/chat" params={{ id }} className={buttonClass()}>
          <Icon name="chat" /> Chat
        </Link>
        <Link to="/agents/$id/edit" params={{ id }} className={buttonClass()}>
          <Icon name="edit" /> Edit
        </Link>
        <Button
          kind="danger"
          onClick={() => setDeleting(true)}
          aria-label="Delete the agent"
          title="Delete the agent"
          className="px-2"
        >
          <Icon name="trash" />
        </Button>
      </PageHeader>
      <div className="mb-4 space-y-3 empty:hidden">
        {error !== null && <ProblemNotice error={error} />}
        {!agent.is_active && (
          <Callout tone="warn" icon="stop">
            This agent is disabled: it does not run and does not chat. Edit it to enable it.
          </Callout>
        )}
        {agent.schedule_status === "paused" && (
          <Callout tone="warn" icon="clock">
            Its schedule is paused: {agent.schedule_paused_reason}. <Resume agent={agent} />
          </Callout>
        )}
      </div>
      <Tabs
        label="Parts of the agent"
        tabs={[
          { name: "Runs", chosen: tab === "runs", to: "/agents/$id", params: { id }, search: {} },
          {
            name: "Schedule",
            chosen: tab === "schedule",
            to: "/agents/$id",
            params: { id },
            search: { tab: "schedule" },
          },
          {
            name: "Settings",
            chosen: tab === "settings",
            to: "/agents/$id",
            params: { id },
            search: { tab: "settings" },
          },
        ]}
      />
      {tab === "runs" && <Runs id={id} onRun={runNow} busy={busy} />}
      {tab === "schedule" && <Schedule agent={agent} />}
      {tab === "settings" && <AgentSettings agent={agent} />}
      {deleting && (
        <Confirm
          title={`Delete ${agent.name}?`}
          act="Delete the agent"
          onAct={remove}
          onClose={() => setDeleting(false)}
        >
          Its schedule ends and its runs are cancelled. Its history can no longer be read; what it cost stays in your
          ledger. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

/** Saving the schedule anew resumes one that was paused. */
function Resume({ agent }: { agent: Agent }) {
  const { act, busy, error } = useAct();
  const resume = () =>
    act(async () => {
      for (const schedule_enabled of [false, true]) {
        await call("PUT /api/v1/agents/{id}", { params: { id: agent.id }, body: { schedule_enabled } });
      }
      await stale("agents");
    });
  return (
    <>
      <button type="button" className="link" disabled={busy} onClick={resume}>
        Resume it
      </button>
      {error !== null && <ProblemNotice error={error} />}
    </>
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
  { title: "Status", cell: (run) => <Status status={run.status} /> },
  {
    title: "Started by",
    wide: true,
    cell: (run) => ({ schedule: "its schedule", manual: "you", chat: "a chat" })[run.trigger],
  },
  {
    title: "Took",
    wide: true,
    numeric: true,
    cell: (run) =>
      run.started_at === null || run.finished_at === null ? "—" : duration(run.started_at, run.finished_at),
  },
  { title: "Steps", wide: true, numeric: true, cell: (run) => number(run.steps_count) },
  { title: "Tokens", numeric: true, cell: (run) => number(run.usage.cost_tokens) },
];

const ANY = ["", "any"] as const;
const STATUSES = [
  ANY,
  ...(["queued", "running", "succeeded", "failed", "cancelled"] as const).map((status) => [status, status] as const),
];
const TRIGGERS = [ANY, ["manual", "you"], ["schedule", "its schedule"], ["chat", "a chat"]] as const;

function Runs({ id, onRun, busy }: { id: string; onRun: () => void; busy: boolean }) {
  const { status, trigger } = useSearch({ from: "/house/agents/$id" });
  const navigate = useNavigate({ from: "/agents/$id" });
  const filtered = status !== undefined || trigger !== undefined;
  return (
    <Card flush>
      <div className="flex flex-wrap gap-3 border-b border-line px-4 py-3">
        <SelectField
          label="Status"
          className="w-36"
          value={status ?? ""}
          options={STATUSES}
          onValue={(value) =>
            void navigate({
              search: (old) => ({ ...old, status: value === "" ? undefined : value }) as never,
              replace: true,
            })
          }
        />
        <SelectField
          label="Started by"
          className="w-36"
          value={trigger ?? ""}
          options={TRIGGERS}
          onValue={(value) =>
            void navigate({
              search: (old) => ({ ...old, trigger: value === "" ? undefined : value }) as never,
              replace: true,
            })
          }
        />
      </div>
      <PagedTable
        label="Runs"
        query={runsQuery(id, {
          ...(status === undefined ? {} : { status }),
          ...(trigger === undefined ? {} : { trigger }),
        })}
        columns={runColumns(id)}
        keyOf={(run) => run.id}
        empty={
          filtered ? (
            <Empty icon="play" title="No run is like that">
              Choose other filters.
            </Empty>
          ) : (
            <Empty
              icon="play"
              title="It has not run yet"
              action={
                <Button kind="primary" icon="play" busy={busy} onClick={onRun}>
                  Run it now
                </Button>
              }
            >
              Run it and watch each step as it happens.
            </Empty>
          )
        }
      />
    </Card>
  );
}

/** A reason with its instants by the reader's clock, and the run that it names to be followed. */
function Why({ reason, agent_id }: { reason: string; agent_id: string }) {
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

type Occurrence = { at: string; state: string; reason: string | null; run_id: string | null };

function Schedule({ agent }: { agent: Agent }) {
  const columns: Column<Occurrence>[] = [
    { title: "Due", cell: ({ at }) => <span className="whitespace-nowrap">{wallTime(at, OWN_ZONE)}</span> },
    {
      title: "What became of it",
      cell: ({ state, run_id }) =>
        run_id === null ? (
          <Badge tone="warn">{state}</Badge>
        ) : (
          <Link to="/agents/$id/runs/$run_id" params={{ id: agent.id, run_id }} className="link">
            it ran
          </Link>
        ),
    },
    { title: "Why", cell: ({ reason }) => <Why reason={reason ?? ""} agent_id={agent.id} /> },
  ];
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,20rem)_1fr]">
      <Card title="When it runs" note={scheduleInWords(agent)}>
        {agent.upcoming_runs.length === 0 ? (
          <p className="text-muted">
            Nothing is due.{" "}
            <Link to="/agents/$id/edit" params={{ id: agent.id }} className="link">
              Give it a schedule
            </Link>
          </p>
        ) : (
          <ol className="space-y-2">
            {agent.upcoming_runs.map(({ at, note }) => (
              <li key={at}>
                {wallTime(at, agent.schedule_timezone)} <span className="text-muted">· {ago(at)}</span>
                {agent.schedule_timezone !== OWN_ZONE && (
                  <span className="block text-sm text-muted">
                    {wallTime(at, OWN_ZONE)} in {zoneName(OWN_ZONE)}
                  </span>
                )}
                {note !== undefined && <span className="block text-sm text-warn">{note}</span>}
              </li>
            ))}
          </ol>
        )}
      </Card>
      <Card title="Each time it was due" note="Why it ran, or did not" flush>
        <PagedTable
          label="Occurrences"
          query={occurrencesQuery(agent.id)}
          columns={columns}
          keyOf={({ at }) => at}
          empty={
            <Empty icon="clock" title="It was never due">
              Once its schedule comes round, each time is recorded here.
            </Empty>
          }
        />
      </Card>
    </div>
  );
}
