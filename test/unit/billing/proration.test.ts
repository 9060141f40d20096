import { describe, expect, it } from "vitest";
import { prorated } from "../../../src/account/billing/plan.ts";

const start = "2026-03-01T00:00:00.000Z";
const end = "2026-04-01T00:00:00.000Z";
const MARCH_MS = 31 * 86_400_000;

describe("prorated", () => {
  it.each([
    ["the whole amount at the first instant", start, 12_000_000],
    ["a little less a millisecond later", "2026-03-01T00:00:00.001Z", 11_999_999],
    ["half at the middle", "2026-03-16T12:00:00.000Z", 6_000_000],
    ["almost nothing in the last second", "2026-03-31T23:59:59.000Z", 4],
    ["nothing in the last millisecond, because fractions are dropped", "2026-03-31T23:59:59.999Z", 0],
    ["nothing at the end", end, 0],
    ["nothing after the end", "2026-05-01T00:00:00.000Z", 0],
    ["no more than the whole before the start", "2026-02-01T00:00:00.000Z", 12_000_000],
  ])("is %s", (_, at, expected) => {
    expect(prorated(12_000_000, { start, end, at })).toBe(expected);
  });

  it("never grows with time, and is exact where a floating-point number would not be", () => {
    const amount = Number.MAX_SAFE_INTEGER;
    let last = amount;
    for (let ms = 0; ms <= MARCH_MS; ms += 7_654_321) {
      const at = new Date(Date.parse(start) + ms).toISOString();
      const part = prorated(amount, { start, end, at });
      expect(BigInt(part)).toBe((BigInt(amount) * BigInt(MARCH_MS - ms)) / BigInt(MARCH_MS));
      expect(part).toBeLessThanOrEqual(last);
      last = part;
    }
  });

  it("uses the number of days in February", () => {
    const february = { start: "2028-02-01T00:00:00.000Z", end: "2028-03-01T00:00:00.000Z" };
    expect(prorated(29, { ...february, at: "2028-02-29T00:00:00.000Z" })).toBe(1);
  });
});
