import { expect, test } from "vitest";
import { parseCron } from "../../../src/agents/schedules/cron.ts";
import { listUpcoming, shortestGapMinutes } from "../../../src/agents/schedules/spec.ts";

/** The first runs after Sunday, 1 March 2026, 00:00 UTC, as `MM-DD HH:MM`; of another year with the year. */
function runs(cron: string, count: number): string[] {
  const upcoming = listUpcoming({ interval: "cron", cron, timezone: "UTC" }, "2026-03-01T00:00:00.000Z", count);
  return upcoming.map(({ at }) => at.slice(0, 16).replace("T", " ").replace("2026-", ""));
}

// The expressions and rules of the manual page of Vixie cron, crontab(5); the dates were taken from a calendar.
test.each<[rule: string, cron: string, expected: string[]]>([
  ["five minutes after midnight, every day", "5 0 * * *", ["03-01 00:05", "03-02 00:05"]],
  ["at 14:15 on the first of every month", "15 14 1 * *", ["03-01 14:15", "04-01 14:15"]],
  [
    "at 22:00 on weekdays",
    "0 22 * * 1-5",
    ["03-02 22:00", "03-03 22:00", "03-04 22:00", "03-05 22:00", "03-06 22:00", "03-09 22:00"],
  ],
  ["23 minutes after every other hour", "23 0-23/2 * * *", ["03-01 00:23", "03-01 02:23", "03-01 04:23"]],
  ["at 04:05 on Sundays", "5 4 * * sun", ["03-01 04:05", "03-08 04:05"]],
  [
    "two restricted day fields: the 1st and 15th, plus every Friday",
    "30 4 1,15 * 5",
    ["03-01 04:30", "03-06 04:30", "03-13 04:30", "03-15 04:30", "03-20 04:30"],
  ],
  [
    "every four hours on the first of the month, plus every Monday",
    "0 */4 1 * mon",
    ["03-01 04:00", "03-01 08:00", "03-01 12:00", "03-01 16:00", "03-01 20:00", "03-02 00:00"],
  ],
  [
    "a day field that begins with a star: both must match, so every odd-numbered Sunday",
    "0 0 */2 * sun",
    ["03-15 00:00", "03-29 00:00", "04-05 00:00", "04-19 00:00"],
  ],
  ["0 is Sunday", "0 0 * * 0", ["03-08 00:00", "03-15 00:00"]],
  ["7 is Sunday too", "0 0 * * 7", ["03-08 00:00", "03-15 00:00"]],
  ["a range up to 7", "0 12 * * 6-7", ["03-01 12:00", "03-07 12:00", "03-08 12:00"]],
  ["lists of ranges", "0 8-9,20 * * *", ["03-01 08:00", "03-01 09:00", "03-01 20:00", "03-02 08:00"]],
  ["names in any case", "0 9 * MAR,dec Mon-TUE", ["03-02 09:00", "03-03 09:00", "03-09 09:00"]],
  ["steps", "*/20 */12 * * *", ["03-01 00:20", "03-01 00:40", "03-01 12:00", "03-01 12:20", "03-01 12:40"]],
  ["several spaces between the fields", " 5  0 *   * * ", ["03-01 00:05"]],
  ["29 February", "0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]],
  [
    "29 February if it is a Sunday, by a star in the day of the week",
    "0 0 29 2 */7",
    ["2032-02-29 00:00", "2060-02-29 00:00"],
  ],
  ["a day that no month has", "0 0 31 2,4,6,9,11 *", []],
])("%s: %s", (_, cron, expected) => {
  expect(runs(cron, Math.max(expected.length, 1))).toEqual(expected);
});

test.each<[what: string, cron: string]>([
  ["four fields", "* * * *"],
  ["six fields", "0 * * * * *"],
  ["nothing", ""],
  ["a nickname", "@daily"],
  ["a minute of 60", "60 * * * *"],
  ["an hour of 24", "0 24 * * *"],
  ["day 0", "0 0 0 * *"],
  ["month 13", "0 0 1 13 *"],
  ["weekday 8", "0 0 * * 8"],
  ["a range that runs backwards", "0 22-2 * * *"],
  ["a step of 0", "*/0 * * * *"],
  ["an empty list entry", "0,,5 * * * *"],
  ["a fraction", "1.5 * * * *"],
  ["a word", "at noon every single day"],
  ["a weekday's name as a month", "0 0 * mon *"],
  ["Quartz's last day", "0 0 L * *"],
  ["Quartz's n-th weekday", "0 0 * * 1#1"],
  ["Quartz's question mark", "0 0 ? * 1"],
])("%s is no cron expression here: %j", (_, cron) => {
  expect(() => parseCron(cron)).toThrow();
});

test.each<[string, number]>([
  ["* * * * *", 1],
  ["*/5 * * * *", 5],
  ["0,58 0,23 * * *", 2],
  ["0 9 * * *", 1440],
  ["0 9 * * 1", 7 * 1440],
  ["0,3 9 1 1 *", 3],
])("%s has at least %i minutes between two runs", (cron, minutes) => {
  expect(shortestGapMinutes({ interval: "cron", cron, timezone: "UTC" })).toBe(minutes);
});
