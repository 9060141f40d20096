import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { listUpcoming, type UpcomingRun } from "../../../src/agents/schedules/spec.ts";
import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import { call } from "../api/client.ts";
import { type Agent, type Schedule, stale } from "../api/queries.ts";
import { ago, words } from "../format.ts";
import { OWN_ZONE, ownTime, type ScheduleTimes, scheduleInWords, specOf, wallTime } from "../schedule-words.ts";
import { Button } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { AreaField, Field, TextField, Toggle } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";
import { DeliveryFields } from "./delivery-fields.tsx";
import { type DeliveryDraft, deliveryDraft, deliveryOf } from "./draft.ts";
import { InputFields, inputDraft, inputOf } from "./input-fields.tsx";

const INTERVALS = [
  ["daily", "Every day"],
  ["weekly", "On days of the week"],
  ["monthly", "Every month"],
  ["once", "Once"],
  ["cron", "By a cron expression"],
] as const;
const DAYS = [
  ...Array.from({ length: 31 }, (_, day) => [String(day + 1), String(day + 1)] as const),
  ["last", "last day"] as const,
];
const ZONES = ["UTC", OWN_ZONE, ...Intl.supportedValuesOf("timeZone")];
/** The time zones, with the chosen zone: a browser may know it only by another name. */
const zones = (chosen: string) =>
  [...new Set([chosen, ...ZONES])].map((zone) => [zone, zone.replaceAll("_", " ")] as const);
/** The API's limit. */
const MAX_TIMES = 24;

type Weekday = (typeof WEEKDAYS)[number];
interface Draft {
  name: string;
  interval: Schedule["interval"];
  times: string[];
  days_of_week: Weekday[];
  day_of_month: number | "last";
  cron: string;
  run_at: string;
  timezone: string;
  run_prompt: string;
  /** null: the agent's. */
  deliveries: DeliveryDraft[] | null;
  enabled: boolean;
}

function draftOf(schedule: Schedule | null, first: boolean): Draft {
  return {
    name: schedule?.name ?? (first ? "default" : ""),
    interval: schedule?.interval ?? "daily",
    times: schedule?.times ?? ["09:00"],
    days_of_week: schedule?.days_of_week ?? ["monday"],
    day_of_month: schedule?.day_of_month ?? 1,
    cron: schedule?.cron ?? "",
    run_at: schedule?.run_at ?? "",
    timezone: schedule?.timezone ?? OWN_ZONE,
    run_prompt: schedule?.run_prompt ?? "",
    deliveries: schedule?.deliveries?.map(deliveryDraft) ?? null,
    enabled: schedule?.enabled ?? true,
  };
}

/** The times of a draft: only the fields that its interval has. */
function timesOf({ interval, times, days_of_week, day_of_month, cron, run_at, timezone }: Draft): ScheduleTimes {
  return {
    interval,
    timezone,
    times: interval === "cron" || interval === "once" ? null : times,
    days_of_week: interval === "weekly" ? days_of_week : null,
    day_of_month: interval === "monthly" ? day_of_month : null,
    cron: interval === "cron" ? cron : null,
    run_at: interval === "once" ? run_at : null,
  };
}

interface Props {
  agent: Agent;
  /** null: a new one. */
  schedule: Schedule | null;
  /** The agent has no schedule yet. */
  first: boolean;
  onClose: () => void;
}

/** Creates or changes a schedule, with a preview of its next runs. */
export function ScheduleDialog({ agent, schedule, first, onClose }: Props) {
  const [draft, setDraft] = useState(() => draftOf(schedule, first));
  const [input, setInput] = useState(() => inputDraft(agent.input_schema, schedule?.input ?? null));
  const change = (changes: Partial<Draft>) => setDraft((old) => ({ ...old, ...changes }));
  const save = useMutation({
    mutationFn: () => {
      const { name, run_prompt, deliveries, enabled } = draft;
      const body = {
        name,
        ...timesOf(draft),
        input: inputOf(agent.input_schema, input),
        run_prompt: run_prompt.trim() === "" ? null : run_prompt,
        deliveries: deliveries?.map(deliveryOf) ?? null,
        enabled,
      };
      if (schedule === null) return call("POST /api/v1/agents/{id}/schedules", { params: { id: agent.id }, body });
      const params = { id: agent.id, schedule_id: schedule.id };
      return call("PATCH /api/v1/agents/{id}/schedules/{schedule_id}", { params, body });
    },
    onSuccess: async () => {
      await stale("agents");
      confirmSaved(schedule === null ? "Schedule added" : "Schedule saved");
      onClose();
    },
  });
  const fields = <InputFields schema={agent.input_schema} draft={input} onDraft={setInput} />;
  const has_schema = agent.input_schema !== null;
  return (
    <Dialog title={schedule === null ? "Add schedule" : `Edit schedule ${schedule.name}`} onClose={onClose} wide>
      <DialogForm save={save} action={schedule === null ? "Add schedule" : "Save schedule"} onCancel={onClose}>
        {schedule?.name !== "default" && (
          <TextField
            label="Name"
            param="name"
            required
            maxLength={100}
            value={draft.name}
            onValue={(name) => change({ name })}
            placeholder="weekday mornings"
          />
        )}
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <SelectField
            label="How often"
            param="interval"
            value={draft.interval}
            options={INTERVALS}
            onValue={(interval) => change({ interval })}
          />
          <TimeFields draft={draft} change={change} />
          <SelectField
            label="Time zone"
            param="timezone"
            value={draft.timezone}
            options={zones(draft.timezone)}
            onValue={(timezone) => change({ timezone })}
            hint={`Your time zone is ${OWN_ZONE}.`}
          />
        </div>
        <Preview times={timesOf(draft)} />
        {has_schema && fields}
        <details open={agent.run_prompt === null || undefined}>
          <summary className="w-fit text-muted hover:text-ink">More</summary>
          <div className="mt-3 space-y-4">
            {!has_schema && fields}
            <AreaField
              label="Task of its runs"
              param="run_prompt"
              value={draft.run_prompt}
              onValue={(run_prompt) => change({ run_prompt })}
              placeholder={agent.run_prompt ?? ""}
              hint="Empty: the agent's task."
            />
            <Toggle
              label="Own deliveries"
              checked={draft.deliveries !== null}
              onChecked={(own) => change({ deliveries: own ? [] : null })}
              hint="Results of this schedule go to these addresses instead of the agent's."
            />
            {draft.deliveries !== null && (
              <DeliveryFields deliveries={draft.deliveries} onDeliveries={(deliveries) => change({ deliveries })} />
            )}
            <Toggle label="Enabled" checked={draft.enabled} onChecked={(enabled) => change({ enabled })} />
          </div>
        </details>
      </DialogForm>
    </Dialog>
  );
}

interface TimeProps {
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

/** The fields of the chosen interval. */
function TimeFields({ draft, change }: TimeProps) {
  switch (draft.interval) {
    case "cron":
      return (
        <TextField
          label="Cron expression"
          param="cron"
          required
          className="[&_input]:font-mono"
          value={draft.cron}
          onValue={(cron) => change({ cron })}
          placeholder="30 8 * * 1-5"
          hint="Minute, hour, day of month, month, day of week."
        />
      );
    case "once":
      return (
        <TextField
          label="Day and time"
          param="run_at"
          type="datetime-local"
          required
          max="9999-12-31T23:59"
          value={draft.run_at}
          onValue={(run_at) => change({ run_at })}
        />
      );
    case "weekly":
      return (
        <>
          <Times draft={draft} change={change} />
          <WeekdayFields draft={draft} change={change} />
        </>
      );
    case "monthly":
      return (
        <>
          <SelectField
            label="Day of the month"
            param="day_of_month"
            value={String(draft.day_of_month)}
            options={DAYS}
            onValue={(day) => change({ day_of_month: day === "last" ? "last" : Number(day) })}
            hint="A shorter month uses its last day."
          />
          <Times draft={draft} change={change} />
        </>
      );
    case "daily":
      return <Times draft={draft} change={change} />;
  }
}

function Times({ draft: { times }, change }: TimeProps) {
  return (
    <div className="space-y-2">
      {times.map((time, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no id
        <div key={place} className="flex items-end gap-2">
          <TextField
            label={place === 0 ? "Time" : `Time ${place + 1}`}
            param={place === 0 ? "times" : `times[${place}]`}
            type="time"
            required
            className="flex-1"
            value={time}
            onValue={(text) => change({ times: times.with(place, text) })}
          />
          {times.length > 1 && (
            <Button
              kind="quiet"
              icon="close"
              className="px-2"
              aria-label={`Remove time ${place + 1}`}
              onClick={() => change({ times: times.toSpliced(place, 1) })}
            />
          )}
        </div>
      ))}
      {times.length < MAX_TIMES && (
        <Button kind="quiet" icon="plus" onClick={() => change({ times: [...times, ""] })}>
          Add time
        </Button>
      )}
    </div>
  );
}

function WeekdayFields({ draft: { days_of_week: days }, change }: TimeProps) {
  const toggle = (day: Weekday, chosen: boolean) =>
    change({ days_of_week: WEEKDAYS.filter((each) => (each === day ? chosen : days.includes(each))) });
  return (
    <Field label="Days" param="days_of_week" className="sm:col-span-2">
      {(props) => (
        // biome-ignore lint/a11y/useSemanticElements: the field's label names the group
        <div {...props} role="group" aria-label="Days" className="flex flex-wrap gap-x-4 gap-y-2">
          {WEEKDAYS.map((day) => (
            <label key={day} className="flex items-center gap-1.5">
              <input
                type="checkbox"
                checked={days.includes(day)}
                onChange={(event) => toggle(day, event.target.checked)}
              />
              {words(day)}
            </label>
          ))}
        </div>
      )}
    </Field>
  );
}

/** The next runs by the service's own function. A browser without Temporal shows them after the schedule is saved. */
function upcomingRuns(times: ScheduleTimes): UpcomingRun[] {
  const spec = specOf(times);
  if (spec === null || !("Temporal" in globalThis)) return [];
  try {
    return listUpcoming(spec, new Date().toISOString(), 5);
  } catch {
    return []; // The cron expression is not complete yet.
  }
}

function Preview({ times }: { times: ScheduleTimes }) {
  const runs = upcomingRuns(times);
  return (
    <div className="rounded-lg bg-sunken p-4" aria-live="polite">
      <p className="font-medium">{scheduleInWords(times) ?? "Next runs"}</p>
      {runs.length === 0 ? (
        <p className="mt-1 text-muted">The next runs appear here once the times are complete.</p>
      ) : (
        <ol className="mt-2 space-y-1.5">
          {runs.map(({ at, note }) => (
            <li key={at}>
              {wallTime(at, times.timezone)} <span className="text-muted">· {ago(at)}</span>
              <span className="block text-sm text-muted empty:hidden">{ownTime(at, times.timezone)}</span>
              {note !== undefined && <span className="block text-sm text-warn">{note}</span>}
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
