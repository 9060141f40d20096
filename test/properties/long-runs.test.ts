import { expect, test } from "vitest";
import { MODEL_CALL, useQueue } from "./run-queue-fixture.ts";

// The steps of one run can have 40 MB, and reads of many runs share a query.

const queue = useQueue();

async function runWith(steps: number): Promise<string> {
  const { id } = await queue.enqueue();
  const { lease } = await queue.claimOne();
  await queue.scheduling.startStep(lease, MODEL_CALL);
  await queue.db.query({
    text: `insert into run_step (user_id, run_id, index, type, name, status, result, started_at, finished_at)
      select user_id, run_id, n, 'tool', 'web_fetch', 'succeeded', to_jsonb(n), started_at, started_at
        from run_step, generate_series(1, $2::integer) as n where run_id = $1`,
    values: [id, steps - 1],
  });
  await queue.db.query({ text: "update run set steps_count = $2 where id = $1", values: [id, steps] });
  return id;
}

test("the steps of a long run are read 25 at a time, and are those of the whole run", async () => {
  const id = await runWith(60);
  const { run, rest } = await queue.scheduling.getRunInParts(queue.agent, id);
  const pages = rest === null ? [] : await Array.fromAsync(rest);
  expect(pages.map(({ length }) => length)).toEqual([25, 25, 10]);
  const whole = await queue.scheduling.getRun(queue.agent, id);
  expect({ ...run, steps: pages.flat() }).toEqual(whole);
  expect(whole.steps.map(({ index }) => index)).toEqual(Array.from({ length: 60 }, (_, n) => n));
});

test("a run with up to 25 steps is read at once, in one query with others", async () => {
  const id = await runWith(25);
  const { run, rest } = await queue.scheduling.getRunInParts(queue.agent, id);
  expect([run.steps.length, rest]).toEqual([25, null]);
});
