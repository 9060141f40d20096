import { expect, test } from "vitest";
import { type DueSchedule, decideDue } from "../../../src/scheduling/due.ts";

const DAILY: DueSchedule = {
  spec: { interval: "daily", time: "09:00", timezone: "UTC" },
  next_run_at: "2026-01-01T09:00:00.000Z",
  paused_reason: null,
  busy: false,
};

/** `day state` of each instant and the next one. */
function decisions(schedule: DueSchedule, now: string) {
  const { instants, next_run_at } = decideDue(schedule, now);
  return [...instants.map(({ at, state }) => `${at.slice(5, 10)} ${state}`), `next ${next_run_at.slice(5, 10)}`];
}

test.each<[string, Partial<DueSchedule>, string, string[]]>([
  ["on time", {}, "2026-01-01T09:00:00.000Z", ["01-01 run", "next 01-02"]],
  ["not yet", {}, "2026-01-01T08:59:59.999Z", ["next 01-01"]],
  ["late, under 12 hours", {}, "2026-01-01T20:59:59.999Z", ["01-01 run", "next 01-02"]],
  ["late, 12 hours", {}, "2026-01-01T21:00:00.000Z", ["01-01 missed", "next 01-02"]],
  [
    "days of downtime, the latest runs",
    {},
    "2026-01-03T10:00:00.000Z",
    ["01-01 missed", "01-02 missed", "01-03 run", "next 01-04"],
  ],
  [
    "days of downtime, the latest is too old",
    {},
    "2026-01-02T22:00:00.000Z",
    ["01-01 missed", "01-02 missed", "next 01-03"],
  ],
  ["previous run still going", { busy: true }, "2026-01-01T09:00:00.000Z", ["01-01 skipped", "next 01-02"]],
  [
    "paused",
    { paused_reason: "5 failures" },
    "2026-01-02T09:00:00.000Z",
    ["01-01 skipped", "01-02 skipped", "next 01-03"],
  ],
])("%s", (_, change, now, expected) => {
  expect(decisions({ ...DAILY, ...change }, now)).toEqual(expected);
});

test("a downtime of years is settled in several goes, and only its last instant can run", () => {
  const now = "2028-01-01T09:00:00.000Z";
  let schedule = DAILY;
  const states: string[] = [];
  while (schedule.next_run_at <= now) {
    const { instants, next_run_at } = decideDue(schedule, now);
    states.push(...instants.map(({ state }) => state));
    schedule = { ...schedule, next_run_at };
  }
  expect(states).toHaveLength(731);
  expect(states.filter((state) => state === "run")).toHaveLength(1);
  expect(states.at(-1)).toBe("run");
});

// A government changes its zone's rules, and a new version of the service brings them while an instant is stored.
test.each([
  ["earlier than the wall clock has it now", "2026-12-01T13:00:00.000Z"],
  ["later", "2026-12-01T15:00:00.000Z"],
])("an instant stored under former rules of its zone, %s, makes one run a day", (_, stored) => {
  let schedule: DueSchedule = {
    ...DAILY,
    spec: { interval: "daily", time: "09:00", timezone: "America/New_York" },
    next_run_at: stored,
  };
  const runs: string[] = [];
  for (let hour = 13; hour < 13 + 48; hour++) {
    const now = new Date(Date.UTC(2026, 11, 1, hour)).toISOString();
    const { instants, next_run_at } = decideDue(schedule, now);
    runs.push(...instants.map(({ at, state }) => `${at} ${state}`));
    schedule = { ...schedule, next_run_at };
  }
  expect(runs).toEqual(["2026-12-01T14:00:00.000Z run", "2026-12-02T14:00:00.000Z run"]);
});
