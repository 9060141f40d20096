import { expect, test } from "vitest";
import { selectBusySchedules } from "../../src/agents/runs/history.store.ts";
import * as runStore from "../../src/agents/runs/run.store.ts";
import { finishStepArgument, reapRuns, selectGivenUp } from "../../src/agents/runs/run.store.ts";
import { toClaimedRun } from "../../src/agents/runs/run-record.ts";
import type { Tx } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { LIMITS, MODEL_CALL, START, useQueue } from "./run-queue-fixture.ts";

// PostgreSQL analyzes a table at most once a minute. A burst of due runs is claimed and executed before that, with the
// plans that statistics of another time give.

const queue = useQueue();
const USERS = 20;
const userId = (nth: string) => `('00000000-0000-7000-8000-' || lpad((${nth})::text, 12, '0'))::uuid`;

const queueMany = (runs: number) =>
  queue.db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, scheduled_for, queued_at, engine_input, priority)
      select ${userId(`n % ${USERS}`)}, gen_random_uuid(), gen_random_uuid(), 1, 'schedule', $2, $2, '{}', 2 from generate_series(1, $1) n`,
    values: [runs, START],
  });
const finishAll = () =>
  queue.db.query({ text: "update run set status = 'succeeded', finished_at = $1", values: [START] });
const analyze = () => queue.db.query({ text: "analyze run" });

/** The statements that nodes repeat while runs are queued, in one transaction. Returns the rows of `run` that they read. */
async function rowsRead(tx: Tx): Promise<Record<string, number>> {
  const readSoFar = async () => {
    const [row] = await tx.query<{ rows: number }>({
      text: "select (seq_tup_read + idx_tup_fetch)::integer as rows from pg_stat_xact_user_tables where relname = 'run'",
    });
    return row?.rows ?? Number.NaN;
  };
  const read: Record<string, number> = {};
  let before = await readSoFar();
  const count = async <Result>(name: string, work: Promise<Result>): Promise<Result> => {
    const result = await work;
    const now = await readSoFar();
    read[name] = now - before;
    before = now;
    return result;
  };
  const [user] = await tx.query<{ id: string }>({ text: `select ${userId("7")} as id` });
  const user_id = user?.id ?? "";
  const agent = { user_id, agent_id: newId() };
  const claiming = { worker_id: "worker-1", most: 10, limits: LIMITS, lease_ms: 30_000, now: START };
  const reaping = {
    max_losses: 3,
    lease_ms: 30_000,
    unexpired: false,
    at_work: [],
    now: START,
    judged_at_ms: Date.now(),
  };

  await count("is any run queued", runStore.hasQueued(tx));
  const claimed = await count("claim", runStore.claimRuns(tx, { ...claiming, reserved_only: false }));
  expect(claimed).toHaveLength(10);
  await count("claim of reserved runs", runStore.claimRuns(tx, { ...claiming, reserved_only: true }));
  const leases = claimed.map((run) => toClaimedRun(run).lease);
  await count("renew", runStore.renewLeases(tx, leases, 30_000));
  const steps = leases.map((lease) => ({ lease, step: { ...MODEL_CALL, internal: null }, now: START }));
  expect(await count("start steps", runStore.startSteps(tx, steps))).not.toContain("lost");
  const [first, second] = leases;
  if (first === undefined || second === undefined) throw new Error("ten runs were claimed");
  const outcome = { index: 0, status: "succeeded", result: "done" } as const;
  const finished = runStore.finishStep(tx, finishStepArgument(first, outcome, START, { final: { output: "done" } }));
  expect(await count("finish a step", finished)).toBe(true);
  const finish = { lease: second, finish: { status: "cancelled" }, now: START } as const;
  expect(await count("finish a run", runStore.finishRuns(tx, [finish]))).toHaveLength(1);
  await count("take from lost workers", reapRuns(tx, reaping));
  await count("give up lost runs", selectGivenUp(tx, reaping));
  await count("busy schedules", selectBusySchedules(tx, [{ ...agent, schedule_id: newId(), with_run_nows: true }]));
  const run_now = {
    ...agent,
    id: newId(),
    trigger: "manual" as const,
    agent_version: 1,
    model_id: null,
    engine_input: {},
  };
  const inserting = runStore.insertRuns(tx, [run_now], { max_queued_manual: 1_000, now: START });
  expect((await count("queue a run-now", inserting)).size).toBe(1);
  return read;
}

test.each<[string, () => Promise<unknown>]>([
  ["of an empty table", analyze],
  ["of an idle queue", () => queueMany(500).then(finishAll).then(analyze)],
  ["of a long queue, which has ended since", () => queueMany(1_000).then(analyze).then(finishAll)],
])(
  "with statistics %s, the worker's statements read no more rows for 4,000 queued runs than for 200",
  async (_, before) => {
    const rowsFor = async (queued: number) => {
      await queue.reopen();
      await queue.db.query({ text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change" });
      await queue.db.query({ text: "alter table run set (autovacuum_enabled = false)" });
      await before();
      // Plans of an idle service are kept, too.
      for (let nth = 0; nth < 7; nth += 1) {
        await queueMany(12);
        await queue.db.transaction(rowsRead);
        await finishAll();
        await queue.db.query({ text: "delete from runs_at_work" });
        await queue.db.query({ text: "delete from runs_at_work_change" });
      }
      await queueMany(queued);
      return queue.db.transaction(rowsRead);
    };
    const few = await rowsFor(200);
    const many = await rowsFor(4_000);
    const more = Object.entries(many).filter(([name, rows]) => rows > (few[name] ?? 0) + 40);
    expect(Object.fromEntries(more)).toEqual({});
  },
);
