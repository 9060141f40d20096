import { expect, test } from "vitest";
import { createLeaseTime } from "../../../src/agents/runs/lease.service.ts";

const HOUR_MS = 3_600_000;
const leaseTime = () => createLeaseTime({ step_ms: 7_500, lease_ms: 30_000 });

test("leases are checked by the database's clock while it runs normally", () => {
  const judgedAt = leaseTime();
  expect([judgedAt(1_000_000, 0), judgedAt(1_001_000, 1_000)]).toEqual([1_000_000, 1_001_000]);
  // Small corrections, less than the rest of a lease that was renewed in time.
  expect([judgedAt(1_009_000, 2_000), judgedAt(1_010_000, 3_000)]).toEqual([1_009_000, 1_010_000]);
});

test("a clock that jumped forward counts only after every living worker has renewed, and the former time continues until then", () => {
  const judgedAt = leaseTime();
  judgedAt(1_000_000, 0);
  expect(judgedAt(1_001_000 + HOUR_MS, 1_000)).toBe(1_001_000);
  expect(judgedAt(1_030_900 + HOUR_MS, 30_900)).toBe(1_030_900);
  expect(judgedAt(1_031_000 + HOUR_MS, 31_000)).toBe(1_031_000 + HOUR_MS);
  expect(judgedAt(1_032_000 + HOUR_MS, 32_000)).toBe(1_032_000 + HOUR_MS);
});

test("a second jump does not restart the wait, and a clock that was set back counts at once", () => {
  const judgedAt = leaseTime();
  judgedAt(1_000_000, 0);
  expect(judgedAt(1_001_000 + HOUR_MS, 1_000)).toBe(1_001_000);
  expect(judgedAt(1_002_000, 2_000)).toBe(1_002_000);
  expect(judgedAt(1_003_000 - HOUR_MS, 3_000)).toBe(1_003_000 - HOUR_MS);
  expect(judgedAt(1_004_000, 4_000)).toBe(1_004_000 - HOUR_MS);
});
