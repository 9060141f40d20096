import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { next, type ScheduleSpec } from "../../src/agents/schedules/spec.ts";
import type { DueSchedule, OnDue } from "../../src/agents/schedules/tick.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createScheduling } from "../support/scheduling.ts";

// Several schedules of an agent beside a model of them: which instants are due, and that each has one occurrence.

const RUNS = Number(process.env.PROPERTY_RUNS ?? 25);
const SEED = Number(process.env.PROPERTY_SEED ?? Date.now() % 2 ** 31);
const START = Date.UTC(2026, 2, 27);
const LIMITS = { concurrent_runs: 1_000, concurrent_runs_per_user: 1_000 };
const NAMES = ["default", "a", "b"];

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

// Berlin's clocks go forward on 29 March 2026.
const timezone = fc.constantFrom("UTC", "Europe/Berlin");
const spec: fc.Arbitrary<ScheduleSpec> = fc.oneof(
  fc.record({
    interval: fc.constant("daily" as const),
    times: fc.constantFrom(["02:30"], ["08:00", "20:00"], ["02:30", "03:10", "03:30"]),
    timezone,
  }),
  fc.record({ interval: fc.constant("cron" as const), cron: fc.constantFrom("0 */6 * * *", "30 2 * * 1,7"), timezone }),
  fc.record({
    interval: fc.constant("once" as const),
    run_at: fc.constantFrom("2026-03-28T12:00", "2026-03-30T02:30"),
    timezone,
  }),
);
const name = fc.constantFrom(...NAMES);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("pass" as const), hours: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("tick" as const), nodes: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("set" as const), name, spec: fc.option(spec) }) },
  fc.record({ kind: fc.constantFrom("pause" as const, "resume" as const, "run" as const), name }),
  fc.record({ kind: fc.constant("finish" as const) }),
);

test(`each due instant of several schedules has one occurrence, and each run its own, in any order of changes and ticks (seed ${SEED})`, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await db.query({
        text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change, schedule, occurrence",
      });
      const agent = { user_id: newId(), agent_id: newId() };
      let now: Instant = new Date(START).toISOString();
      const scheduling = createScheduling({ db, clock: { now: () => now } });
      const onDue: OnDue = async (_, due: readonly DueSchedule[]) =>
        new Map(due.map(({ id }) => [id, { run: { agent_version: 1, model_id: null, engine_input: {} } }]));
      /** What is set, and up to when its instants are expected. */
      const model = new Map<string, { spec: ScheduleSpec | null; until: Instant }>();
      const expected: string[] = [];
      const expectUpToNow = (of: string) => {
        const schedule = model.get(of);
        if (schedule === undefined) return;
        let at = schedule.spec === null ? null : next(schedule.spec, schedule.until);
        for (; at !== null && at <= now; at = next(schedule.spec as ScheduleSpec, at)) expected.push(`${of} ${at}`);
        schedule.until = now;
      };
      const tick = async (nodes: number) => {
        await Promise.all(Array.from({ length: nodes }, () => scheduling.tick(onDue)));
        for (const of of NAMES) expectUpToNow(of);
      };
      for (const each of steps) {
        switch (each.kind) {
          case "pass":
            now = new Date(Date.parse(now) + each.hours * 3_600_000).toISOString();
            break;
          case "tick":
            await tick(each.nodes);
            break;
          case "set": {
            // The same times again are no change: what is due stays due.
            const before = model.get(each.name);
            if (before !== undefined && JSON.stringify(before.spec) === JSON.stringify(each.spec)) break;
            await db.transaction((tx) => scheduling.setSchedule(tx, agent, each.spec, each.name));
            expectUpToNow(each.name);
            model.set(each.name, { spec: each.spec, until: now });
            break;
          }
          case "pause":
          case "resume":
            await scheduling.pauseSchedule(agent, each.kind === "pause" ? "enough" : null, each.name);
            break;
          case "run": {
            const schedule = await scheduling.schedule(agent, each.name);
            await scheduling.start({ ...agent, schedule_id: schedule?.id });
            break;
          }
          case "finish":
            for (const { lease } of await scheduling.claim("worker", 100, LIMITS)) {
              await scheduling.finishRun(lease, { status: "succeeded", output: "done" });
            }
        }
      }
      await tick(2);
      const name_of = new Map(
        (await scheduling.ofAgents(agent.user_id, [agent.agent_id])).map((schedule) => [schedule.id, schedule.name]),
      );
      const occurrences = await scheduling.occurrences(agent, { limit: 10_000, before: null });
      const instants = occurrences.map(({ schedule_id, at }) => `${name_of.get(schedule_id)} ${at}`);
      expect(instants.sort()).toEqual(expected.sort());
      const promised = occurrences.flatMap(({ schedule_id, at, run_id }) =>
        run_id === null ? [] : `${schedule_id} ${at} ${run_id}`,
      );
      const runs = await scheduling.listRuns(agent, { trigger: "schedule" }, { limit: 10_000, before_id: null });
      expect(runs.map((run) => `${run.schedule_id} ${run.scheduled_for} ${run.id}`).sort()).toEqual(promised.sort());
      const open = runs.filter(({ finished_at }) => finished_at === null).map(({ schedule_id }) => schedule_id);
      expect(new Set(open).size).toBe(open.length);
    }),
    { numRuns: RUNS, seed: SEED },
  );
});
