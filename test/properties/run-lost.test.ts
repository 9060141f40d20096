import { describe, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { FAILED, LIMITS, MODEL_CALL, START, USAGE, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();

describe("a lost worker", () => {
  test("loses its run to another worker as the next attempt, with the stored steps; the old lease is invalid", async () => {
    const { id } = await queue.enqueue();
    const first = await queue.claimOne();
    await queue.scheduling.startStep(first.lease, MODEL_CALL);
    await queue.scheduling.finishStep(first.lease, { index: 0, status: "succeeded", usage: USAGE });
    await queue.scheduling.startStep(first.lease, {
      index: 1,
      type: "tool",
      name: "send_webhook",
      arguments: {},
      internal: { webhook_id: "w1" },
    });
    await queue.expireLeases();
    await queue.scheduling.reap();

    const second = await queue.claimOne("worker-2");
    expect(second).toMatchObject({ attempt: 2, cost_tokens: 9, started_at: START, lease: { run_id: id } });
    expect(await queue.scheduling.journal(second.lease)).toMatchObject([
      { status: "succeeded" },
      { status: "running", internal: { webhook_id: "w1" } },
    ]);
    expect(await queue.scheduling.heartbeat([first.lease, second.lease])).toEqual(["lost", "running"]);
    expect(await queue.scheduling.finishRun(first.lease, FAILED)).toBe(false);
    expect(await queue.scheduling.finishStep(first.lease, { index: 1, status: "succeeded" })).toBe(false);
    expect(
      await queue.scheduling.startStep(second.lease, { index: 1, type: "tool", name: "send_webhook", arguments: {} }),
    ).toBe("running");
    expect((await queue.scheduling.journal(second.lease))[1]?.internal).toEqual({ webhook_id: "w1" });
  });

  test("fails the run with worker_lost at the third loss during a step", async () => {
    const { id } = await queue.enqueue();
    for (const attempt of [1, 2, 3]) {
      const claimed = await queue.claimOne();
      expect(claimed.attempt).toBe(attempt);
      await queue.scheduling.startStep(claimed.lease, MODEL_CALL);
      await queue.expireLeases();
      await queue.scheduling.reap();
    }
    expect(await queue.scheduling.claim("worker-1", 1, LIMITS)).toEqual([]);
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      status: "failed",
      error: { code: "worker_lost" },
      attempt: 3,
    });
  });

  test("does not fail a run without a step for losses that others caused, but attempts are limited", async () => {
    const { id } = await queue.enqueue();
    for (let attempt = 1; attempt <= 20; attempt += 1) {
      expect((await queue.claimOne()).attempt).toBe(attempt);
      await queue.expireLeases();
      await queue.scheduling.reap();
    }
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      error: { code: "worker_lost" },
      attempt: 20,
    });
  });

  test("does not fail its run for losses if the run makes progress between them", async () => {
    await queue.enqueue();
    for (let index = 0; index < 4; index += 1) {
      const { lease } = await queue.claimOne();
      await queue.scheduling.startStep(lease, { ...MODEL_CALL, index });
      await queue.scheduling.finishStep(lease, { index, status: "succeeded", usage: USAGE });
      await queue.expireLeases();
      await queue.scheduling.reap();
    }
    expect(await queue.claimOne()).toMatchObject({ attempt: 5, cost_tokens: 36 });
  });

  test("fails its chat, which no other worker resumes: its caller was connected to the lost worker", async () => {
    const { id } = await queue.enqueue(queue.agent, "chat");
    await queue.claimOne();
    await queue.expireLeases();
    await queue.scheduling.reap();
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      status: "failed",
      error: { code: "worker_lost" },
    });
  });

  test("keeps the lease while it sends heartbeats", async () => {
    await queue.enqueue();
    const { lease } = await queue.claimOne();
    await queue.expireLeases();
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
    await queue.scheduling.reap();
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
  });

  test("keeps its own runs and chats if its heartbeat is late; for other workers they are lost", async () => {
    const runs = [await queue.enqueue(), await queue.enqueue(queue.agent, "chat")];
    const claimed = await queue.scheduling.claim("worker-1", 2, LIMITS);
    // The machine slept, the database was away, or the clock jumped.
    await queue.expireLeases();
    await queue.scheduling.reap(runs.map(({ id }) => id));
    const leases = claimed.map(({ lease }) => lease);
    expect(await queue.scheduling.heartbeat(leases)).toEqual(["running", "running"]);
    await queue.expireLeases();
    await queue.scheduling.reap([newId()]);
    expect(await queue.scheduling.heartbeat(leases)).toEqual(["lost", "lost"]);
  });

  test("cancels a chat that it returns, because its caller is gone", async () => {
    const { id } = await queue.enqueue(queue.agent, "chat");
    await queue.claimOne();
    await queue.scheduling.handBack("worker-1");
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({ status: "cancelled", finished_at: START });
  });

  test("returns all its runs when it ends, also those of a lost answer, and none of other workers", async () => {
    for (let run = 0; run < 3; run += 1) await queue.enqueue();
    await queue.claimOne();
    await queue.scheduling.claim("worker-1", 1, LIMITS); // the answer was lost
    const { lease } = await queue.claimOne("worker-2");
    await queue.scheduling.handBack("worker-1");
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
    const claimed_again = await queue.scheduling.claim("worker-3", 3, LIMITS);
    expect(claimed_again.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });

  test("can return a single run, but not under a lease that another worker has now", async () => {
    for (let run = 0; run < 2; run += 1) await queue.enqueue();
    const [one, other] = await queue.scheduling.claim("worker-1", 2, LIMITS);
    if (one === undefined || other === undefined) throw new Error("two runs were expected");
    await queue.scheduling.handBackOne("worker-1", one.lease);
    expect(await queue.scheduling.heartbeat([one.lease, other.lease])).toEqual(["lost", "running"]);
    const claimed_again = await queue.claimOne("worker-1");
    await queue.scheduling.handBackOne("worker-1", one.lease);
    expect(claimed_again).toMatchObject({ attempt: 1, lease: { run_id: one.lease.run_id } });
    expect(await queue.scheduling.heartbeat([claimed_again.lease])).toEqual(["running"]);
  });

  test("leaves the unfinished call of a cancelled run with the result that its intent names", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    const if_cut_off = { code: "effect_unknown", message: "It may have been delivered." };
    const call = { index: 0, type: "tool", name: "send_webhook", arguments: {}, internal: { if_cut_off } } as const;
    await queue.scheduling.startStep(lease, call);
    await queue.scheduling.requestCancel(queue.agent, id);
    await queue.expireLeases();
    await queue.scheduling.reap();
    const run = await queue.scheduling.getRun(queue.agent, id);
    expect(run).toMatchObject({
      status: "cancelled",
      error: null,
      steps: [{ status: "cancelled", error: if_cut_off }],
    });
  });

  test("counts each run that was given up once", async () => {
    const lost: number[] = [];
    queue.calls.onLost = (runs) => lost.push(runs.length);
    for (let run = 0; run < 2; run += 1) await queue.enqueue(queue.agent, "chat");
    await queue.scheduling.claim("worker-1", 2, LIMITS);
    await queue.expireLeases();
    await queue.scheduling.reap();
    await queue.scheduling.reap();
    expect(lost).toEqual([2]);
  });

  test("that fails two runs of which one cannot be failed fails the other, and the failure is reported", async () => {
    const [first, second] = [await queue.enqueue(queue.agent, "chat"), await queue.enqueue(queue.agent, "chat")];
    await queue.scheduling.claim("worker-1", 2, LIMITS);
    await queue.expireLeases();
    queue.calls.notify = async (event) => {
      if ("run_id" in event && event.run_id === first.id) throw new Error("a notice was not stored");
    };
    await expect(queue.scheduling.reap()).rejects.toThrow("a notice was not stored");
    queue.calls.notify = async () => {};
    const status = async ({ id }: { id: string }) => (await queue.scheduling.getRun(queue.agent, id)).status;
    expect([await status(first), await status(second)]).toEqual(["running", "failed"]);
  });

  test("returns a run that is then claimed again as the same attempt", async () => {
    await queue.enqueue();
    const first = await queue.claimOne();
    await queue.scheduling.handBack("worker-1");
    expect(await queue.claimOne("worker-2")).toMatchObject({ attempt: 1, lease: { epoch: first.lease.epoch + 1 } });
  });
});

describe("the time of a run", () => {
  test("continues after a lost worker, without the time in the queue", async () => {
    await queue.enqueue();
    const first = await queue.claimOne();
    expect(first.elapsed_ms).toBe(0);
    // It worked for 100 s, then its worker stopped its heartbeats and the service was down for an hour.
    await queue.db.query({
      text: `update run set claimed_at = clock_timestamp() - interval '3700 seconds',
        lease_until = clock_timestamp() - interval '3570 seconds'`,
    });
    await queue.scheduling.reap();
    const second = await queue.claimOne();
    expect(second.elapsed_ms).toBe(100_000);
    await queue.db.query({ text: "update run set claimed_at = claimed_at - interval '30 seconds'" });
    await queue.scheduling.handBack("worker-1");
    expect((await queue.claimOne()).elapsed_ms).toBeGreaterThanOrEqual(130_000);
  });
});

describe("after all workers are known to be gone", () => {
  test("their runs return to the queue at once, also under valid leases", async () => {
    const running = await queue.enqueue();
    const chat = await queue.enqueue(queue.agent, "chat");
    const cancelled = await queue.enqueue();
    await queue.scheduling.claim("worker-1", 3, LIMITS);
    await queue.scheduling.requestCancel(queue.agent, cancelled.id);
    await queue.scheduling.takeBackAll();
    const status = async ({ id }: { id: string }) => (await queue.scheduling.getRun(queue.agent, id)).status;
    expect([await status(running), await status(chat), await status(cancelled)]).toEqual([
      "queued",
      "failed",
      "cancelled",
    ]);
    expect(await queue.claimOne()).toMatchObject({ attempt: 2 });
  });
});
