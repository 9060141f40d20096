import { expect, test } from "vitest";
import { next, type ScheduleSpec } from "../../../src/agents/schedules/spec.ts";
import type { Weekday } from "../../../src/kernel/constants.ts";

/**
 * Known cases from an independent source. The instants were computed with Python's zoneinfo, not with Temporal. With fold 0,
 * a skipped wall time uses the offset before the gap, and a repeated one its first time.
 */

const daily = (time: string, timezone: string): ScheduleSpec => ({ interval: "daily", times: [time], timezone });
const weekly = (day_of_week: Weekday, time: string, timezone: string): ScheduleSpec => ({
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

test.each<[string, ScheduleSpec, string, string[]]>([
  [
    "Sao Paulo, gap at midnight",
    daily("00:30", "America/Sao_Paulo"),
    "2018-11-03T03:29Z",
    ["2018-11-03T03:30Z", "2018-11-04T03:30Z", "2018-11-05T02:30Z"],
  ],
  [
    "Sao Paulo, overlap before midnight",
    daily("23:30", "America/Sao_Paulo"),
    "2018-02-17T01:29Z",
    ["2018-02-17T01:30Z", "2018-02-18T01:30Z", "2018-02-19T02:30Z"],
  ],
  [
    "Havana, gap at midnight",
    daily("00:30", "America/Havana"),
    "2026-03-07T05:29Z",
    ["2026-03-07T05:30Z", "2026-03-08T05:30Z", "2026-03-09T04:30Z"],
  ],
  [
    "Havana, overlap after midnight",
    daily("00:30", "America/Havana"),
    "2026-10-31T04:29Z",
    ["2026-10-31T04:30Z", "2026-11-01T04:30Z", "2026-11-02T05:30Z"],
  ],
  [
    "Troll, gap of two hours",
    daily("02:30", "Antarctica/Troll"),
    "2026-03-28T02:29Z",
    ["2026-03-28T02:30Z", "2026-03-29T02:30Z", "2026-03-30T00:30Z"],
  ],
  [
    "Troll, overlap of two hours",
    daily("01:30", "Antarctica/Troll"),
    "2026-10-23T23:29Z",
    ["2026-10-23T23:30Z", "2026-10-24T23:30Z", "2026-10-26T01:30Z"],
  ],
  [
    "Dublin, whose winter time is the negative one",
    daily("01:30", "Europe/Dublin"),
    "2026-03-28T01:29Z",
    ["2026-03-28T01:30Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z"],
  ],
  [
    "Lord Howe, overlap of half an hour",
    daily("01:45", "Australia/Lord_Howe"),
    "2026-04-03T14:44Z",
    ["2026-04-03T14:45Z", "2026-04-04T14:45Z", "2026-04-05T15:15Z"],
  ],
  [
    "Chatham, gap at 02:45",
    daily("03:00", "Pacific/Chatham"),
    "2026-09-25T14:14Z",
    ["2026-09-25T14:15Z", "2026-09-26T14:15Z", "2026-09-27T13:15Z"],
  ],
  [
    "Caracas, half an hour back for good",
    daily("02:45", "America/Caracas"),
    "2007-12-08T06:44Z",
    ["2007-12-08T06:45Z", "2007-12-09T06:45Z", "2007-12-10T07:15Z"],
  ],
  [
    "Caracas, half an hour forward again",
    daily("02:45", "America/Caracas"),
    "2016-04-30T07:14Z",
    ["2016-04-30T07:15Z", "2016-05-01T07:15Z", "2016-05-02T06:45Z"],
  ],
  [
    "Pyongyang, half an hour forward at 23:30",
    daily("23:45", "Asia/Pyongyang"),
    "2018-05-03T15:14Z",
    ["2018-05-03T15:15Z", "2018-05-04T15:15Z", "2018-05-05T14:45Z"],
  ],
  [
    "Kathmandu, a quarter of an hour forward",
    daily("00:10", "Asia/Kathmandu"),
    "1985-12-30T18:39Z",
    ["1985-12-30T18:40Z", "1985-12-31T18:40Z", "1986-01-01T18:25Z"],
  ],
  [
    "Monrovia, 44 minutes and 30 seconds forward",
    daily("00:20", "Africa/Monrovia"),
    "1972-01-06T01:03Z",
    ["1972-01-06T01:04:30.000Z", "1972-01-07T01:04:30.000Z", "1972-01-08T00:20Z"],
  ],
  [
    "Kwajalein, a day of August 1993 that did not exist",
    daily("12:00", "Pacific/Kwajalein"),
    "1993-08-19T23:59Z",
    ["1993-08-20T00:00Z", "1993-08-21T00:00Z", "1993-08-22T00:00Z", "1993-08-23T00:00Z"],
  ],
  [
    "Fakaofo, 30 December 2011 did not exist",
    daily("12:00", "Pacific/Fakaofo"),
    "2011-12-28T22:59Z",
    ["2011-12-28T23:00Z", "2011-12-29T23:00Z", "2011-12-30T23:00Z", "2011-12-31T23:00Z"],
  ],
  [
    "Kiritimati, New Year's Eve of 1994 did not exist",
    daily("08:00", "Pacific/Kiritimati"),
    "1994-12-29T17:59Z",
    ["1994-12-29T18:00Z", "1994-12-30T18:00Z", "1994-12-31T18:00Z", "1995-01-01T18:00Z"],
  ],
  [
    "Casablanca, back for Ramadan",
    daily("02:30", "Africa/Casablanca"),
    "2025-02-22T01:29Z",
    ["2025-02-22T01:30Z", "2025-02-23T01:30Z", "2025-02-24T02:30Z"],
  ],
  [
    "Casablanca, forward after Ramadan",
    daily("02:30", "Africa/Casablanca"),
    "2025-04-05T02:29Z",
    ["2025-04-05T02:30Z", "2025-04-06T02:30Z", "2025-04-07T01:30Z"],
  ],
  [
    "Istanbul, its last gap",
    daily("03:30", "Europe/Istanbul"),
    "2016-03-26T01:29Z",
    ["2016-03-26T01:30Z", "2016-03-27T01:30Z", "2016-03-28T00:30Z"],
  ],
  [
    "Tehran, its last gap",
    daily("00:30", "Asia/Tehran"),
    "2022-03-20T20:59Z",
    ["2022-03-20T21:00Z", "2022-03-21T21:00Z", "2022-03-22T20:00Z"],
  ],
  [
    "Gaza, gap after midnight",
    daily("00:30", "Asia/Gaza"),
    "2016-03-24T22:29Z",
    ["2016-03-24T22:30Z", "2016-03-25T22:30Z", "2016-03-26T21:30Z"],
  ],
  [
    "Volgograd, an hour forward for good",
    daily("02:30", "Europe/Volgograd"),
    "2018-10-26T23:29Z",
    ["2018-10-26T23:30Z", "2018-10-27T23:30Z", "2018-10-28T22:30Z"],
  ],
  [
    "Amman, gap at midnight",
    daily("00:30", "Asia/Amman"),
    "2021-03-24T22:29Z",
    ["2021-03-24T22:30Z", "2021-03-25T22:30Z", "2021-03-26T21:30Z"],
  ],
  [
    "Los Angeles, overlap in 2099",
    daily("01:30", "America/Los_Angeles"),
    "2099-10-31T08:29Z",
    ["2099-10-31T08:30Z", "2099-11-01T08:30Z", "2099-11-02T09:30Z"],
  ],
  [
    "Berlin, gap in 2037",
    daily("02:30", "Europe/Berlin"),
    "2037-03-28T01:29Z",
    ["2037-03-28T01:30Z", "2037-03-29T01:30Z", "2037-03-30T00:30Z"],
  ],
  [
    "London, summer time all year in 1970",
    daily("01:30", "Europe/London"),
    "1970-06-01T00:29Z",
    ["1970-06-01T00:30Z", "1970-06-02T00:30Z"],
  ],
  [
    "Berlin, Sundays over a gap",
    weekly("sunday", "02:30", "Europe/Berlin"),
    "2026-03-22T01:29Z",
    ["2026-03-22T01:30Z", "2026-03-29T01:30Z", "2026-04-05T00:30Z"],
  ],
  [
    "New York, Sundays over an overlap",
    weekly("sunday", "01:30", "America/New_York"),
    "2026-10-25T05:29Z",
    ["2026-10-25T05:30Z", "2026-11-01T05:30Z", "2026-11-08T06:30Z"],
  ],
  [
    "Kolkata, Mondays",
    weekly("monday", "09:00", "Asia/Kolkata"),
    "2026-03-23T03:29Z",
    ["2026-03-23T03:30Z", "2026-03-30T03:30Z"],
  ],
  [
    "Auckland, Mondays over a change",
    weekly("monday", "00:15", "Pacific/Auckland"),
    "2026-09-20T12:14Z",
    ["2026-09-20T12:15Z", "2026-09-27T11:15Z", "2026-10-04T11:15Z"],
  ],
  [
    "Apia, the Thursday before the day that did not exist",
    weekly("thursday", "23:30", "Pacific/Apia"),
    "2011-12-23T09:29Z",
    ["2011-12-23T09:30Z", "2011-12-30T09:30Z", "2012-01-05T09:30Z"],
  ],
  [
    "the 31st over a leap February",
    monthly(31, "00:00", "UTC"),
    "2027-12-30T23:59Z",
    ["2027-12-31T00:00Z", "2028-01-31T00:00Z", "2028-02-29T00:00Z", "2028-03-31T00:00Z"],
  ],
  [
    "the 29th in a year without one in February",
    monthly(29, "00:00", "UTC"),
    "2026-01-28T23:59Z",
    ["2026-01-29T00:00Z", "2026-02-28T00:00Z", "2026-03-29T00:00Z"],
  ],
  [
    "the 30th in February 2096",
    monthly(30, "12:00", "UTC"),
    "2096-01-30T11:59Z",
    ["2096-01-30T12:00Z", "2096-02-29T12:00Z", "2096-03-30T12:00Z"],
  ],
  [
    "2100 is no leap year",
    monthly(29, "12:00", "UTC"),
    "2099-12-29T11:59Z",
    ["2099-12-29T12:00Z", "2100-01-29T12:00Z", "2100-02-28T12:00Z", "2100-03-29T12:00Z"],
  ],
  [
    "New York, the 8th falls on the gap",
    monthly(8, "02:30", "America/New_York"),
    "2026-02-08T07:29Z",
    ["2026-02-08T07:30Z", "2026-03-08T07:30Z", "2026-04-08T06:30Z"],
  ],
  [
    "New York, the 1st falls on the overlap",
    monthly(1, "01:30", "America/New_York"),
    "2026-10-01T05:29Z",
    ["2026-10-01T05:30Z", "2026-11-01T05:30Z", "2026-12-01T06:30Z"],
  ],
  [
    "Apia, the 30th that did not exist falls on the 31st",
    monthly(30, "09:00", "Pacific/Apia"),
    "2011-11-30T18:59Z",
    ["2011-11-30T19:00Z", "2011-12-30T19:00Z", "2012-01-29T19:00Z"],
  ],
  [
    "Apia, the last day is the 31st all the same",
    monthly("last", "09:00", "Pacific/Apia"),
    "2011-11-30T18:59Z",
    ["2011-11-30T19:00Z", "2011-12-30T19:00Z", "2012-01-30T19:00Z"],
  ],
  [
    "Kolkata, the 31st begins on the day before in UTC",
    monthly(31, "00:00", "Asia/Kolkata"),
    "2026-01-30T18:29Z",
    ["2026-01-30T18:30Z", "2026-02-27T18:30Z", "2026-03-30T18:30Z", "2026-04-29T18:30Z"],
  ],
  [
    "Sao Paulo, midnight of the 4th is skipped in November",
    monthly(4, "00:00", "America/Sao_Paulo"),
    "2018-10-04T02:59Z",
    ["2018-10-04T03:00Z", "2018-11-04T03:00Z", "2018-12-04T02:00Z"],
  ],
])("%s", (_, spec, after, expected) => {
  const runs: string[] = [];
  for (let at = after.replace("Z", ":00.000Z"); runs.length < expected.length; ) {
    at = next(spec, at) ?? "never";
    runs.push(at.replace(":00.000Z", "Z"));
  }
  expect(runs).toEqual(expected);
});
