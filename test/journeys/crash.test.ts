import { expect, it } from "vitest";
import { crashRun } from "../../bench/crash/crash-run.ts";
import { placeOf } from "../../bench/support/service.ts";
import { createTestDatabase } from "../support/database.ts";
import { FLAGS } from "../support/process.ts";

// `npm run crash` is the long run of this test.

const SEED = 20_261_120;

it("kill -9 under load loses no acknowledged charge, top-up or run, doubles none, and leaves no hold of a dead process", async () => {
  const { data_dir, database_url, drop } = await createTestDatabase();
  const report = await crashRun(placeOf({ folder: data_dir, database_url, node_args: FLAGS, drop }), {
    seed: SEED,
    users: 2,
    callers_per_user: 5,
    life_ms: { least: 200, most: 700 },
    goOn: (kills) => kills < 3,
  });
  await drop();
  expect(report.violations, `seed ${SEED}`).toEqual([]);
  expect(report.kills).toBe(3);
  expect(report.acknowledged).toBeGreaterThan(0);
});
