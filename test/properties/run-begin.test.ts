import { afterEach, expect, test } from "vitest";
import type { ClaimedRun, NewRun } from "../../src/agents/runs/runs.types.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { jsonbText } from "../../src/platform/lib/json.ts";
import { LIMITS, MODEL_CALL, START, USAGE, useQueue } from "./run-queue-fixture.ts";

// Runs that begin with their request, and end with their last step.

const queue = useQueue({ ends_with_step: true });
let stop: (() => Promise<void>) | undefined;

afterEach(async () => {
  await stop?.();
  stop = undefined;
});

const FIRST_STEP = { ...MODEL_CALL, internal: { hold_id: newId() } };
const ask = (fields: Partial<NewRun> = {}) =>
  queue.scheduling.startRun({
    ...queue.agent,
    trigger: "manual",
    agent_version: 1,
    model_id: "lab/small",
    engine_input: {},
    ...fields,
  });

/** A worker of this node with this number of slots, and the runs that it was given. */
async function worker(most: number, limits = LIMITS): Promise<ClaimedRun[]> {
  const given: ClaimedRun[] = [];
  const none = () => {};
  const offer = () => ({
    worker_id: "worker-1",
    most,
    limits,
    begin: (runs: readonly ClaimedRun[]) => given.push(...runs),
  });
  stop = await queue.scheduling.watch({ offer, queued: none, freed: none, cancelling: none } as never);
  return given;
}

async function finishByHook(lease: ClaimedRun["lease"], output: string | null) {
  const { argument } = queue.scheduling.finishStepHook(lease, {
    index: 0,
    status: "succeeded",
    result: { role: "assistant", content: "done\0" },
    usage: USAGE,
    ...(output === null ? {} : { final: { output } }),
  });
  const [row] = await queue.db.query<{ answers: Record<string, unknown>[] }>({
    text: "select finish_steps(leave_ends_with_effects($1::jsonb)) as answers",
    values: [jsonbText([argument])],
  });
  return row?.answers[0] ?? {};
}

test("a run-now begins in the statement that stores it, with the intent of its first step, under the first lease", async () => {
  const given = await worker(5);
  const asked = await ask({ first_step: FIRST_STEP });
  expect(asked).toMatchObject({ refusal: null, has_begun: true, run: { status: "queued", started_at: null } });
  expect(given).toMatchObject([{ lease: { epoch: 1 }, started_at: START, attempt: 1, begun_step: FIRST_STEP }]);
  const [{ lease }] = given as [ClaimedRun];
  expect(await queue.scheduling.getRun(queue.agent, lease.run_id)).toMatchObject({
    status: "running",
    started_at: START,
    steps_count: 1,
    steps: [{ index: 0, type: "model", name: "lab/small", status: "running", arguments: { messages: 1 } }],
  });
  expect((await queue.scheduling.journal(lease))[0]?.internal).toEqual(FIRST_STEP.internal);
  expect(await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", usage: USAGE })).toBe(true);
});

test("run-nows beyond their user's limit or the free slots wait in the queue", async () => {
  const given = await worker(5, { concurrent_runs: 4, concurrent_runs_per_user: 2 });
  for (const begins of [true, true, false]) expect(await ask()).toMatchObject({ has_begun: begins });
  const other = { user_id: newId(), agent_id: newId() };
  await ask(other);
  await ask({ user_id: newId(), agent_id: newId() });
  await ask({ user_id: newId(), agent_id: newId() });
  expect(given).toHaveLength(4);
  expect(new Set(given.map(({ lease }) => lease.run_id)).size).toBe(4);
});

test("a run-now does not take the place of a run of its user that waits", async () => {
  const before = await ask();
  const given = await worker(5, { concurrent_runs: 4, concurrent_runs_per_user: 1 });
  expect(await ask()).toMatchObject({ has_begun: false });
  expect(given.map(({ lease }) => lease.run_id)).toEqual(before.refusal === null ? [before.run.id] : []);
});

test("a run-now beyond the limit of its key or of its user waits in the queue", async () => {
  const given = await worker(5);
  const { user_id } = queue.agent;
  const user = "insert into users (id, email, created_at, limits) values ($1, $2, now(), $3)";
  await queue.db.query({ text: user, values: [user_id, `${user_id}@example.com`, { concurrent_runs: 1 }] });
  for (const begins of [true, false]) expect(await ask()).toMatchObject({ has_begun: begins });
  const other = { user_id: newId(), agent_id: newId() };
  const engine_input = { api_key_id: newId(), key_limits: { concurrent_runs: 1 } };
  // Both are queued; the first is claimed from the queue.
  for (const _ of [1, 2]) expect(await ask({ ...other, engine_input })).toMatchObject({ refusal: null });
  await expect.poll(() => given.length).toBe(2);
});

test("a step that ends its run stores the outcome, and waiting callers of this node get the stored run", async () => {
  const given = await worker(5);
  await ask({ first_step: FIRST_STEP });
  const [{ lease }] = given as [ClaimedRun];
  const waiting = queue.scheduling.finishedRun(queue.agent, lease.run_id, { timeout_ms: 30_000, is_open: false });
  // It reads the run once, and then waits.
  await queue.scheduling.getRun(queue.agent, lease.run_id);
  const answer = await finishByHook(lease, "done\0");
  expect(answer).toMatchObject({ done: true, ended: true, run: { status: "succeeded" } });
  queue.scheduling.noteEnd(lease, answer);
  const finished_run = await waiting;
  expect(finished_run).toMatchObject({
    status: "succeeded",
    output: "done\ufffd",
    finished_at: START,
    steps: [{ usage: USAGE }],
  });
  expect(finished_run).toEqual(await queue.scheduling.getRun(queue.agent, lease.run_id));
  expect(await finishByHook(lease, "again")).toEqual({ done: false, ended: false });
  expect(await queue.scheduling.finishRun(lease, { status: "succeeded", output: "again" })).toBe(false);
});

test("a step does not end a run that is being cancelled, or a run that continues", async () => {
  const given = await worker(5);
  await ask({ first_step: FIRST_STEP });
  await ask({ first_step: FIRST_STEP });
  const [cancelled, goes_on] = given as [ClaimedRun, ClaimedRun];
  await queue.scheduling.requestCancel(queue.agent, cancelled.lease.run_id);
  expect(await finishByHook(cancelled.lease, "too late")).toMatchObject({ done: true, ended: false });
  expect(await finishByHook(goes_on.lease, null)).toMatchObject({ done: true, ended: false });
  expect(await queue.scheduling.finishRun(cancelled.lease, { status: "succeeded", output: "too late" })).toBe(true);
  expect((await queue.scheduling.getRun(queue.agent, cancelled.lease.run_id)).status).toBe("cancelled");
  expect((await queue.scheduling.getRun(queue.agent, goes_on.lease.run_id)).status).toBe("running");
});

test("start_steps answers each step of a batch in order: written, being cancelled, or of another lease", async () => {
  const given = await worker(5);
  for (let nth = 0; nth < 3; nth += 1) await ask();
  const [good, cancelled, lost] = given.map(({ lease }) => lease) as [
    ClaimedRun["lease"],
    ClaimedRun["lease"],
    ClaimedRun["lease"],
  ];
  await queue.scheduling.requestCancel(queue.agent, cancelled.run_id);
  const leases = [{ ...lost, epoch: 7 }, good, cancelled];
  const states = await Promise.all(leases.map((lease) => queue.scheduling.startStep(lease, MODEL_CALL)));
  expect(states).toEqual(["lost", "running", "cancelling"]);
});

test("a run-now that is answered at its end begins without waiting for the disk; in a batch with others it waits", async () => {
  await worker(5);
  const statements = [
    "create table commits (id serial, setting text)",
    `create function note_commit() returns trigger language plpgsql as
      $$ begin insert into commits (setting) values (current_setting('synchronous_commit')); return null; end $$`,
    "create constraint trigger noted after insert on run initially deferred for each row execute function note_commit()",
  ];
  for (const text of statements) await queue.db.query({ text });
  await ask({ is_awaited: true });
  await ask();
  await Promise.all([ask({ is_awaited: true }), ask()]);
  const commits = await queue.db.query<{ setting: string }>({ text: "select setting from commits order by id" });
  expect(commits.map(({ setting }) => setting)).toEqual(["off", "on", "on", "on"]);
  for (const text of ["drop trigger noted on run", "drop function note_commit", "drop table commits"]) {
    await queue.db.query({ text });
  }
});
