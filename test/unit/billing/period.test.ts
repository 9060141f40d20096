import { describe, expect, it } from "vitest";
import { computePeriod } from "../../../src/account/billing/plan.ts";

const starts = (anchor: string, count: number) =>
  Array.from({ length: count }, (_, index) => computePeriod(anchor, index + 1).start);

describe("computePeriod", () => {
  it.each([
    // anchor, and the starts of its periods
    ["2026-01-31", ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]],
    ["2024-01-31", ["2024-01-31", "2024-02-29", "2024-03-31"]],
    ["2024-02-29", ["2024-02-29", "2024-03-29", "2024-04-29"]],
    ["2026-01-29", ["2026-01-29", "2026-02-28", "2026-03-29"]],
    ["2026-11-30", ["2026-11-30", "2026-12-30", "2027-01-30", "2027-02-28", "2027-03-30"]],
    ["2026-12-15", ["2026-12-15", "2027-01-15"]],
  ])("from %s a short month has its last day, and the next month has the former day again", (anchor, days) => {
    const expected = days.map((day) => `${day}T10:20:30.456Z`);
    expect(starts(`${anchor}T10:20:30.456Z`, days.length)).toEqual(expected);
  });

  it("returns to 29 February only in leap years", () => {
    const anchor = "2024-02-29T00:00:00.000Z";
    expect(computePeriod(anchor, 13).start).toBe("2025-02-28T00:00:00.000Z");
    expect(computePeriod(anchor, 49).start).toBe("2028-02-29T00:00:00.000Z");
  });

  it("leaves no gap and no overlap between periods, for a century from every day of a leap year", () => {
    for (let day = 0; day < 366; day += 1) {
      const anchor = new Date(Date.UTC(2024, 0, 1 + day, 23, 59, 59, 999)).toISOString();
      for (let number = 1; number <= 1200; number += 37) {
        const period = computePeriod(anchor, number);
        expect(period.end).toBe(computePeriod(anchor, number + 1).start);
        expect(period.start < period.end).toBe(true);
      }
    }
  });
});
