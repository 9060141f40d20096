import { listUpcoming, type UpcomingRun } from "../../../src/agents/schedules/spec.ts";
import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import { ago, words } from "../format.ts";
import { ownTime, type ScheduleTimes, scheduleInWords, specOf, wallTime } from "../schedule-words.ts";
import { Button } from "../ui/basics.tsx";
import { Field, fieldsOf, TextField } from "../ui/fields.tsx";
import { ZonePicker } from "../ui/picker.tsx";
import { SelectField } from "../ui/select.tsx";
import { type TimesDraft, timesOf, type Weekday } from "./times-draft.ts";

const INTERVALS = [
  ["daily", "Every day"],
  ["weekly", "On days of the week"],
  ["monthly", "Every month"],
  ["once", "Once"],
  ["cron", "By a cron expression"],
] as const;
const DAYS = [
  ...Array.from({ length: 31 }, (_, day) => [String(day + 1), String(day + 1)] as const),
  ["last", "Last day"] as const,
];
/** The API's limit. */
const MAX_TIMES = 24;

interface Props {
  draft: TimesDraft;
  change: (changes: Partial<TimesDraft>) => void;
  /** The times are part of a new agent, which takes one time a day. Its other schedules are added later. */
  of_new_agent?: boolean;
}

/** The fields of a schedule's times, with its next runs. */
export function ScheduleTimesFields({ draft, change, of_new_agent = false }: Props) {
  const field = fieldsOf(draft, change);
  const intervals = of_new_agent ? INTERVALS.slice(0, 3) : INTERVALS;
  return (
    <>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <SelectField
          label="How often"
          {...field("interval", of_new_agent ? "schedule_interval" : "interval")}
          options={intervals}
        />
        <TimeFields draft={draft} change={change} of_new_agent={of_new_agent} />
        <ZonePicker {...field("timezone", of_new_agent ? "schedule_timezone" : "timezone")} />
      </div>
      <Preview times={timesOf(draft)} />
    </>
  );
}

/** The fields of the chosen interval. */
function TimeFields({ draft, change, of_new_agent }: Props) {
  const field = fieldsOf(draft, change);
  const times = <Times draft={draft} change={change} of_new_agent={of_new_agent ?? false} />;
  switch (draft.interval) {
    case "cron":
      return (
        <TextField
          label="Cron expression"
          {...field("cron")}
          required
          className="[&_input]:font-mono"
          placeholder="30 8 * * 1-5"
          hint="Minute, hour, day of month, month, day of week."
        />
      );
    case "once":
      return (
        <TextField label="Day and time" {...field("run_at")} type="datetime-local" required max="9999-12-31T23:59" />
      );
    case "weekly":
      return (
        <>
          {times}
          <WeekdayFields draft={draft} change={change} of_new_agent={of_new_agent ?? false} />
        </>
      );
    case "monthly":
      return (
        <>
          <SelectField
            label="Day of the month"
            param={of_new_agent ? "schedule_day_of_month" : "day_of_month"}
            value={String(draft.day_of_month)}
            options={DAYS}
            onValue={(day) => change({ day_of_month: day === "last" ? "last" : Number(day) })}
            hint="A shorter month uses its last day."
          />
          {times}
        </>
      );
    case "daily":
      return times;
  }
}

function Times({ draft: { times }, change, of_new_agent }: Props) {
  const param = of_new_agent ? "schedule_time" : "times";
  return (
    <div className="space-y-2">
      {times.map((time, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no id
        <div key={place} className="flex items-end gap-2">
          <TextField
            label={place === 0 ? "Time" : `Time ${place + 1}`}
            param={place === 0 ? param : `${param}[${place}]`}
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
      {times.length < MAX_TIMES && of_new_agent !== true && (
        <Button kind="quiet" icon="plus" onClick={() => change({ times: [...times, ""] })}>
          Add time
        </Button>
      )}
    </div>
  );
}

function WeekdayFields({ draft: { days_of_week: days }, change, of_new_agent }: Props) {
  const toggle = (day: Weekday, chosen: boolean) =>
    change({ days_of_week: WEEKDAYS.filter((each) => (each === day ? chosen : days.includes(each))) });
  return (
    <Field label="Days" param={of_new_agent ? "schedule_days_of_week" : "days_of_week"} className="sm:col-span-2">
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

/** A browser without Temporal shows the next runs after the schedule is saved. */
const CAN_PREVIEW = "Temporal" in globalThis;

/** The next runs by the service's own function. */
function upcomingRuns(times: ScheduleTimes): UpcomingRun[] {
  const spec = specOf(times);
  if (spec === null || !CAN_PREVIEW) return [];
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
        <p className="mt-1 text-muted">
          {CAN_PREVIEW
            ? "The next runs appear here once the times are complete."
            : "The next runs are shown after you save."}
        </p>
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
