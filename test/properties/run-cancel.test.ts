import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { FAILED, LIMITS, MODEL_CALL, START, USAGE, useQueue } from "./run-queue-fixture.ts";

const UNKNOWN_ID = "00000000-0000-7000-8000-000000000000";
const queue = useQueue();

describe("cancelling", () => {
  test("a queued run is cancelled at once", async () => {
    const { id } = await queue.enqueue();
    expect(await queue.scheduling.requestCancel(queue.agent, id)).toMatchObject({
      status: "cancelled",
      finished_at: START,
    });
    expect(await queue.scheduling.claim("worker-1", 1, LIMITS)).toEqual([]);
  });

  test("a claimed run is cancelling until its worker has stopped, begins no further step, and ends cancelled", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    expect(await queue.scheduling.requestCancel(queue.agent, id)).toMatchObject({
      status: "cancelling",
      finished_at: null,
    });
    expect(await queue.scheduling.requestCancel(queue.agent, id)).toMatchObject({ status: "cancelling" });
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["cancelling"]);
    expect(await queue.scheduling.startStep(lease, MODEL_CALL)).toBe("cancelling");
    expect(await queue.scheduling.finishRun(lease, { status: "succeeded", output: "part" })).toBe(true);
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      status: "cancelled",
      output: "part",
      steps: [],
    });
  });

  test("keeps the usage up to then", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    await queue.scheduling.startStep(lease, MODEL_CALL);
    await queue.scheduling.requestCancel(queue.agent, id);
    expect(await queue.scheduling.finishStep(lease, { index: 0, status: "cancelled", usage: USAGE })).toBe(true);
    await queue.scheduling.finishRun(lease, { status: "cancelled" });
    expect((await queue.scheduling.getRun(queue.agent, id)).usage.cost_tokens).toBe(9);
  });

  test("ends a cancelling run, and reports it once, if its worker is lost or returns it", async () => {
    for (const leave of [
      () => queue.expireLeases().then(() => queue.scheduling.reap()),
      () => queue.scheduling.handBack("worker-1"),
    ]) {
      const { id } = await queue.enqueue();
      await queue.claimOne();
      const reported: string[] = [];
      queue.calls.onCancelled = ({ run_id }) => reported.push(run_id);
      await queue.scheduling.requestCancel(queue.agent, id);
      await leave();
      expect(reported).toEqual([id]);
      expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
        status: "cancelled",
        finished_at: START,
        error: null,
      });
    }
  });

  test("a cancellation that is rolled back is not reported", async () => {
    const { id } = await queue.enqueue();
    const reported: string[] = [];
    queue.calls.onCancelled = ({ run_id }) => reported.push(run_id);
    const undone = queue.db.transaction(async (tx) => {
      await queue.scheduling.cancelAgent(tx, queue.agent);
      throw new Error("undone");
    });
    await expect(undone).rejects.toThrow("undone");
    expect(reported).toEqual([]);
    await queue.db.transaction((tx) => queue.scheduling.cancelAgent(tx, queue.agent));
    expect(reported).toEqual([id]);
  });

  test("disabling the agent cancels its runs that no worker executes", async () => {
    const at_work = await queue.enqueue();
    await queue.claimOne();
    const queued = await queue.enqueue();
    const others = await queue.enqueue({ ...queue.agent, agent_id: newId() });
    await queue.db.transaction((tx) => queue.scheduling.cancelIdle(tx, queue.agent));
    const status = async (run: { id: string; agent_id: string }) =>
      (await queue.scheduling.getRun({ ...queue.agent, agent_id: run.agent_id }, run.id)).status;
    expect([await status(at_work), await status(queued), await status(others)]).toEqual([
      "running",
      "cancelled",
      "queued",
    ]);
  });

  test("deleting the agent cancels its runs", async () => {
    const queued = await queue.enqueue();
    await queue.db.transaction((tx) => queue.scheduling.forgetAgent(tx, queue.agent));
    expect((await queue.scheduling.getRun(queue.agent, queued.id)).status).toBe("cancelled");
  });

  test("a run that is cancelled in the queue, after its worker was lost, has no open step", async () => {
    const { id } = await queue.enqueue();
    await queue.scheduling.startStep((await queue.claimOne()).lease, MODEL_CALL);
    await queue.expireLeases();
    await queue.scheduling.reap();
    expect(await queue.scheduling.requestCancel(queue.agent, id)).toMatchObject({ status: "cancelled" });
    const { steps } = await queue.scheduling.getRun(queue.agent, id);
    expect(steps).toMatchObject([{ status: "cancelled", finished_at: queue.now }]);
  });

  test.each(["not-a-uuid", UNKNOWN_ID])("a run %s does not exist", async (id) => {
    await expect(queue.scheduling.requestCancel(queue.agent, id)).rejects.toMatchObject({ code: "not_found" });
    await expect(queue.scheduling.getRun(queue.agent, id)).rejects.toMatchObject({ code: "not_found" });
  });

  test("another user's or another agent's run does not exist", async () => {
    const { id } = await queue.enqueue();
    for (const other of [
      { ...queue.agent, user_id: newId() },
      { ...queue.agent, agent_id: newId() },
    ]) {
      await expect(queue.scheduling.requestCancel(other, id)).rejects.toMatchObject({ code: "not_found" });
      await expect(queue.scheduling.getRun(other, id)).rejects.toMatchObject({ code: "not_found" });
    }
    expect((await queue.scheduling.getRun(queue.agent, id)).status).toBe("queued");
  });
});

describe("listing", () => {
  test("returns runs newest first, page by page and filtered", async () => {
    const first = await queue.enqueue();
    queue.now = "2026-03-01T10:00:00.000Z";
    const second = await queue.enqueue(queue.agent, "chat");
    queue.now = "2026-03-01T11:00:00.000Z";
    const third = await queue.enqueue();
    await queue.scheduling.requestCancel(queue.agent, third.id);
    const ids = async (filter: object, before_id: string | null = null) =>
      (await queue.scheduling.listRuns(queue.agent, filter, { limit: 2, before_id })).map(({ id }) => id);
    expect(await ids({})).toEqual([third.id, second.id]);
    expect(await ids({}, second.id)).toEqual([first.id]);
    expect(await ids({ status: "queued" })).toEqual([second.id, first.id]);
    expect(await ids({ trigger: "chat" })).toEqual([second.id]);
    expect(await ids({ from: second.queued_at, to: third.queued_at })).toEqual([second.id]);
    const last = await queue.scheduling.lastRuns(queue.agent.user_id, [queue.agent.agent_id, newId()]);
    expect([...last].map(([agent_id, { id }]) => [agent_id, id])).toEqual([[queue.agent.agent_id, third.id]]);
  });
});

describe("waiting", () => {
  test("for a run ends when it finishes, and at once when it already has", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    const waiting = queue.scheduling.waitFinished(queue.agent.user_id, id, 30_000);
    await queue.scheduling.finishRun(lease, FAILED);
    expect(await waiting).toBe(true);
    expect(await queue.scheduling.waitFinished(queue.agent.user_id, id, 0)).toBe(true);
  });

  test("for a run ends after the timeout", async () => {
    const { id } = await queue.enqueue();
    expect(await queue.scheduling.waitFinished(queue.agent.user_id, id, 20)).toBe(false);
  });

  test("for idleness ends when the last run has finished", async () => {
    const { id } = await queue.enqueue();
    expect(await queue.scheduling.untilIdle(20)).toBe("busy");
    expect(await queue.scheduling.untilIdle(30_000, 20)).toBe("unattended");
    const waiting = queue.scheduling.untilIdle(30_000);
    await queue.scheduling.requestCancel(queue.agent, id);
    expect(await waiting).toBe("idle");
  });

  test("a worker learns within 2 s that it must stop a run, although the notification was lost", {
    retry: 2,
  }, async () => {
    const { id } = await queue.enqueue();
    await queue.claimOne();
    await queue.scheduling.requestCancel(queue.agent, id);
    const notified = Promise.withResolvers<string>();
    const since_ms = performance.now();
    const stop = await queue.scheduling.watch({
      offer: () => null,
      queued: () => {},
      freed: () => {},
      cancelling: notified.resolve,
    });
    expect(await notified.promise).toBe(id);
    expect(performance.now() - since_ms).toBeLessThan(2_000);
    await stop();
  });

  test("a worker is notified of queued, cancelling and finished runs", async () => {
    const notified: string[] = [];
    const stop = await queue.scheduling.watch({
      offer: () => null,
      queued: () => notified.push("queued"),
      freed: () => notified.push("freed"),
      cancelling: (run_id) => notified.push(run_id),
    });
    const until = async (news: string) => {
      while (notified.at(-1) !== news) await setTimeout(5);
    };
    const { id } = await queue.enqueue();
    await until("queued");
    const { lease } = await queue.claimOne();
    await queue.scheduling.requestCancel(queue.agent, id);
    await until(id);
    await queue.scheduling.finishRun(lease, { status: "cancelled" });
    await until("freed");
    // A notification may come twice.
    expect(notified.filter((news, index) => news !== notified[index - 1])).toEqual(["queued", id, "freed"]);
    await stop();
  });
});
