import { afterEach, expect, test, vi } from "vitest";
import type { ClaimedRun } from "../../../src/agents/runs/runs.types.ts";
import { createWorker, type WorkControl } from "../../../src/agents/runs/worker.ts";

type Deps = Parameters<typeof createWorker>[0];
type Signals = Parameters<Deps["runs"]["watch"]>[0];

afterEach(() => {
  vi.useRealTimers();
});

// There is no database here. The test creates the states that a stalled worker may see.

/** A worker with its running `attempts`, and the signals that it gets. */
async function started(own: Partial<Deps["runs"]> = {}) {
  const attempts: { control: WorkControl; end(): void }[] = [];
  const signals_seen: { signals?: Signals; errors: string[]; waits_ended: boolean } = {
    errors: [],
    waits_ended: false,
  };
  const deps = {
    worker_id: "w",
    runs: {
      watch: async (given: Signals) => {
        signals_seen.signals = given;
        return async () => {};
      },
      claim: async () => [],
      hasQueued: async () => false,
      reap: async () => {},
      heartbeat: async () => [],
      handBack: async () => {},
      handBackOne: async () => {},
      endWaits: () => {
        signals_seen.waits_ended = true;
      },
      ...own,
    },
    limits: () => ({ concurrent_runs: 4, concurrent_runs_per_user: 4 }),
    reserved_only: false,
    drain_seconds: 120,
    isAwaited: () => false,
    log: { error: (_: object, message: string) => signals_seen.errors.push(message) },
    carryOut: (_run: ClaimedRun, control: WorkControl) =>
      new Promise<void>((resolve) => attempts.push({ control, end: resolve })),
    inProgress: () => {},
  };
  const worker = createWorker(deps as unknown as Deps);
  await worker.start();
  return { worker, attempts, signals_seen };
}

test("a run that its worker lost and claims again stops the old attempt, and can be cancelled after that has ended", async () => {
  const { worker, attempts, signals_seen } = await started();
  const claimed = (epoch: number) => ({ lease: { run_id: "r", epoch } }) as ClaimedRun;
  signals_seen.signals?.offer()?.begin([claimed(1)]);
  signals_seen.signals?.offer()?.begin([claimed(2)]);
  const [old, anew] = attempts;
  expect(old?.control.signal.reason).toBe("lost");
  expect(anew?.control.signal.aborted).toBe(false);

  old?.end();
  await new Promise(setImmediate);
  signals_seen.signals?.cancelling("r");
  expect(anew?.control.signal.reason).toBe("cancelling");
  anew?.end();
  await worker.stop();
});

test("a claimed run that the worker gets a second time is executed once", async () => {
  const { worker, attempts, signals_seen } = await started();
  const claimed = { lease: { run_id: "r", epoch: 1 } } as ClaimedRun;
  signals_seen.signals?.offer()?.begin([claimed]);
  signals_seen.signals?.offer()?.begin([claimed]);
  expect(attempts.map(({ control }) => control.signal.aborted)).toEqual([false]);
  attempts[0]?.end();
  await worker.stop();
});

test("a worker that stops returns each run as soon as its execution ends, without waiting for the slowest", async () => {
  const handed_back: string[] = [];
  const { worker, attempts, signals_seen } = await started({
    handBack: async () => void handed_back.push("what is left"),
    handBackOne: async (_worker_id: string, { run_id }: { run_id: string }) => void handed_back.push(run_id),
  });
  const claimed = (run_id: string) => ({ lease: { run_id, epoch: 1 } }) as ClaimedRun;
  signals_seen.signals?.offer()?.begin([claimed("done before"), claimed("quick"), claimed("slow")]);
  const [done, quick, slow] = attempts;
  done?.end();
  await new Promise(setImmediate);
  const stopped = worker.stop();
  quick?.end();
  await new Promise(setImmediate);
  expect(handed_back).toEqual(["quick"]);
  slow?.end();
  await stopped;
  expect(handed_back).toEqual(["quick", "slow", "what is left"]);
});

test("a worker that stops waits for the answer of its claim, and returns the runs in it after their execution", async () => {
  const handed_back: string[] = [];
  const answer = Promise.withResolvers<ClaimedRun[]>();
  const { worker, attempts } = await started({
    claim: () => answer.promise,
    handBack: async () => void handed_back.push("what is left"),
    handBackOne: async (_worker_id: string, { run_id }: { run_id: string }) => void handed_back.push(run_id),
  });
  const stopped = worker.stop();
  answer.resolve([{ lease: { run_id: "claimed", epoch: 1 } } as ClaimedRun]);
  await new Promise(setImmediate);
  expect(handed_back).toEqual([]);
  attempts[0]?.end();
  await stopped;
  expect(handed_back).toEqual(["claimed", "what is left"]);
});

test("a worker also stops while the database is away, and open settles continue", async () => {
  const { worker, signals_seen } = await started({ handBack: () => Promise.reject(new Error("connect ECONNREFUSED")) });
  await worker.stop();
  expect(signals_seen).toMatchObject({ waits_ended: true, errors: [expect.stringContaining("not given back")] });
});

test("the worker claims after the end of a run only if runs may be queued", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let claims = 0;
  let has_queued = false;
  const { worker, attempts, signals_seen } = await started({
    claim: async () => {
      claims += 1;
      return [];
    },
    hasQueued: async () => has_queued,
  });
  /** The claims after the end of a run. */
  const claimsAfterEnd = async () => {
    const before = claims;
    signals_seen.signals?.offer()?.begin([{ lease: { run_id: "r", epoch: 1 } } as ClaimedRun]);
    attempts.at(-1)?.end();
    await vi.advanceTimersByTimeAsync(100);
    return claims - before;
  };
  await vi.advanceTimersByTimeAsync(0);
  expect(await claimsAfterEnd()).toBe(0);

  // Another node has queued a run beyond a limit. The end of a run here may allow it to begin.
  has_queued = true;
  signals_seen.signals?.queued();
  await vi.advanceTimersByTimeAsync(0);
  expect(await claimsAfterEnd()).toBe(1);
  expect(await claimsAfterEnd()).toBe(1);

  has_queued = false;
  expect(await claimsAfterEnd()).toBe(1);
  expect(await claimsAfterEnd()).toBe(0);
  await worker.stop();
});
