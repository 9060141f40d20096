import { listUpcoming } from "../../../src/agents/schedules/spec.ts";
import { WEEKDAYS } from "../../../src/kernel/constants.ts";
import { ago, words } from "../format.ts";
import { OWN_ZONE, ownTime, scheduleInWords, specOf, wallTime } from "../schedule-words.ts";
import { Card } from "../ui/basics.tsx";
import { TextField, Toggle } from "../ui/fields.tsx";
import { SelectField } from "../ui/select.tsx";
import type { Draft } from "./draft.ts";

const INTERVALS = [
  ["daily", "Every day"],
  ["weekly", "Every week"],
  ["monthly", "Every month"],
] as const;
const DAYS = [
  ...Array.from({ length: 31 }, (_, day) => [String(day + 1), String(day + 1)] as const),
  ["last", "last day"] as const,
];
const ZONES = ["UTC", OWN_ZONE, ...Intl.supportedValuesOf("timeZone")];
/** The time zones, with the chosen zone: a browser may know it only by another name. */
const zones = (chosen: string) =>
  [...new Set([chosen, ...ZONES])].map((zone) => [zone, zone.replaceAll("_", " ")] as const);

interface Props {
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

/** The schedule, with a preview of the next five runs. */
export function ScheduleFields({ draft, change }: Props) {
  const { schedule_interval: interval } = draft;
  return (
    <Card title="Schedule">
      <Toggle
        label="Run by schedule"
        checked={draft.schedule_enabled}
        onChecked={(schedule_enabled) => change({ schedule_enabled })}
        hint="Each run does the “Task of each run”."
      />
      {draft.schedule_enabled && (
        <div className="mt-4 grid gap-x-8 gap-y-4 md:grid-cols-2">
          <div className="space-y-4">
            <SelectField
              label="How often"
              param="schedule_interval"
              value={interval ?? "daily"}
              options={INTERVALS}
              onValue={(schedule_interval) => change({ schedule_interval })}
            />
            {interval === "weekly" && (
              <SelectField
                label="Day"
                param="schedule_day_of_week"
                value={draft.schedule_day_of_week ?? "monday"}
                options={WEEKDAYS.map((day) => [day, words(day)] as const)}
                onValue={(schedule_day_of_week) => change({ schedule_day_of_week })}
              />
            )}
            {interval === "monthly" && (
              <SelectField
                label="Day of the month"
                param="schedule_day_of_month"
                value={String(draft.schedule_day_of_month ?? 1)}
                options={DAYS}
                onValue={(day) => change({ schedule_day_of_month: day === "last" ? "last" : Number(day) })}
                hint="A shorter month uses its last day."
              />
            )}
            <TextField
              label="Time"
              param="schedule_time"
              type="time"
              required
              value={draft.schedule_time ?? ""}
              onValue={(schedule_time) => change({ schedule_time })}
            />
            <SelectField
              label="Time zone"
              param="schedule_timezone"
              value={draft.schedule_timezone}
              options={zones(draft.schedule_timezone)}
              onValue={(schedule_timezone) => change({ schedule_timezone })}
              hint={`Your time zone is ${OWN_ZONE}.`}
            />
          </div>
          <Preview draft={draft} />
        </div>
      )}
    </Card>
  );
}

/** Uses the service's own next-run function. A browser without Temporal shows the runs after the agent is saved. */
function Preview({ draft }: { draft: Draft }) {
  const spec = specOf(draft);
  const runs = spec === null || !("Temporal" in globalThis) ? [] : listUpcoming(spec, new Date().toISOString(), 5);
  return (
    <div className="rounded-lg bg-sunken p-4" aria-live="polite">
      <p className="font-medium">{scheduleInWords(draft)}</p>
      {runs.length === 0 ? (
        <p className="mt-1 text-muted">The next runs appear after you save the agent.</p>
      ) : (
        <ol className="mt-2 space-y-1.5">
          {runs.map(({ at, note }) => (
            <li key={at}>
              {wallTime(at, draft.schedule_timezone)} <span className="text-muted">· {ago(at)}</span>
              <span className="block text-sm text-muted empty:hidden">{ownTime(at, draft.schedule_timezone)}</span>
              {note !== undefined && <span className="block text-sm text-warn">{note}</span>}
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
