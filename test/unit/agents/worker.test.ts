import { expect, test } from "vitest";
import { createWorker, type WorkControl } from "../../../src/agents/worker.ts";
import type { ClaimedRun } from "../../../src/scheduling/scheduling.types.ts";

type Deps = Parameters<typeof createWorker>[0];
type Signals = Parameters<Deps["scheduling"]["watch"]>[0];

// No database: what a stalled worker may see is put together here.

test("a run claimed anew by the worker that had lost it stops the old attempt, and can itself be cancelled after that has ended", async () => {
  const attempts: { control: WorkControl; end(): void }[] = [];
  let signals: Signals | undefined;
  const deps = {
    scheduling: {
      watch: async (given: Signals) => {
        signals = given;
        return async () => {};
      },
      claim: async () => [],
      reap: async () => {},
      heartbeat: async () => [],
      handBack: async () => {},
      handBackOne: async () => {},
      endWaits: () => {},
    },
    limits: { concurrent_runs: 4, concurrent_runs_per_user: 4 },
    chats_only: false,
    isAwaited: () => false,
    log: { error: () => {} },
    carryOut: (_run: ClaimedRun, control: WorkControl) =>
      new Promise<void>((resolve) => attempts.push({ control, end: resolve })),
    inProgress: () => {},
  };
  const worker = createWorker(deps as unknown as Deps);
  await worker.start();
  const claimed = (epoch: number) => ({ lease: { run_id: "r", epoch } }) as ClaimedRun;
  signals?.offer()?.begin([claimed(1)]);
  signals?.offer()?.begin([claimed(2)]);
  const [old, anew] = attempts;
  expect(old?.control.signal.reason).toBe("lost");
  expect(anew?.control.signal.aborted).toBe(false);

  old?.end();
  await new Promise(setImmediate);
  signals?.cancelling("r");
  expect(anew?.control.signal.reason).toBe("cancelling");
  anew?.end();
  await worker.stop();
});

test("a worker that stops hands each run back as soon as it is left, not when the slowest is", async () => {
  const ends: (() => void)[] = [];
  const handed_back: string[] = [];
  let signals: Signals | undefined;
  const deps = {
    scheduling: {
      watch: async (given: Signals) => {
        signals = given;
        return async () => {};
      },
      claim: async () => [],
      reap: async () => {},
      heartbeat: async () => [],
      handBack: async () => void handed_back.push("what is left"),
      handBackOne: async (_worker_id: string, { run_id }: { run_id: string }) => void handed_back.push(run_id),
      endWaits: () => {},
    },
    limits: { concurrent_runs: 4, concurrent_runs_per_user: 4 },
    chats_only: false,
    isAwaited: () => false,
    log: { error: () => {} },
    carryOut: () => new Promise<void>((resolve) => ends.push(resolve)),
    inProgress: () => {},
  };
  const worker = createWorker(deps as unknown as Deps);
  await worker.start();
  const claimed = (run_id: string) => ({ lease: { run_id, epoch: 1 } }) as ClaimedRun;
  signals?.offer()?.begin([claimed("done before"), claimed("quick"), claimed("slow")]);
  const [done, quick, slow] = ends;
  done?.();
  await new Promise(setImmediate);
  const stopped = worker.stop();
  quick?.();
  await new Promise(setImmediate);
  expect(handed_back).toEqual(["quick"]);
  slow?.();
  await stopped;
  expect(handed_back).toEqual(["quick", "slow", "what is left"]);
});
