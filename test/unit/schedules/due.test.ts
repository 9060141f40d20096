import { expect, test } from "vitest";
import { type DueSchedule, decideDue, listUpcomingRuns } from "../../../src/agents/schedules/due.ts";

const DAILY: DueSchedule = {
  spec: { interval: "daily", times: ["09:00"], timezone: "UTC" },
  next_run_at: "2026-01-01T09:00:00.000Z",
  paused: null,
  busy_run_id: null,
};

/** `day state` of each instant and the next one. */
function decisions(schedule: DueSchedule, now: string) {
  const { instants, next_run_at } = decideDue(schedule, now);
  return [...instants.map(({ at, state }) => `${at.slice(5, 10)} ${state}`), `next ${next_run_at?.slice(5, 10)}`];
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
  ["previous run unfinished", { busy_run_id: "r1" }, "2026-01-01T09:00:00.000Z", ["01-01 skipped", "next 01-02"]],
  [
    "paused",
    { paused: { reason: "5 failures", since: null } },
    "2026-01-02T09:00:00.000Z",
    ["01-01 skipped", "01-02 skipped", "next 01-03"],
  ],
])("%s", (_, change, now, expected) => {
  expect(decisions({ ...DAILY, ...change }, now)).toEqual(expected);
});

test("a downtime of years is handled in several batches, and only its last instant can run", () => {
  const now = "2028-01-01T09:00:00.000Z";
  let schedule = DAILY;
  const states: string[] = [];
  while (schedule.next_run_at <= now) {
    const { instants, next_run_at } = decideDue(schedule, now);
    states.push(...instants.map(({ state }) => state));
    schedule = { ...schedule, next_run_at: next_run_at ?? "never" };
  }
  expect(states).toHaveLength(731);
  expect(states.filter((state) => state === "run")).toHaveLength(1);
  expect(states.at(-1)).toBe("run");
});

// A government changes its zone's rules, and a new version of the service has them while an instant is stored.
test.each([
  ["earlier than the wall clock has it now", "2026-12-01T13:00:00.000Z"],
  ["later", "2026-12-01T15:00:00.000Z"],
  ["three hours earlier", "2026-12-01T11:00:00.000Z"],
  ["three hours later", "2026-12-01T17:00:00.000Z"],
])("an instant that was stored by former rules of its zone, %s, makes one run a day", (_, stored) => {
  let schedule: DueSchedule = {
    ...DAILY,
    spec: { interval: "daily", times: ["09:00"], timezone: "America/New_York" },
    next_run_at: stored,
  };
  const runs: string[] = [];
  for (let hour = 13; hour < 13 + 48; hour++) {
    const now = new Date(Date.UTC(2026, 11, 1, hour)).toISOString();
    const { instants, next_run_at } = decideDue(schedule, now);
    runs.push(...instants.map(({ at, state }) => `${at} ${state}`));
    schedule = { ...schedule, next_run_at: next_run_at ?? "never" };
  }
  expect(runs).toEqual(["2026-12-01T14:00:00.000Z run", "2026-12-02T14:00:00.000Z run"]);
});

test("a zone that moves over the date line loses no run that was stored before", () => {
  const stored = "2026-01-01T15:00:00.000Z";
  expect(decideDue({ ...DAILY, next_run_at: stored }, stored)).toMatchObject({
    instants: [{ at: stored, state: "run" }],
    next_run_at: "2026-01-02T09:00:00.000Z",
  });
});

const DOWN = "the service was down; ";
const OVERTAKEN = `${DOWN}a later due time had already passed`;
const TOO_OLD = "the service was down for 12 hours or more: runs missed for so long are not started";
const OUT_OF_TOKENS = { reason: "out of tokens", since: "2026-01-02T09:00:00.000Z" };

// the answer to an owner's question "Why didn't it run?"
test.each<[string, Partial<DueSchedule>, string, (string | null)[]]>([
  ["is null when it is on time", {}, "2026-01-01T09:00:59.999Z", [null]],
  ["says that it is late", {}, "2026-01-01T09:01:00.000Z", ["late: the service was down"]],
  [
    "names the run in its place",
    {},
    "2026-01-02T09:00:01.000Z",
    [`${DOWN}only the latest missed time runs: 2026-01-02T09:00:00.000Z`, null],
  ],
  ["says that no run took its place", {}, "2026-01-02T21:00:00.000Z", [OVERTAKEN, TOO_OLD]],
  [
    "names the previous run that is unfinished",
    { busy_run_id: "r1" },
    "2026-01-01T09:00:00.000Z",
    ["previous run still going: r1"],
  ],
  [
    "has the start of a pause, but not if the instant was before the pause",
    { paused: OUT_OF_TOKENS },
    "2026-01-03T09:00:00.000Z",
    [
      OVERTAKEN,
      "paused since 2026-01-02T09:00:00.000Z: out of tokens",
      "paused since 2026-01-02T09:00:00.000Z: out of tokens",
    ],
  ],
  [
    "has a pause without its start if the start is unknown",
    { paused: { reason: "3 failures", since: null } },
    "2026-01-01T09:00:00.000Z",
    ["paused: 3 failures"],
  ],
])("the reason of an instant %s", (_, change, now, expected) => {
  expect(decideDue({ ...DAILY, ...change }, now).instants.map(({ reason }) => reason)).toEqual(expected);
});

test("the first of the shown runs has its note, because it is the planned one", () => {
  const spec = { interval: "daily", times: ["02:30"], timezone: "America/New_York" } as const;
  const schedule = { spec, next_run_at: "2026-03-08T07:30:00.000Z" };
  const [first] = listUpcomingRuns(schedule, "2026-03-07T12:00:00.000Z", 2);
  expect(first?.note).toBe("Clocks skip 2026-03-08 02:30: runs at 2026-03-08 03:30.");
});

// A new version of the service has new rules for a zone. The shown runs are the runs that will happen.
test.each([
  ["that former rules put earlier", "2026-12-01T13:00:00.000Z", "2026-12-01T12:00:00.000Z"],
  [
    "that former rules put earlier, and that would be past by them",
    "2026-12-01T13:00:00.000Z",
    "2026-12-01T13:30:00.000Z",
  ],
  ["that former rules put later", "2026-12-01T15:00:00.000Z", "2026-12-01T12:00:00.000Z"],
  ["that is due and was not handled", "2026-12-01T14:00:00.000Z", "2026-12-01T14:00:01.000Z"],
])("the first of the shown runs is the one that is due next, also one %s", (_, next_run_at, now) => {
  const spec = { interval: "daily", times: ["09:00"], timezone: "America/New_York" } as const;
  expect(listUpcomingRuns({ spec, next_run_at }, now, 2).map(({ at }) => at)).toEqual([
    "2026-12-01T14:00:00.000Z",
    "2026-12-02T14:00:00.000Z",
  ]);
  const { instants } = decideDue({ ...DAILY, spec, next_run_at }, "2026-12-01T16:00:00.000Z");
  expect(instants.map(({ at }) => at)).toEqual(["2026-12-01T14:00:00.000Z"]);
});
