import { beforeAll, expect, test } from "vitest";
import { SUSPENSIONS, TRANSITIONS } from "../../src/agents/runs/run-state.ts";
import { suspend } from "../../src/agents/runs/run-work.ts";
import { FAILED, LIMITS, MODEL_CALL, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();
const DONE = { status: "succeeded", output: "Done." } as const;

/** `from → to` of every transition between two statuses in the table. */
const IN_TABLE = [
  ...Object.values(TRANSITIONS).flatMap(({ next }) => Object.entries(next)),
  ...SUSPENSIONS.map((status) => ["running", status]),
]
  .filter(([from, to]) => from !== "new" && from !== to)
  .map((edge) => edge.join(" → "));

// The database records each change of run.status.
beforeAll(async () => {
  for (const text of [
    "create table seen (edge text primary key)",
    `create function see() returns trigger language plpgsql as $$ begin
      insert into seen values (old.status || ' → ' || new.status) on conflict do nothing;
      return null;
    end $$`,
    `create trigger see after update of status on run for each row
      when (old.status <> new.status) execute function see()`,
  ]) {
    await queue.db.query({ text });
  }
});

async function claimed(trigger: "manual" | "chat" = "manual") {
  await queue.enqueue(queue.agent, trigger);
  return (await queue.claimOne()).lease;
}
async function cancelling() {
  const lease = await claimed();
  await queue.scheduling.requestCancel(queue.agent, lease.run_id);
  return lease;
}

test("the database records every transition of the table and no other", async () => {
  const { scheduling } = queue;
  await scheduling.finishRun(await claimed(), DONE);
  await scheduling.finishRun(await claimed(), FAILED);
  await scheduling.finishRun(await claimed(), { status: "cancelled" });
  for (const finish of [DONE, FAILED, { status: "cancelled" } as const]) {
    await scheduling.finishRun(await cancelling(), finish);
  }
  await scheduling.requestCancel(queue.agent, (await queue.enqueue()).id);

  for (const status of SUSPENSIONS) {
    const resumed = await claimed();
    await scheduling.suspendRun(resumed, suspend(status));
    expect(await scheduling.resumeRun(resumed)).toBe(true);
    const { lease } = await queue.claimOne();
    await scheduling.suspendRun(lease, suspend(status));
    await scheduling.requestCancel(queue.agent, lease.run_id);
  }

  await cancelling();
  await claimed("chat");
  await scheduling.handBack("worker-1");
  await claimed();
  await scheduling.handBack("worker-1");
  await scheduling.cancelAll(queue.agent.user_id);

  await cancelling();
  await claimed("chat");
  await scheduling.startStep(await claimed(), MODEL_CALL);
  const reserved = { worker_id: "gone", for_ms: 0 };
  await scheduling.start({ ...queue.agent, trigger: "chat", reserved });
  await queue.expireLeases();
  await scheduling.reap();
  expect(await scheduling.claim("worker-2", 5, LIMITS)).toHaveLength(1);

  const seen = await queue.db.query<{ edge: string }>({ text: "select edge from seen" });
  expect(seen.map(({ edge }) => edge).sort()).toEqual([...new Set(IN_TABLE)].sort());
});
