import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Answer, call } from "../api/client.ts";
import { type Agent, occurrencesQuery, type Schedule, schedulesQuery, stale } from "../api/queries.ts";
import { ago } from "../format.ts";
import { OWN_ZONE, ownTime, scheduleInWords, wallTime } from "../schedule-words.ts";
import { scheduleReason } from "../service-words.ts";
import { Badge, Button, Callout, Card, Empty, Status, type Tone } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { RecordItem, RecordsCard } from "../ui/records-card.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { ScheduleDialog } from "./schedule-dialog.tsx";

/** The schedules of an agent, and their past due times. */
export function AgentSchedules({ agent }: { agent: Agent }) {
  const query = useQuery(schedulesQuery(agent.id));
  const schedules = query.data;
  return (
    <div className="space-y-4">
      <RecordsCard
        title="Schedules"
        query={query}
        add="Add schedule"
        icon="clock"
        empty="A schedule runs the agent by itself, such as on weekdays at 08:30. An agent can have several."
        dialog={(schedule, onClose) => (
          <ScheduleDialog agent={agent} schedule={schedule} first={schedules?.length === 0} onClose={onClose} />
        )}
      >
        {(schedule, onEdit) => <OneSchedule key={schedule.id} schedule={schedule} onEdit={onEdit} />}
      </RecordsCard>
      <PastDueTimes agent_id={agent.id} schedules={schedules ?? []} />
    </div>
  );
}

const TONES: Record<Schedule["status"], Tone> = { active: "good", paused: "warn", off: "neutral", ended: "neutral" };

/** The parameters of a request about one schedule. */
const pathOf = ({ id, agent_id }: Schedule) => ({ params: { id: agent_id, schedule_id: id } });

function useResume(schedule: Schedule) {
  return useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/schedules/{schedule_id}/resume", pathOf(schedule)),
    onSuccess: async () => {
      await stale("agents");
      confirmSaved("Schedule resumed");
    },
  });
}

/** Says why a schedule is paused. One button resumes it. */
export function PausedSchedule({ schedule }: { schedule: Schedule }) {
  const resume = useResume(schedule);
  return (
    <Callout tone="warn" icon="clock">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <p className="min-w-60 flex-1">
          The schedule “{schedule.name}” is paused. Reason: {scheduleReason(schedule.paused_reason ?? "")}.
        </p>
        <Button icon="play" busy={resume.isPending} onClick={() => resume.mutate()}>
          Resume schedule
        </Button>
      </div>
      {resume.error !== null && <ProblemNotice error={resume.error} />}
    </Callout>
  );
}

function OneSchedule({ schedule, onEdit }: { schedule: Schedule; onEdit: () => void }) {
  const { name, status } = schedule;
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const resume = useResume(schedule);
  const pause = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/schedules/{schedule_id}/pause", pathOf(schedule)),
    onSuccess: () => stale("agents"),
  });
  const run = useMutation({
    mutationFn: () => call("POST /api/v1/agents/{id}/schedules/{schedule_id}/run", pathOf(schedule)),
    onSuccess: () => stale("runs", "agents"),
  });
  const openRun = ({ agent_id: id, id: run_id }: { agent_id: string; id: string }) =>
    void navigate({ to: "/agents/$id/runs/$run_id", params: { id, run_id } });
  const error = resume.error ?? pause.error ?? run.error;
  return (
    <RecordItem
      name={name}
      status={<Badge tone={TONES[status]}>{status}</Badge>}
      facts={
        <>
          <p>{scheduleInWords(schedule)}</p>
          <NextRuns schedule={schedule} />
        </>
      }
      buttons={
        <>
          <Button
            icon="play"
            aria-label={`Run now: ${name}`}
            busy={run.isPending}
            onClick={() => run.mutate(undefined, { onSuccess: openRun })}
          >
            Run now
          </Button>
          {status === "paused" && (
            <Button aria-label={`Resume ${name}`} busy={resume.isPending} onClick={() => resume.mutate()}>
              Resume
            </Button>
          )}
          {status === "active" && (
            <Button aria-label={`Pause ${name}`} busy={pause.isPending} onClick={() => pause.mutate()}>
              Pause
            </Button>
          )}
        </>
      }
      onEdit={onEdit}
      onDelete={() => setDeleting(true)}
    >
      {error !== null && <ProblemNotice error={error} />}
      {deleting && (
        <Confirm
          title={`Delete schedule ${name}?`}
          action="Delete schedule"
          saved="Schedule deleted"
          onConfirm={async () => {
            await call("DELETE /api/v1/agents/{id}/schedules/{schedule_id}", pathOf(schedule));
            await stale("agents", "occurrences");
          }}
          onClose={() => setDeleting(false)}
        >
          The agent no longer runs at these times. The runs so far stay; the list of past due times loses this
          schedule's. This cannot be undone.
        </Confirm>
      )}
    </RecordItem>
  );
}

function NextRuns({ schedule: { status, upcoming_runs, timezone } }: { schedule: Schedule }) {
  if (status === "paused") return <p className="text-muted">None while the schedule is paused.</p>;
  if (upcoming_runs.length === 0 || status === "off") return null;
  return (
    <ol aria-label="Next runs" className="mt-1 space-y-0.5 text-sm">
      {upcoming_runs.map(({ at, note }) => (
        <li key={at}>
          {wallTime(at, timezone)} <span className="text-muted">· {ago(at)}</span>
          {ownTime(at, timezone) !== null && <span className="text-muted"> · {ownTime(at, timezone)}</span>}
          {note !== undefined && <span className="block text-warn">{note}</span>}
        </li>
      ))}
    </ol>
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

function PastDueTimes({ agent_id, schedules }: { agent_id: string; schedules: Schedule[] }) {
  const names: Column<Occurrence>[] =
    schedules.length < 2
      ? []
      : [{ title: "Schedule", cell: (of) => schedules.find(({ id }) => id === of.schedule_id)?.name ?? "" }];
  const columns: Column<Occurrence>[] = [
    { title: "Due", cell: ({ at }) => <span className="whitespace-nowrap">{wallTime(at, OWN_ZONE)}</span> },
    ...names,
    {
      title: "Result",
      cell: ({ at, state, run_id, run }) =>
        run_id === null ? (
          <Badge tone="warn">{state}</Badge>
        ) : run === null ? (
          <span className="text-muted">Ran, no longer kept</span>
        ) : (
          <Link
            to="/agents/$id/runs/$run_id"
            params={{ id: agent_id, run_id }}
            aria-label={`View run of ${wallTime(at, OWN_ZONE)}`}
          >
            <Status status={run.status} has_errors={run.has_errors} />
          </Link>
        ),
    },
    { title: "Reason", cell: ({ reason }) => <Reason reason={scheduleReason(reason ?? "")} agent_id={agent_id} /> },
  ];
  return (
    <Card title="Past due times" note="Each with its run, or the reason why there was none" flush>
      <PagedTable
        label="Occurrences"
        query={occurrencesQuery(agent_id)}
        columns={columns}
        keyOf={({ at, schedule_id }) => `${schedule_id} ${at}`}
        empty={
          <Empty icon="clock" title="No due times yet">
            Purser records each due time of the schedules here.
          </Empty>
        }
      />
    </Card>
  );
}
