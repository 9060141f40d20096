import { describe, expect, test } from "vitest";
import { newId } from "../../src/platform/ids.ts";
import { FAILED, LIMITS, MODEL_CALL, START, USAGE, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();

describe("a lost worker", () => {
  test("its run goes to another as the next attempt, with the steps there are, and the old lease is worth nothing", async () => {
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

  test("the third loss in the middle of a step fails the run with worker_lost", async () => {
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

  test("a run that had not begun a step is not given up for what others did to the worker, but neither taken up for ever", async () => {
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

  test("its run is not given up for losses while it gets on in between", async () => {
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

  test("a chat is not taken up again: its caller went with the worker", async () => {
    const { id } = await queue.enqueue(queue.agent, "chat");
    await queue.claimOne();
    await queue.expireLeases();
    await queue.scheduling.reap();
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      status: "failed",
      error: { code: "worker_lost" },
    });
  });

  test("a heartbeat keeps the lease", async () => {
    await queue.enqueue();
    const { lease } = await queue.claimOne();
    await queue.expireLeases();
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
    await queue.scheduling.reap();
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
  });

  test("a worker that is late with its heartbeat keeps its own runs, a chat too; for others they are lost", async () => {
    const runs = [await queue.enqueue(), await queue.enqueue(queue.agent, "chat")];
    const claimed = await queue.scheduling.claim("worker-1", 2, LIMITS);
    // a machine that slept, a database that was away, a clock that jumped
    await queue.expireLeases();
    await queue.scheduling.reap(runs.map(({ id }) => id));
    const leases = claimed.map(({ lease }) => lease);
    expect(await queue.scheduling.heartbeat(leases)).toEqual(["running", "running"]);
    await queue.expireLeases();
    await queue.scheduling.reap([newId()]);
    expect(await queue.scheduling.heartbeat(leases)).toEqual(["lost", "lost"]);
  });

  test("a chat handed back is cancelled: nobody is left to hear its answer", async () => {
    const { id } = await queue.enqueue(queue.agent, "chat");
    await queue.claimOne();
    await queue.scheduling.handBack("worker-1");
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({ status: "cancelled", finished_at: START });
  });

  test("a worker that ends gives back what it has, also what it was given without its knowing, and nothing of others", async () => {
    for (let run = 0; run < 3; run += 1) await queue.enqueue();
    await queue.claimOne();
    await queue.scheduling.claim("worker-1", 1, LIMITS); // the answer was lost
    const { lease } = await queue.claimOne("worker-2");
    await queue.scheduling.handBack("worker-1");
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
    const anew = await queue.scheduling.claim("worker-3", 3, LIMITS);
    expect(anew.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });

  test("one run is handed back by itself, and not under a lease that is another's by now", async () => {
    for (let run = 0; run < 2; run += 1) await queue.enqueue();
    const [one, other] = await queue.scheduling.claim("worker-1", 2, LIMITS);
    if (one === undefined || other === undefined) throw new Error("two runs were expected");
    await queue.scheduling.handBackOne("worker-1", one.lease);
    expect(await queue.scheduling.heartbeat([one.lease, other.lease])).toEqual(["lost", "running"]);
    const anew = await queue.claimOne("worker-1");
    await queue.scheduling.handBackOne("worker-1", one.lease);
    expect(anew).toMatchObject({ attempt: 1, lease: { run_id: one.lease.run_id } });
    expect(await queue.scheduling.heartbeat([anew.lease])).toEqual(["running"]);
  });

  test("a call that was out when a cancelled run lost its worker says what its intent says of that", async () => {
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

  test("it is told how many runs were given up, each once", async () => {
    const lost: number[] = [];
    queue.calls.onLost = (runs) => lost.push(runs.length);
    for (let run = 0; run < 2; run += 1) await queue.enqueue(queue.agent, "chat");
    await queue.scheduling.claim("worker-1", 2, LIMITS);
    await queue.expireLeases();
    await queue.scheduling.reap();
    await queue.scheduling.reap();
    expect(lost).toEqual([2]);
  });

  test("a run handed back is claimed again as the same attempt", async () => {
    await queue.enqueue();
    const first = await queue.claimOne();
    await queue.scheduling.handBack("worker-1");
    expect(await queue.claimOne("worker-2")).toMatchObject({ attempt: 1, lease: { epoch: first.lease.epoch + 1 } });
  });
});

describe("the time of a run", () => {
  test("goes on where a lost worker left it, and the time in the queue is not counted", async () => {
    await queue.enqueue();
    const first = await queue.claimOne();
    expect(first.elapsed_ms).toBe(0);
    // It was at work for 100 s, then its worker fell silent and the service was down for an hour.
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

describe("when all workers are known to be gone", () => {
  test("their runs are taken back at once, whatever their leases say", async () => {
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
