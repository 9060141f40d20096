import { expect, test } from "vitest";
import { createWorker } from "../../src/agents/runs/worker.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createScheduling } from "../support/scheduling.ts";
import { LIMITS, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();

/** A node whose connection breaks after the database has executed a statement and before its answer. `for_good`: the database stays away. */
const node = ({ for_good = false } = {}) => {
  const lost = { answers: 0 };
  const losing = async <T>(work: Promise<T>, isConcerned: (answer: T) => boolean = () => true): Promise<T> => {
    const answer = await work;
    if (lost.answers === 0 || !isConcerned(answer)) return answer;
    lost.answers -= 1;
    throw Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNRESET" });
  };
  const db: Db = {
    ...queue.db,
    transaction: (work) => losing(queue.db.transaction(work)),
    query: (statement) =>
      losing(
        queue.db.query(statement),
        (rows) => ["run_begin", "run_claim"].includes(statement.name ?? "") && rows.length > 0,
      ),
  };
  const scheduling = createScheduling({ db, clock: { now: () => queue.now } });
  const reclaim = for_good ? () => Promise.reject(new Error("Connection terminated")) : scheduling.reclaim;
  const worker = createWorker({
    worker_id: newId(),
    runs: { ...scheduling, reclaim },
    limits: () => LIMITS,
    reserved_only: false,
    drain_seconds: 120,
    isAwaited: () => false,
    log: createLog("silent"),
    carryOut: async ({ lease }) => {
      await scheduling.finishRun(lease, { status: "succeeded", output: `claim ${lease.epoch}` });
    },
    inProgress: () => {},
  });
  return { lost, scheduling, worker };
};
/** Long before a lease ends. */
const ends = (id: string) => expect.poll(async () => (await queue.scheduling.getRun(queue.agent, id)).output);

test("a run-now whose queueing got no answer is begun by the worker that holds it, before its lease ends", async () => {
  const { lost, scheduling, worker } = node();
  await worker.start();
  lost.answers = 1;
  await expect(scheduling.start(queue.agent)).rejects.toThrow("Connection terminated");
  const [run] = await queue.scheduling.listRuns(queue.agent, {}, { limit: 2, before_id: null });
  await ends(run?.id ?? "").toBe("claim 2");
  await worker.stop();
});

test("a run whose claim got no answer is begun by the worker that holds it", async () => {
  const { lost, worker } = node();
  const { id } = await queue.enqueue();
  lost.answers = 1;
  await worker.start();
  await ends(id).toBe("claim 2");
  await worker.stop();
});

test("a worker that is stopped after a claim without an answer returns the run, so that others begin it at once", async () => {
  const { lost, worker } = node({ for_good: true });
  const { id } = await queue.enqueue();
  lost.answers = 1;
  await worker.start(); // claims, and gets no answer
  await worker.stop();
  expect(await queue.claimOne("worker-2")).toMatchObject({ attempt: 1, lease: { run_id: id } });
});
