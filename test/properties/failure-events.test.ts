import { beforeEach, describe, expect, test } from "vitest";
import type { RunFailed } from "../../src/agents/runs/runs.types.ts";
import type { SchedulePaused } from "../../src/agents/schedules/schedules.service.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createScheduling } from "../support/scheduling.ts";
import { FAILED, MODEL_CALL, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();
let notified: (RunFailed | SchedulePaused)[];
let fails: boolean;
beforeEach(() => {
  notified = [];
  fails = false;
  queue.calls.notify = async (event) => {
    if (fails) throw new Error("no notice");
    notified.push(event);
  };
});

describe("a run that fails", () => {
  test("is reported once, in the transaction that ends it", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    fails = true;
    await expect(queue.scheduling.finishRun(lease, FAILED)).rejects.toThrow("no notice");
    expect((await queue.scheduling.getRun(queue.agent, id)).status).toBe("running");
    fails = false;
    expect(await queue.scheduling.finishRun(lease, FAILED)).toBe(true);
    expect(await queue.scheduling.finishRun(lease, FAILED)).toBe(false);
    expect(notified).toEqual([{ ...queue.agent, run_id: id, trigger: "manual", error: FAILED.error }]);
  });

  test("because its workers were lost is reported too, but not before the last attempt", async () => {
    const { id } = await queue.enqueue();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      expect(notified).toEqual([]);
      const { lease } = await queue.claimOne(`worker-${attempt}`);
      await queue.scheduling.startStep(lease, MODEL_CALL);
      await queue.expireLeases();
      await queue.scheduling.reap();
    }
    expect(notified).toMatchObject([{ run_id: id, error: { code: "worker_lost" } }]);
  });

  test("while it is being cancelled ends cancelled and is not reported; a run that succeeds is not reported either", async () => {
    const { id } = await queue.enqueue();
    const cancelled = await queue.claimOne();
    await queue.scheduling.requestCancel(queue.agent, id);
    await queue.scheduling.finishRun(cancelled.lease, FAILED);
    await queue.enqueue();
    const good = await queue.claimOne();
    await queue.scheduling.finishRun(good.lease, { status: "succeeded", output: "done" });
    expect(notified).toEqual([]);
  });
});

describe("the end of a run", () => {
  test("is reported with its outcome, in the transaction that ends it, once for each run", async () => {
    const ends: unknown[] = [];
    let dies = false;
    const scheduling = createScheduling({
      db: queue.db,
      clock: { now: () => queue.now },
      onRunEnd: async () => async (ended) => {
        if (dies) throw new Error("the process died");
        ends.push(...ended);
      },
    });
    const ended = (run: { id: string }, status: string, error: unknown = null, failed_steps = 0) => ({
      ...queue.agent,
      run_id: run.id,
      trigger: "manual",
      status,
      error,
      failed_steps,
      failed_calls: 0,
      schedule_id: null,
      due_input: null,
    });
    const good = await queue.enqueue();
    const first = await queue.claimOne();
    dies = true;
    await expect(scheduling.finishRun(first.lease, { status: "succeeded", output: "" })).rejects.toThrow("died");
    expect((await scheduling.getRun(queue.agent, good.id)).status).toBe("running");
    dies = false;
    await scheduling.finishRun(first.lease, { status: "succeeded", output: "" });
    await scheduling.finishRun(first.lease, { status: "succeeded", output: "" });

    const lost = await queue.enqueue();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const { lease } = await queue.claimOne(`worker-${attempt}`);
      await scheduling.startStep(lease, MODEL_CALL);
      await queue.expireLeases();
      dies = attempt === 3;
      if (dies) await expect(scheduling.reap()).rejects.toThrow("died");
      dies = false;
      await scheduling.reap();
    }
    await scheduling.reap();
    const worker_lost = expect.objectContaining({ code: "worker_lost" });
    expect(ends).toEqual([ended(good, "succeeded"), ended(lost, "failed", worker_lost, 1)]);
  });
});

describe("a schedule that is paused", () => {
  const DAILY = { interval: "daily", times: ["09:00"], timezone: "UTC" } as const;

  test("is reported once, not again while it is paused, and again after it was resumed", async () => {
    const agent = { user_id: newId(), agent_id: newId() };
    await queue.db.transaction((tx) => queue.scheduling.setSchedule(tx, agent, DAILY));
    await queue.scheduling.pauseSchedule(agent, "first");
    await queue.scheduling.pauseSchedule(agent, "second");
    await queue.scheduling.pauseSchedule(agent, null);
    await queue.scheduling.pauseSchedule(agent, "third");
    const schedule = { schedule_id: expect.any(String), schedule_name: "default" };
    expect(notified).toEqual([
      { ...agent, ...schedule, reason: "first" },
      { ...agent, ...schedule, reason: "third" },
    ]);
  });

  test("is not reported if it was not active", async () => {
    const agent = { user_id: newId(), agent_id: newId() };
    await queue.scheduling.pauseSchedule(agent, "no schedule");
    await queue.db.transaction((tx) => queue.scheduling.setSchedule(tx, agent, DAILY));
    await queue.db.transaction((tx) => queue.scheduling.setSchedule(tx, agent, null));
    await queue.scheduling.pauseSchedule(agent, "turned off");
    expect(notified).toEqual([]);
  });
});
