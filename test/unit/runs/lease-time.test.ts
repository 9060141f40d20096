import { expect, test } from "vitest";
import { createLeaseTime } from "../../../src/runs/leases.service.ts";

const HOUR_MS = 3_600_000;
const leaseTime = () => createLeaseTime({ step_ms: 7_500, lease_ms: 30_000 });

test("leases are judged by what the database's clock shows while that goes as time does", () => {
  const judgedAt = leaseTime();
  expect([judgedAt(1_000_000, 0), judgedAt(1_001_000, 1_000)]).toEqual([1_000_000, 1_001_000]);
  // it is corrected now and then, by less than a lease that was renewed in time has left
  expect([judgedAt(1_009_000, 2_000), judgedAt(1_010_000, 3_000)]).toEqual([1_009_000, 1_010_000]);
});

test("a clock that was set on is believed when every living worker has renewed, and until then time goes on as it did", () => {
  const judgedAt = leaseTime();
  judgedAt(1_000_000, 0);
  expect(judgedAt(1_001_000 + HOUR_MS, 1_000)).toBe(1_001_000);
  expect(judgedAt(1_030_900 + HOUR_MS, 30_900)).toBe(1_030_900);
  expect(judgedAt(1_031_000 + HOUR_MS, 31_000)).toBe(1_031_000 + HOUR_MS);
  expect(judgedAt(1_032_000 + HOUR_MS, 32_000)).toBe(1_032_000 + HOUR_MS);
});

test("one that is set again meanwhile has a lease's time from the first step, and one that is set back is believed at once", () => {
  const judgedAt = leaseTime();
  judgedAt(1_000_000, 0);
  expect(judgedAt(1_001_000 + HOUR_MS, 1_000)).toBe(1_001_000);
  expect(judgedAt(1_002_000, 2_000)).toBe(1_002_000);
  expect(judgedAt(1_003_000 - HOUR_MS, 3_000)).toBe(1_003_000 - HOUR_MS);
  expect(judgedAt(1_004_000, 4_000)).toBe(1_004_000 - HOUR_MS);
});
