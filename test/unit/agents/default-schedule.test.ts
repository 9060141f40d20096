import { describe, expect, test } from "vitest";
import { newSchedule } from "../../../src/agents/definitions/agent-schedules.service.ts";
import { changeDefault, showDefault, VIEW_NAMES } from "../../../src/agents/definitions/default-schedule.ts";
import { writtenSchedule } from "../../../src/agents/definitions/schedule-changes.ts";
import type { AgentChanges } from "../../../src/api/contract/agents.ts";
import type { PurserError } from "../../../src/kernel/errors.ts";

const now = "2026-03-01T12:00:00.000Z";
const empty = newSchedule({ user_id: "u", agent_id: "a", name: "default", now });
const DAILY = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" } as const;

/** The schedule after writes of the agent, one after the other. */
function written(...writes: AgentChanges[]) {
  let schedule = empty;
  for (const changes of writes) schedule = { ...schedule, ...changeDefault(schedule, changes) };
  return schedule;
}
/** The fields that the agent shows after the writes. */
const shown = (...writes: AgentChanges[]) => showDefault(written(...writes));

function refusal(work: () => unknown) {
  try {
    work();
  } catch (error) {
    const { shape } = error as PurserError;
    return { code: shape.code, param: shape.param };
  }
  throw new Error("nothing was refused");
}

describe("the agent's schedule_* fields", () => {
  test.each<[string, AgentChanges[], object]>([
    ["set a daily schedule", [DAILY], { interval: "daily", times: ["09:00"], timezone: "UTC" }],
    [
      "keep what a later write does not name",
      [DAILY, { schedule_time: "10:00" }],
      { interval: "daily", times: ["10:00"] },
    ],
    [
      "may be set one by one",
      [{ schedule_time: "09:00" }, { schedule_interval: "daily" }],
      { interval: "daily", times: ["09:00"] },
    ],
    [
      "set one day of the week",
      [{ ...DAILY, schedule_interval: "weekly", schedule_day_of_week: "friday" }],
      { interval: "weekly", days_of_week: ["friday"] },
    ],
    [
      "set several days, in the order of the week",
      [{ ...DAILY, schedule_interval: "weekly", schedule_days_of_week: ["friday", "monday"] }],
      { interval: "weekly", days_of_week: ["monday", "friday"] },
    ],
    [
      "set the first of the month unless a day is given",
      [{ ...DAILY, schedule_interval: "monthly" }],
      { interval: "monthly", day_of_month: 1 },
    ],
    [
      "drop the days of a schedule that becomes daily",
      [{ ...DAILY, schedule_interval: "weekly", schedule_day_of_week: "friday" }, { schedule_interval: "daily" }],
      { interval: "daily", times: ["09:00"], timezone: "UTC" },
    ],
  ])("%s", (_, writes, spec) => {
    expect(written(...writes).spec).toMatchObject(spec);
  });

  test("of several times and days show null where one value cannot tell them", () => {
    const several = {
      ...empty,
      spec: { interval: "weekly", times: ["08:30", "17:00"], days_of_week: ["monday", "friday"], timezone: "UTC" },
    } as const;
    expect(showDefault(several)).toMatchObject({
      schedule_interval: "weekly",
      schedule_time: null,
      schedule_day_of_week: null,
      schedule_days_of_week: ["monday", "friday"],
    });
  });

  test("that were read are no change when they are sent back, whatever the schedule is", () => {
    const specs = [
      { timezone: "UTC" },
      { interval: "weekly", times: ["08:30", "17:00"], days_of_week: ["monday", "friday"], timezone: "UTC" },
      { interval: "cron", cron: "0 9 * * 1", timezone: "Europe/Berlin" },
      { interval: "once", run_at: "2026-12-24T18:00", timezone: "UTC" },
      { interval: "monthly", times: ["09:00"], day_of_month: "last", timezone: "UTC" },
    ] as const;
    for (const spec of specs) {
      const schedule = { spec, enabled: true };
      expect(changeDefault(schedule, showDefault(schedule))).toEqual(schedule);
    }
  });

  test.each<[string, AgentChanges, object]>([
    ["one day", { schedule_day_of_week: "tuesday" }, { days_of_week: ["tuesday"] }],
    ["several days", { schedule_days_of_week: ["monday", "sunday"] }, { days_of_week: ["monday", "sunday"] }],
  ])("that were read and edited in %s change that", (_, edit, spec) => {
    const weekly = { ...DAILY, schedule_interval: "weekly", schedule_day_of_week: "monday" } as const;
    expect(written(weekly, { ...shown(weekly), ...edit }).spec).toMatchObject(spec);
  });

  test.each<[string, AgentChanges, string, string]>([
    [
      "a daily schedule with a day of the week",
      { ...DAILY, schedule_day_of_week: "monday" },
      "invalid_value",
      "schedule_day_of_week",
    ],
    [
      "a daily schedule with days of the week",
      { ...DAILY, schedule_days_of_week: ["monday"] },
      "invalid_value",
      "schedule_days_of_week",
    ],
    [
      "a daily schedule with a day of the month",
      { ...DAILY, schedule_day_of_month: 3 },
      "invalid_value",
      "schedule_day_of_month",
    ],
    [
      "two different days",
      { ...DAILY, schedule_interval: "weekly", schedule_day_of_week: "monday", schedule_days_of_week: ["friday"] },
      "invalid_value",
      "schedule_days_of_week",
    ],
    ["cron", { ...DAILY, schedule_interval: "cron" }, "invalid_value", "schedule_interval"],
    ["no run_prompt", { ...DAILY }, "missing_field", "run_prompt"],
    [
      "no interval",
      { schedule_enabled: true, schedule_time: "09:00", run_prompt: "Go." },
      "missing_field",
      "schedule_interval",
    ],
    ["no time", { ...DAILY, schedule_time: null, run_prompt: "Go." }, "missing_field", "schedule_time"],
    [
      "weekly without a day",
      { ...DAILY, schedule_interval: "weekly", run_prompt: "Go." },
      "missing_field",
      "schedule_day_of_week",
    ],
  ])("are rejected with %s", (_, { run_prompt = null, ...changes }, code, param) => {
    const write = { resumes: false, is_same_task: true, caller_key_id: null, min_minutes: 5, now, names: VIEW_NAMES };
    expect(refusal(() => writtenSchedule(empty, written(changes), { ...write, run_prompt }))).toEqual({ code, param });
  });
});
