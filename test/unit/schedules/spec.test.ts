import { describe, expect, test } from "vitest";
import { listUpcoming, next, type ScheduleSpec } from "../../../src/agents/schedules/spec.ts";
import { isTimeZone } from "../../../src/api/contract/common.ts";

const daily = (time: string, timezone: string): ScheduleSpec => ({ interval: "daily", times: [time], timezone });
const weekly = (day_of_week: "monday" | "friday" | "sunday", time: string, timezone: string): ScheduleSpec => ({
  interval: "weekly",
  days_of_week: [day_of_week],
  times: [time],
  timezone,
});
const monthly = (day_of_month: number | "last", time: string, timezone: string): ScheduleSpec => ({
  interval: "monthly",
  day_of_month,
  times: [time],
  timezone,
});

/** The first runs after `after`, without milliseconds. */
function runs(spec: ScheduleSpec, after: string, count: number): string[] {
  return listUpcoming(spec, after, count).map(({ at }) => at.replace(":00.000Z", "Z"));
}

describe("known cases", () => {
  // Daylight-saving dates are from the IANA database; UTC was computed by hand.
  test.each<[string, ScheduleSpec, string, string[]]>([
    ["UTC, plain", daily("09:00", "UTC"), "2026-01-01T00:00:00Z", ["2026-01-01T09:00Z", "2026-01-02T09:00Z"]],
    ["due now counts as past", daily("09:00", "UTC"), "2026-01-01T09:00:00Z", ["2026-01-02T09:00Z"]],
    ["a millisecond before", daily("09:00", "UTC"), "2026-01-01T08:59:59.999Z", ["2026-01-01T09:00Z"]],
    ["Kolkata, half-hour offset", daily("09:00", "Asia/Kolkata"), "2026-01-01T03:30:00Z", ["2026-01-02T03:30Z"]],
    ["Kathmandu, 45 minutes", daily("00:00", "Asia/Kathmandu"), "2026-01-01T00:00:00Z", ["2026-01-01T18:15Z"]],
    [
      "New York, gap on 8 March 2026: 02:30 becomes 03:30 EDT",
      daily("02:30", "America/New_York"),
      "2026-03-07T00:00:00Z",
      ["2026-03-07T07:30Z", "2026-03-08T07:30Z", "2026-03-09T06:30Z"],
    ],
    [
      "Nuuk, gap before midnight on 28 March 2026: 23:30 becomes 00:30 of the next day",
      daily("23:30", "America/Nuuk"),
      "2026-03-29T01:10:00Z",
      ["2026-03-29T01:30Z", "2026-03-30T00:30Z"],
    ],
    [
      "New York, overlap on 1 November 2026: 01:30 EDT only",
      daily("01:30", "America/New_York"),
      "2026-10-31T12:00:00Z",
      ["2026-11-01T05:30Z", "2026-11-02T06:30Z"],
    ],
    ["between the two 01:30s", daily("01:30", "America/New_York"), "2026-11-01T05:30:00Z", ["2026-11-02T06:30Z"]],
    ["in the second 01:xx hour", daily("01:30", "America/New_York"), "2026-11-01T06:15:00Z", ["2026-11-02T06:30Z"]],
    [
      "Lord Howe, gap of half an hour on 4 October 2026",
      daily("02:15", "Australia/Lord_Howe"),
      "2026-10-03T12:00:00Z",
      ["2026-10-03T15:45Z", "2026-10-04T15:15Z"],
    ],
    [
      "Beirut, gap at midnight on 29 March 2026",
      daily("00:00", "Asia/Beirut"),
      "2026-03-28T12:00:00Z",
      ["2026-03-28T22:00Z", "2026-03-29T21:00Z"],
    ],
    [
      "Apia, 30 December 2011 did not exist: its run falls on the 31st, which has one run",
      daily("09:00", "Pacific/Apia"),
      "2011-12-29T00:00:00Z",
      ["2011-12-29T19:00Z", "2011-12-30T19:00Z", "2011-12-31T19:00Z"],
    ],
    [
      "Apia, the Friday that did not exist",
      weekly("friday", "09:00", "Pacific/Apia"),
      "2011-12-25T00:00:00Z",
      ["2011-12-30T19:00Z", "2012-01-05T19:00Z"],
    ],
    ["weekly, today but past", weekly("monday", "09:00", "UTC"), "2026-01-05T10:00:00Z", ["2026-01-12T09:00Z"]],
    ["weekly, today and ahead", weekly("monday", "09:00", "UTC"), "2026-01-05T08:00:00Z", ["2026-01-05T09:00Z"]],
    ["Sunday is the week's last day", weekly("sunday", "09:00", "UTC"), "2026-01-05T08:00:00Z", ["2026-01-11T09:00Z"]],
    [
      "weekly in a zone a day ahead",
      weekly("monday", "00:30", "Pacific/Kiritimati"),
      "2026-01-04T00:00:00Z",
      ["2026-01-04T10:30Z"],
    ],
    [
      "day 31 is clamped from the anchor",
      monthly(31, "09:00", "UTC"),
      "2026-01-31T09:00:00Z",
      ["2026-02-28T09:00Z", "2026-03-31T09:00Z", "2026-04-30T09:00Z", "2026-05-31T09:00Z"],
    ],
    ["29 February", monthly(29, "09:00", "UTC"), "2028-02-01T00:00:00Z", ["2028-02-29T09:00Z", "2028-03-29T09:00Z"]],
    [
      "the last day",
      monthly("last", "23:59", "UTC"),
      "2026-02-01T00:00:00Z",
      ["2026-02-28T23:59Z", "2026-03-31T23:59Z"],
    ],
    ["the first, over the year's end", monthly(1, "00:00", "UTC"), "2026-12-01T00:00:00Z", ["2027-01-01T00:00Z"]],
    [
      "the first in Auckland is the day before in UTC",
      monthly(1, "09:00", "Pacific/Auckland"),
      "2026-05-31T00:00:00Z",
      ["2026-05-31T21:00Z"],
    ],
    [
      "several times a day",
      { interval: "daily", times: ["08:30", "12:00", "17:15"], timezone: "UTC" },
      "2026-01-05T12:00:00Z",
      ["2026-01-05T17:15Z", "2026-01-06T08:30Z", "2026-01-06T12:00Z"],
    ],
    [
      "weekdays",
      {
        interval: "weekly",
        days_of_week: ["monday", "tuesday", "wednesday", "thursday", "friday"],
        times: ["08:30"],
        timezone: "Europe/Berlin",
      },
      "2026-03-26T12:00:00Z",
      ["2026-03-27T07:30Z", "2026-03-30T06:30Z", "2026-03-31T06:30Z"],
    ],
    [
      "several days and times: in their order in time",
      { interval: "weekly", days_of_week: ["monday", "sunday"], times: ["06:00", "18:00"], timezone: "UTC" },
      "2026-01-04T07:00:00Z",
      ["2026-01-04T18:00Z", "2026-01-05T06:00Z", "2026-01-05T18:00Z", "2026-01-11T06:00Z"],
    ],
    [
      "New York, 02:30 moves behind 03:10 by the gap of 8 March 2026",
      { interval: "daily", times: ["02:30", "03:10"], timezone: "America/New_York" },
      "2026-03-07T12:00:00Z",
      ["2026-03-08T07:10Z", "2026-03-08T07:30Z", "2026-03-09T06:30Z", "2026-03-09T07:10Z"],
    ],
    [
      "New York, 02:30 and 03:30 fall on one instant of 8 March 2026, which is due once",
      { interval: "daily", times: ["02:30", "03:30"], timezone: "America/New_York" },
      "2026-03-07T12:00:00Z",
      ["2026-03-08T07:30Z", "2026-03-09T06:30Z", "2026-03-09T07:30Z"],
    ],
    [
      "cron every half hour, over the hour that New York shows twice: the first time only",
      { interval: "cron", cron: "*/30 * * * *", timezone: "America/New_York" },
      "2026-11-01T04:45:00Z",
      ["2026-11-01T05:00Z", "2026-11-01T05:30Z", "2026-11-01T07:00Z"],
    ],
    [
      "once",
      { interval: "once", run_at: "2026-12-24T18:00", timezone: "Europe/Berlin" },
      "2026-01-01T00:00:00Z",
      ["2026-12-24T17:00Z"],
    ],
    [
      "from the start on, and before the end",
      {
        interval: "daily",
        times: ["09:00"],
        timezone: "UTC",
        starts_at: "2026-01-10T09:00:00.000Z",
        ends_at: "2026-01-12T09:00:00.000Z",
      },
      "2026-01-01T00:00:00Z",
      ["2026-01-10T09:00Z", "2026-01-11T09:00Z"],
    ],
  ])("%s", (_, spec, after, expected) => {
    expect(runs(spec, after, expected.length)).toEqual(expected);
  });
});

test.each<[string, ScheduleSpec, string]>([
  [
    "one time that has passed",
    { interval: "once", run_at: "2026-12-24T18:00", timezone: "UTC" },
    "2026-12-24T18:00:00.000Z",
  ],
  [
    "an end",
    { interval: "daily", times: ["09:00"], timezone: "UTC", ends_at: "2026-01-02T00:00:00.000Z" },
    "2026-01-01T09:00:00.000Z",
  ],
  [
    "a cron expression that never matches",
    { interval: "cron", cron: "0 0 30 2 *", timezone: "UTC" },
    "2026-01-01T00:00:00.000Z",
  ],
])("a schedule with %s has no next run", (_, spec, after) => {
  expect(next(spec, after)).toBeNull();
  expect(listUpcoming(spec, after, 5)).toEqual([]);
});

test("an instant has three decimals, so that text order is time order", () => {
  expect(next(daily("09:00", "UTC"), "2026-01-01T00:00:00.000Z")).toBe("2026-01-01T09:00:00.000Z");
});

describe("the preview notes a daylight-saving shift", () => {
  test.each<[string, ScheduleSpec, string, (string | undefined)[]]>([
    [
      "skipped",
      daily("02:30", "Europe/Berlin"),
      "2026-03-28T00:00:00Z",
      [undefined, "Clocks skip 2026-03-29 02:30: runs at 2026-03-29 03:30.", undefined],
    ],
    [
      "shown twice",
      daily("02:30", "Europe/Berlin"),
      "2026-10-24T00:00:00Z",
      [
        undefined,
        "Clocks show 02:30 twice on this day: runs the first time only.",
        "Clocks have gone back 60 minutes: still 02:30 local time.",
      ],
    ],
    [
      "an offset that changed in between",
      daily("09:00", "Europe/Berlin"),
      "2026-03-28T00:00:00Z",
      [undefined, "Clocks have gone forward 60 minutes: still 09:00 local time.", undefined],
    ],
    ["no daylight saving", daily("09:00", "Asia/Kolkata"), "2026-03-28T00:00:00Z", [undefined, undefined, undefined]],
  ])("%s", (_, spec, after, expected) => {
    expect(listUpcoming(spec, after, expected.length).map(({ note }) => note)).toEqual(expected);
  });
});

test.each(["UTC", "Etc/UTC", "Asia/Kolkata", "Asia/Calcutta", "Europe/Kyiv", "Europe/Kiev", "US/Pacific", "Etc/GMT+5"])(
  "%s is a time zone",
  (name) => expect(isTimeZone(name)).toBe(true),
);

test.each(["", "+05:30", "-0500", "UTC+1", "IST", "Mars/Olympus", "europe/berlin", "2026-01-01T00:00[UTC]", "UTC\n"])(
  "%j is not a time zone",
  (name) => expect(isTimeZone(name)).toBe(false),
);
