import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { newConfig } from "../../src/agents/definitions/agent-config.ts";
import { createEngine, type Step } from "../../src/agents/runs/engine.ts";
import { type EngineDeps, getNextIndex, suspend, type Work } from "../../src/agents/runs/run-work.ts";
import type { ClaimedRun, RunFinish, StepFinish } from "../../src/agents/runs/runs.types.ts";
import { createWorker } from "../../src/agents/runs/worker.ts";
import { USER_ROWS } from "../../src/kernel/constants.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { LIMITS, MODEL_CALL, useQueue } from "./run-queue-fixture.ts";

// A run that waits for something outside: durable, without a worker, and resumed by any node.

const queue = useQueue();
const config = newConfig({ name: "Clerk", model_id: "lab/small", run_prompt: "Send it." });
const CALL = { id: "call_1", type: "function", function: { name: "send", arguments: "{}" } };
const REQUIRES_ACTION = suspend("requires_action");

// What the runs of these tests wait for.
beforeAll(() => queue.db.query({ text: "create table question (run_id uuid primary key, answered boolean not null)" }));
/** How often each run has made its call. */
const calls = new Map<string, number>();
beforeEach(() => calls.clear());

const answeredOf = async (run_id: string) => {
  const text = "select answered from question where run_id = $1";
  return (await queue.db.query<{ answered: boolean }>({ text, values: [run_id] }))[0]?.answered;
};
const rowOf = async (run_id: string) => {
  const text = "select status, phase, worker_id, lease_until, worked_ms, attempt, epoch from run where id = $1";
  return (await queue.db.query<Record<string, unknown>>({ text, values: [run_id] }))[0];
};

async function record({ run, steps }: Work, type: "model" | "tool", name: string, finish: Partial<StepFinish>) {
  const index = getNextIndex(steps);
  const step = { index, type, name, arguments: {} };
  expect(await queue.scheduling.startStep(run.lease, step)).toBe("running");
  await queue.scheduling.finishStep(run.lease, { index, status: "succeeded", ...finish });
  const { result = null } = finish;
  steps[index] = { ...step, status: "succeeded", result, error: null, safety: null, internal: null };
  return null;
}

/** The model asks for a call, which is made once its question is answered, and then says that it is done. */
const asking: Step = async (work, action) => {
  const { run_id } = work.run.lease;
  if (action.do === "call_model") {
    const message = work.steps.length === 0 ? { content: null, tool_calls: [CALL] } : { content: "Sent." };
    return record(work, "model", "lab/small", { result: { role: "assistant", ...message } });
  }
  if (await answeredOf(run_id)) {
    calls.set(run_id, (calls.get(run_id) ?? 0) + 1);
    return record(work, "tool", "send", { result: "ok" });
  }
  return suspend("requires_action", async (tx) => {
    await tx.query({ text: "insert into question values ($1, false)", values: [run_id] });
  });
};

const control = () => ({ signal: new AbortController().signal, isDraining: () => false, onText: null });
function engineWith(step: Step) {
  const deps = { clock: { now: () => queue.now }, runs: queue.scheduling, log: createLog("silent"), newMark: newId };
  return createEngine(deps as unknown as EngineDeps, step);
}
/** Executes a claimed run until it ends, or until the worker leaves it. */
async function execute(run: ClaimedRun, step = asking) {
  const result = await engineWith(step).execute(run, config, control());
  if (result?.finish) expect(await queue.scheduling.finishRun(run.lease, result.finish)).toBe(true);
  return result?.finish ?? null;
}
async function waiting() {
  const { id } = await queue.enqueue();
  expect(await execute(await queue.claimOne())).toBeNull();
  return id;
}
const answer = (run_id: string) =>
  queue.db.transaction(async (tx) => {
    await tx.query({ text: "update question set answered = true where run_id = $1", values: [run_id] });
    return queue.scheduling.resumeRun({ user_id: queue.agent.user_id, run_id }, tx);
  });
function errorOf(finish: RunFinish | null, code: string) {
  if (finish?.status !== "failed") throw new Error("a failed run was expected");
  expect(finish.error.code).toBe(code);
  return finish.error;
}
const detail = (id: string) => queue.scheduling.getRun(queue.agent, id);

test("a step that suspends its run leaves it waiting without a worker, and after the answer another worker makes the call once", async () => {
  const id = await waiting();
  expect(await rowOf(id)).toMatchObject({ phase: "waiting", worker_id: null, lease_until: null });
  expect(await detail(id)).toMatchObject({ status: "requires_action", finished_at: null, steps_count: 1 });
  expect(await queue.scheduling.claim("worker-2", 5, LIMITS)).toEqual([]);

  expect(await answer(id)).toBe(true);
  expect(await detail(id)).toMatchObject({ status: "queued" });
  expect(await answer(id)).toBe(false);
  const resumed = await queue.claimOne("worker-2");
  expect(resumed).toMatchObject({ attempt: 1, lease: { epoch: 2 } });
  expect(await execute(resumed)).toEqual({ status: "succeeded", output: "Sent.", output_json: null });
  expect(calls.get(id)).toBe(1);
  expect((await detail(id)).steps.map(({ name }) => name)).toEqual(["lab/small", "send", "lab/small"]);
});

test("a waiting run outlives its process: recovery leaves it alone, and a new process resumes it", async () => {
  const id = await waiting();
  const before = await rowOf(id);
  await queue.scheduling.handBack("worker-1");
  await queue.reopen();
  await queue.scheduling.takeBackAll();
  await queue.expireLeases();
  await queue.scheduling.reap();
  expect(await rowOf(id)).toEqual(before);
  await answer(id);
  expect(await execute(await queue.claimOne("worker-3"))).toMatchObject({ status: "succeeded" });
  expect(calls.get(id)).toBe(1);
});

test("a worker that is lost before the run waits writes neither the question nor the wait, and the next one asks", async () => {
  const { id } = await queue.enqueue();
  const lost = await queue.claimOne();
  await queue.expireLeases();
  await queue.scheduling.reap();
  const next = await queue.claimOne("worker-2");
  const noted = vi.fn(async () => {});
  expect(await queue.scheduling.suspendRun(lost.lease, suspend("requires_action", noted))).toBe("lost");
  expect(noted).not.toHaveBeenCalled();
  expect(await execute(next)).toBeNull();
  expect(await rowOf(id)).toMatchObject({ status: "requires_action", attempt: 2 });
});

test("a question that cannot be stored leaves the run at work, so that no run waits for a question that nobody has", async () => {
  const { id } = await queue.enqueue();
  const { lease } = await queue.claimOne();
  const failing = suspend("requires_action", () => Promise.reject(new Error("no room")));
  await expect(queue.scheduling.suspendRun(lease, failing)).rejects.toThrow("no room");
  expect(await rowOf(id)).toMatchObject({ status: "running", worker_id: "worker-1" });
  expect(await queue.scheduling.heartbeat([lease])).toEqual(["running"]);
});

test("the time for which a run waits does not count as its execution time", async () => {
  const { id } = await queue.enqueue();
  const { lease } = await queue.claimOne();
  await queue.db.query({ text: "update run set claimed_at = claimed_at - interval '40 seconds'" });
  await queue.scheduling.suspendRun(lease, REQUIRES_ACTION);
  const worked_ms = Number((await rowOf(id))?.worked_ms);
  expect(worked_ms).toBeGreaterThanOrEqual(40_000);
  await queue.db.query({ text: "update run set claimed_at = claimed_at - interval '1 day'" });
  await queue.scheduling.resumeRun(lease);
  expect((await queue.claimOne("worker-2")).elapsed_ms).toBe(worked_ms);
});

test("a cancel ends a waiting run at once, with an open step, and it cannot be resumed", async () => {
  const { id } = await queue.enqueue();
  const { lease } = await queue.claimOne();
  await queue.scheduling.startStep(lease, MODEL_CALL);
  await queue.scheduling.suspendRun(lease, REQUIRES_ACTION);
  const cancelled = vi.spyOn(queue.calls, "onCancelled");
  expect(await queue.scheduling.requestCancel(queue.agent, id)).toMatchObject({ status: "cancelled" });
  expect(cancelled).toHaveBeenCalledWith(expect.objectContaining({ run_id: id }));
  expect(await detail(id)).toMatchObject({ finished_at: queue.now, steps: [{ status: "cancelled" }] });
  expect(await queue.scheduling.resumeRun(lease)).toBe(false);
});

test("a run that is cancelled while its step asks ends cancelled and asks nothing", async () => {
  const { id } = await queue.enqueue();
  const run = await queue.claimOne();
  const finish = await execute(run, async (work, action) => {
    const result = await asking(work, action);
    if (result !== null) await queue.scheduling.requestCancel(queue.agent, id);
    return result;
  });
  expect(finish).toEqual({ status: "cancelled" });
  expect(await answeredOf(id)).toBeUndefined();
  expect((await detail(id)).status).toBe("cancelled");
});

test("a disabled agent, a revoked key and an erased user end their waiting runs", async () => {
  const api_key_id = newId();
  const { user_id } = queue.agent;
  const suspendedRun = async () => {
    const { id } = await queue.scheduling.start({ ...queue.agent, engine_input: { api_key_id } });
    await queue.scheduling.suspendRun((await queue.claimOne()).lease, REQUIRES_ACTION);
    return id;
  };
  const disabled = await suspendedRun();
  await queue.db.transaction((tx) => queue.scheduling.cancelIdle(tx, queue.agent));
  const revoked = await suspendedRun();
  await queue.db.transaction((tx) => queue.scheduling.cancelOfKey(tx, user_id, api_key_id));
  for (const id of [disabled, revoked]) expect((await detail(id)).status).toBe("cancelled");
  await suspendedRun();
  await queue.db.transaction((tx) => queue.scheduling.forgetUser(tx, user_id));
  expect(await queue.db.query({ text: "select from run" })).toEqual([]);
});

test("a waiting run keeps its schedule busy and its version, but the settable clock and the queue's figures do not count it", async () => {
  const { scheduling, agent } = queue;
  const id = await waiting();
  await queue.db.transaction(async (tx) => {
    const schedule = { ...agent, schedule_id: newId(), with_run_nows: true };
    expect(await scheduling.busySchedules(tx, [schedule])).toEqual(new Map([[schedule.schedule_id, id]]));
    expect(await scheduling.pinnedVersions(tx, agent)).toEqual([1]);
  });
  expect(await scheduling.untilIdle(0)).toBe("idle");
  expect(await scheduling.queueFigures()).toEqual({ queued: 0, oldest_ms: 0 });
  const page = { limit: 5, before_id: null };
  expect(await scheduling.listRuns(agent, { status: "requires_action" }, page)).toMatchObject([{ id }]);
  queue.now = "2026-03-02T09:00:00.000Z";
  await answer(id);
  expect(await scheduling.untilIdle(0)).toBe("busy");
  expect(await scheduling.queueFigures()).toEqual({ queued: 1, oldest_ms: 0 });
});

test("a chat that has waited has no caller: it is handed back and outlives a lost worker, unlike one whose caller waits", async () => {
  const beginChat = async () => {
    const { id } = await queue.enqueue(queue.agent, "chat");
    return { id, run: await queue.claimOne() };
  };
  const { id, run } = await beginChat();
  expect(run.has_caller).toBe(true);
  expect(await execute(run)).toBeNull();
  await answer(id);
  const resumed = await queue.claimOne();
  expect(resumed.has_caller).toBe(false);
  await queue.scheduling.handBack("worker-1");
  expect(await detail(id)).toMatchObject({ status: "queued" });
  await queue.claimOne();
  await queue.expireLeases();
  await queue.scheduling.reap();
  expect(await detail(id)).toMatchObject({ status: "queued", attempt: 2 });
  expect(await execute(await queue.claimOne("worker-2"))).toMatchObject({ status: "succeeded" });
  expect(calls.get(id)).toBe(1);

  const attended = await beginChat();
  await queue.scheduling.handBack("worker-1");
  expect(await detail(attended.id)).toMatchObject({ status: "cancelled" });
});

test("a chat that was begun without a caller is claimed and handed back like any run", async () => {
  const { id } = await queue.scheduling.start({ ...queue.agent, trigger: "chat", engine_input: {}, is_detached: true });
  expect(await queue.claimOne()).toMatchObject({ has_caller: false });
  await queue.scheduling.handBack("worker-1");
  expect(await detail(id)).toMatchObject({ status: "queued" });
});

test("a hundred waiting runs take no place: as many others run beside them as without them", async () => {
  for (let nth = 0; nth < 100; nth += 1) await queue.enqueue();
  for (let left = 100; left > 0; ) {
    const claimed = await queue.scheduling.claim("worker-1", 50, LIMITS);
    await Promise.all(claimed.map(({ lease }) => queue.scheduling.suspendRun(lease, REQUIRES_ACTION)));
    left -= claimed.length;
  }
  const leased = "select from run where lease_until is not null or worker_id is not null";
  expect(await queue.db.query({ text: leased })).toEqual([]);
  for (let nth = 0; nth < 12; nth += 1) await queue.enqueue();
  expect(await queue.scheduling.claim("worker-1", 50, LIMITS)).toHaveLength(LIMITS.concurrent_runs_per_user);
});

test("a run that would wait beside 1,000 others of its user fails and says what to do, and another user's run waits", async () => {
  const waits = await waiting();
  await queue.db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, engine_input, priority)
      select user_id, gen_random_uuid(), agent_id, agent_version, trigger, status, queued_at, engine_input, priority
      from run cross join generate_series(2, $2) where id = $1`,
    values: [waits, USER_ROWS.waiting_runs],
  });
  await queue.enqueue();
  const { message } = errorOf(await execute(await queue.claimOne()), "too_many_waiting");
  expect(message).toContain("Decide or cancel some");
  await queue.enqueue({ user_id: newId(), agent_id: newId() });
  expect(await execute(await queue.claimOne())).toBeNull();
  await answer(waits);
  expect(await execute(await queue.claimOne())).toMatchObject({ status: "succeeded" });
  await queue.enqueue();
  expect(await execute(await queue.claimOne())).toBeNull();
});

test("a running worker takes the place of a run that waits for the next one, and goes on with the first after the answer", async () => {
  const worker = createWorker({
    worker_id: "worker-1",
    runs: queue.scheduling,
    limits: () => ({ concurrent_runs: 1, concurrent_runs_per_user: 1 }),
    reserved_only: false,
    drain_seconds: 1,
    isAwaited: () => false,
    log: createLog("silent"),
    carryOut: async (run) => void (await execute(run)),
    inProgress: () => {},
  });
  const ids = [(await queue.enqueue()).id, (await queue.enqueue()).id];
  const statuses = async () => Promise.all(ids.map(async (id) => (await detail(id)).status));
  await worker.start();
  await expect.poll(statuses).toEqual(["requires_action", "requires_action"]);
  for (const id of ids) await answer(id);
  await expect.poll(statuses).toEqual(["succeeded", "succeeded"]);
  await worker.stop();
  expect([...calls.values()]).toEqual([1, 1]);
});
