import { expect, test } from "vitest";
import { reapRuns } from "../../src/agents/runs/run.store.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { FAILED, LIMITS, START, useQueue } from "./run-queue-fixture.ts";

// The cost of a claim and of the search for lost runs, while other workers have many runs.

const queue = useQueue();
const other = () => ({ user_id: newId(), agent_id: newId() });

/** Runs at work per user: the stored counts, and the counted rows. */
async function counted() {
  await queue.db.query({ text: "select count_runs_at_work()" });
  const [row] = await queue.db.query<{ counted: Record<string, number>; real: Record<string, number> }>({
    text: `select (select coalesce(jsonb_object_agg(user_id, runs), '{}') from runs_at_work where runs <> 0) as counted,
      (select coalesce(jsonb_object_agg(user_id, runs), '{}') from (
        select coalesce(user_id, '00000000-0000-0000-0000-000000000000') as user_id, count(*) as runs
        from run where phase = 'working' group by grouping sets ((user_id), ()) having count(*) > 0
      ) as users) as real`,
  });
  return row;
}

test("the number of runs at work is right after every way to begin or end a run, and after a rollback", async () => {
  for (let nth = 0; nth < 8; nth += 1) await queue.enqueue(nth < 5 ? queue.agent : other());
  const steps: (() => Promise<unknown>)[] = [];
  const claimed = await queue.scheduling.claim("worker-1", 8, LIMITS);
  const [done, cancelled, stopped, returned, lost] = claimed.map(({ lease }) => lease);
  if (!done || !cancelled || !stopped || !returned || !lost) throw new Error("eight runs were claimed");
  steps.push(
    () => queue.scheduling.finishRun(done, FAILED),
    () => queue.scheduling.requestCancel(cancelled, cancelled.run_id).catch(() => {}),
    () => queue.scheduling.handBackOne("worker-1", returned),
    async () => {
      await queue.db.query({
        text: "update run set lease_until = now() - interval '1 second' where id = $1",
        values: [lost.run_id],
      });
      await queue.scheduling.reap();
    },
    () =>
      queue.db
        .transaction(async (tx) => {
          await tx.query({ text: "delete from run" });
          throw new Error("undone");
        })
        .catch(() => {}),
    () => queue.db.transaction((tx) => queue.scheduling.forgetUser(tx, stopped.user_id)),
    () => queue.scheduling.claim("worker-2", 8, LIMITS),
    () => queue.scheduling.handBack("worker-2"),
  );
  const before = await counted();
  expect(Object.keys(before?.real ?? {}).length).toBeGreaterThan(1);
  expect(before?.counted).toEqual(before?.real);
  for (const step of steps) {
    await step();
    const now = await counted();
    expect(now?.counted).toEqual(now?.real);
  }
});

test("a claim and the search for lost runs read the same number of rows with 2,000 runs at work as with 20", async () => {
  const rowsRead = async (at_work: number) => {
    await queue.db.query({ text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change" });
    await queue.db.query({
      text: `insert into run (user_id, id, agent_id, agent_version, trigger, queued_at, engine_input, priority, status, worker_id,
          lease_until, epoch)
        select ('00000000-0000-7000-8000-' || lpad((n / 10)::text, 12, '0'))::uuid, gen_random_uuid(), gen_random_uuid(), 1,
          'manual', $2, '{}', 1, 'running', 'other', clock_timestamp() + interval '1 hour', 1 from generate_series(1, $1) n`,
      values: [at_work, START],
    });
    await queue.db.query({ text: "select count_runs_at_work()" });
    for (let nth = 0; nth < 3; nth += 1) await queue.enqueue(other());
    await queue.db.query({ text: "analyze run" });
    return queue.db.transaction(async (tx) => {
      const claimed = await tx.query({
        text: "select id from claim_runs('worker-1', 3, $1, 10, 30000, $2, false, null)",
        values: [at_work + 2, START],
      });
      expect(claimed).toHaveLength(2);
      const reaping = { max_losses: 3, lease_ms: 30_000, unexpired: false, at_work: [], now: START };
      await reapRuns(tx, { ...reaping, judged_at_ms: Date.now() + 1_000 });
      const [read] = await tx.query<{ rows: number }>({
        text: "select (seq_tup_read + idx_tup_fetch)::integer as rows from pg_stat_xact_user_tables where relname = 'run'",
      });
      return read?.rows ?? Number.NaN;
    });
  };
  const few = await rowsRead(20);
  expect(await rowsRead(2_000)).toBeLessThanOrEqual(few + 20);
});
