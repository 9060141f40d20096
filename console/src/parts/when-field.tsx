import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Agent, type Schedule, schedulesQuery } from "../api/queries.ts";
import { scheduleInWords } from "../schedule-words.ts";
import { Badge, Button } from "../ui/basics.tsx";
import { Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { ScheduleDialog } from "./schedule-dialog.tsx";
import { ScheduleTimesFields } from "./schedule-times.tsx";
import { type TimesDraft, timesDraft } from "./times-draft.ts";

/** When a new agent runs. Its schedule is created with it. */
export function NewAgentWhen({ when, onWhen }: { when: TimesDraft | null; onWhen: (when: TimesDraft | null) => void }) {
  return (
    <section aria-label="When" className="space-y-4">
      <Toggle
        label="Runs by itself"
        checked={when !== null}
        onChecked={(on) => onWhen(on ? timesDraft(null) : null)}
        hint="Otherwise it runs when you or a program starts it. You can add more schedules later."
      />
      {when !== null && (
        <ScheduleTimesFields of_new_agent draft={when} change={(changes) => onWhen({ ...when, ...changes })} />
      )}
    </section>
  );
}

/** When a saved agent runs: its schedules in words. A dialog changes them at once. */
export function AgentWhen({ agent }: { agent: Agent }) {
  const { data: schedules, error, refetch } = useQuery(schedulesQuery(agent.id));
  const [shown, setShown] = useState<Schedule | "new" | null>(null);
  return (
    <section aria-label="When">
      <h2 className="mb-1 font-medium">When</h2>
      {error !== null && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {schedules?.length === 0 && <p className="mb-2 text-muted">Only when you or a program starts it.</p>}
      <ul className="mb-2 space-y-1.5 empty:hidden">
        {schedules?.map((schedule) => (
          <li key={schedule.id} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <span className="min-w-0 flex-1 basis-52">
              {scheduleInWords(schedule)} {schedule.status !== "active" && <Badge>{schedule.status}</Badge>}
            </span>
            <Button icon="edit" aria-label={`Edit schedule ${schedule.name}`} onClick={() => setShown(schedule)}>
              Edit
            </Button>
          </li>
        ))}
      </ul>
      {schedules !== undefined && (
        <Button icon="plus" onClick={() => setShown("new")}>
          Add schedule
        </Button>
      )}
      <p className="mt-1 text-sm text-muted">Changes of a schedule hold at once, without “Save agent”.</p>
      {shown !== null && (
        <ScheduleDialog
          agent={agent}
          schedule={shown === "new" ? null : shown}
          first={schedules?.length === 0}
          onClose={() => setShown(null)}
        />
      )}
    </section>
  );
}
