import { expect, test } from "vitest";
import { killRun } from "../../bench/kill-workers/kill-run.ts";
import { placeOf } from "../../bench/support/service.ts";
import { createTestDatabase } from "../support/database.ts";
import { FLAGS } from "../support/process.ts";

// Failures elsewhere: a dead worker keeps its runs (deer-flow#1087), the next worker repeats effects and model calls
// (agent-framework#3938). `npm run kill` is the long run of this test.

test("kill -9 of busy nodes loses no run, doubles no due instant, neither repeats nor charges a finished model call twice, keeps each webhook's id, delivers each result under one id, makes no call without its approval and no approved one twice", async () => {
  const { kind, data_dir, database_url, drop } = await createTestDatabase();
  const report = await killRun(placeOf({ folder: data_dir, database_url, node_args: FLAGS, drop }), {
    seed: 20_261_121,
    for_ms: 4_000,
    least_kills: 3,
    workers: 2,
    kill_api: true,
    errands: 16,
    routines: 4,
    // Embedded storage has one process, and the test reads its database between two of them: once is enough.
    due_ms: kind === "postgres" ? 1_000 : 60_000,
    kill_ms: kind === "postgres" ? { least: 600, most: 1_600 } : { least: 300, most: 1_200 },
    leases: "end",
  });
  await drop();
  expect(report.violations, "seed 20261121").toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(3);
  expect(report.runs).toBeGreaterThan(10);
  expect(report.occurrences).toBeGreaterThan(0);
  expect(report.results).toBeGreaterThanOrEqual(report.runs);
  for (const some of [report.hooked, report.approvals, report.budgets]) expect(some).toBeGreaterThan(0);
});
