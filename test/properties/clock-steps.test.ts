import { expect, inject, test } from "vitest";
import { databaseNowMs } from "../../src/platform/db/clock-skew.ts";
import { createScheduling } from "../support/scheduling.ts";
import { LIMITS, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();
const HOUR_MS = 3_600_000;

/** Replaces the server's clock, for every connection, by one that the test can advance. It covers names without a schema. */
async function settableClock(): Promise<{ setOn(by: string): Promise<void> }> {
  for (const text of [
    "create schema settable",
    "create table settable.step as select interval '0' as by",
    `create function settable.clock_timestamp() returns timestamptz language sql volatile
      as $$ select pg_catalog.clock_timestamp() + by from settable.step $$`,
    `do $$ begin
      execute format('alter database %I set search_path = settable, public, pg_catalog', current_database());
    end $$`,
  ]) {
    await queue.db.query({ text });
  }
  await queue.reopen();
  return {
    setOn: async (by) => void (await queue.db.query({ text: "update settable.step set by = $1", values: [by] })),
  };
}

// Embedded storage has one process, which leaves out its own runs.
const several_nodes = test.skipIf(inject("storage").kind === "embedded");

several_nodes(
  "when the database's clock jumps forward by an hour, living workers keep their runs, and runs of dead workers are still reclaimed",
  async () => {
    const clock = await settableClock();
    const before_ms = await databaseNowMs(queue.db);
    await queue.enqueue();
    await queue.enqueue();
    const living = await queue.claimOne("living");
    const dead = await queue.claimOne("dead");
    const nodes = [1, 2].map(() => createScheduling({ db: queue.db, clock: { now: () => queue.now } }));
    for (const node of nodes) await node.reap();

    await clock.setOn("1 hour");
    expect((await databaseNowMs(queue.db)) - before_ms).toBeGreaterThanOrEqual(HOUR_MS);
    for (const node of nodes) await node.reap();
    expect(await queue.scheduling.claim("other", 2, LIMITS)).toEqual([]);
    expect(await queue.scheduling.heartbeat([living.lease])).toEqual(["running"]);

    // by the real clock: the lease ended a second ago
    await queue.db.query({
      text: "update run set lease_until = pg_catalog.clock_timestamp() - interval '1 second' where worker_id = 'dead'",
    });
    for (const node of nodes) await node.reap();
    expect(await queue.scheduling.heartbeat([living.lease, dead.lease])).toEqual(["running", "lost"]);
    expect((await queue.claimOne("other")).lease.run_id).toBe(dead.lease.run_id);
  },
);
