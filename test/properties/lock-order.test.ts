import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { applyOperations, type Operation } from "../../src/account/ledger/ledger.store.ts";
import { APPLY_WITH_STEPS } from "../../src/agents/definitions/agents.store.ts";
import {
  cancelRuns,
  finishRuns,
  finishStepArgument,
  handBackRuns,
  startSteps,
} from "../../src/agents/runs/run.store.ts";
import type { ClaimedRun } from "../../src/agents/runs/runs.types.ts";
import type { Db, Sql } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { waitingForLocks } from "../support/postgres-server.ts";
import { createScheduling } from "../support/scheduling.ts";
import { createLedgerFixture, settleOf } from "./ledger-fixture.ts";
import { LIMITS, MODEL_CALL } from "./run-queue-fixture.ts";

const NOW = "2026-03-01T09:00:00.000Z";

describe.skipIf(inject("storage").kind === "embedded")("concurrent writers of the same runs", () => {
  let database: TestDatabase;
  let db: Db;
  beforeAll(async () => {
    database = await createTestDatabase();
    db = await database.open();
  });
  afterAll(async () => {
    await db.close();
    await database.drop();
  });

  const connect = async () => {
    const client = new pg.Client(database.database_url ?? "");
    await client.connect();
    return client;
  };
  const waiting = async () => (await waitingForLocks(database.database_url ?? "")).length;
  const locksAwaited = (count: number) => expect.poll(waiting, { interval: 10 }).toBe(count);

  /** Three runs of one user, at work and ordered by id. Each makes a model call with a hold. */
  const threeRuns = async () => {
    await db.query({ text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change" }); // left by an earlier test
    const { ledger, account, hold } = createLedgerFixture(db);
    const scheduling = createScheduling({ db, clock: { now: () => NOW } });
    const user_id = await account(1_000);
    const agent = { user_id, agent_id: newId() };
    for (let run = 0; run < 3; run += 1) {
      await scheduling.start(agent);
    }
    const runs = await scheduling.claim("worker", 3, LIMITS);
    runs.sort((one, other) => (one.lease.run_id < other.lease.run_id ? -1 : 1));
    const settles: Operation[] = [];
    for (const { lease } of runs) {
      await scheduling.startStep(lease, MODEL_CALL);
      const held = (await hold(user_id, 10, { run_id: lease.run_id })) as { hold_id: string };
      const step = { index: 0, status: "succeeded" as const };
      const hook = { kind: "finish_step", argument: finishStepArgument(lease, step, NOW) };
      const charge = settleOf(user_id, held.hold_id, 4, { run_id: lease.run_id });
      settles.push({ kind: "settle", ...charge, hook });
    }
    return { ledger, user_id, runs, settles };
  };
  type Scene = Awaited<ReturnType<typeof threeRuns>>;
  const leases = (runs: ClaimedRun[]) => runs.map(({ lease }) => lease).reverse();

  const writers: Record<string, (sql: Sql, scene: Scene) => Promise<unknown>> = {
    "a batch of settles": (sql, { settles }) => applyOperations(sql, settles.toReversed(), NOW, APPLY_WITH_STEPS),
    "the end of all runs of a user": (sql, { user_id }) => cancelRuns(sql, { user_id }, NOW),
    "a worker that returns its runs": (sql) => handBackRuns(sql, { worker_id: "worker", lease: null }, NOW),
    "a batch of ends": (sql, { runs }) =>
      finishRuns(
        sql,
        leases(runs).map((lease) => ({ lease, finish: { status: "succeeded" as const, output: "" }, now: NOW })),
      ),
    "a batch of intents": (sql, { runs }) =>
      startSteps(
        sql,
        leases(runs).map((lease) => ({ lease, step: { ...MODEL_CALL, index: 1 }, now: NOW })),
      ),
  };
  const names = Object.keys(writers);
  const pairs = names.flatMap((one, index) => names.slice(index + 1).map((other) => [one, other] as const));

  test.each(pairs)("%s and %s never deadlock", async (one, other) => {
    const scene = await threeRuns();
    const [blocker, first, second] = await Promise.all([connect(), connect(), connect()]);
    onTestFinished(async () => void (await Promise.all([blocker.end(), first.end(), second.end()])));
    // Both have locked their first run, and wait for the run in the middle.
    await blocker.query("begin");
    await blocker.query("select from run where id = $1 for update", [scene.runs[1]?.lease.run_id]);
    const before = writers[one]?.(sqlOf(first), scene);
    await locksAwaited(1);
    const after = writers[other]?.(sqlOf(second), scene);
    await locksAwaited(2);
    await blocker.query("commit");
    await Promise.all([before, after]);
  });

  test("a claim does not wait for a run that another transaction has locked: it takes the others", async () => {
    await db.query({ text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change" });
    const scheduling = createScheduling({ db, clock: { now: () => NOW } });
    const agent = { user_id: newId(), agent_id: newId() };
    const [{ id: locked }, { id: free }] = [await scheduling.start(agent), await scheduling.start(agent)];
    const blocker = await connect();
    onTestFinished(() => blocker.end());
    await blocker.query("begin");
    await blocker.query("select from run where id = $1 for update", [locked]);
    const claimed = await scheduling.claim("worker", 2, LIMITS);
    expect(claimed.map(({ lease }) => lease.run_id)).toEqual([free]);
  });

  test("a transaction that lost a deadlock is retried, and both transactions commit", async () => {
    const scene = await threeRuns();
    const [one, other] = scene.runs.map(({ lease }) => lease.run_id);
    const both_began = Promise.withResolvers<void>();
    let begun = 0;
    let attempts = 0;
    const label = (tx: Sql, id: string | undefined, model: string) =>
      tx.query({ text: "update run set model_id = concat(model_id, $2::text) where id = $1", values: [id, model] });
    const write = (ids: (string | undefined)[], model: string) =>
      db.transaction(async (tx) => {
        attempts += 1;
        await label(tx, ids[0], model);
        begun += 1;
        if (begun === 2) both_began.resolve();
        await both_began.promise;
        await label(tx, ids[1], model);
      });
    await Promise.all([write([one, other], "a"), write([other, one], "b")]);
    // At least one of them lost once. On a slow machine it can lose again.
    expect(attempts).toBeGreaterThan(2);
    const rows = await db.query<{ model_id: string }>({
      text: "select model_id from run where id in ($1, $2)",
      values: [one, other],
    });
    expect(rows.map(({ model_id }) => model_id.length)).toEqual([2, 2]);
  });
});

/** A connection that does not retry statements. */
function sqlOf(client: pg.Client): Sql {
  const query = async <Row>({ text, values }: { text: string; values?: readonly unknown[] }) =>
    (await client.query(text, [...(values ?? [])])).rows as Row[];
  return { query };
}
