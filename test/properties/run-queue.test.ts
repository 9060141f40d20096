import { describe, expect, inject, test } from "vitest";
import type { ClaimedRun } from "../../src/agents/runs/runs.types.ts";
import type { AgentKey } from "../../src/api/contract/agents.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { jsonbText } from "../../src/platform/lib/json.ts";
import { FAILED, LIMITS, MODEL_CALL, START, USAGE, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();

describe("a run", () => {
  test("has the record of the contract when it is queued", async () => {
    const { id, ...record } = await queue.enqueue();
    expect(record).toEqual({
      agent_id: queue.agent.agent_id,
      agent_version: 1,
      trigger: "manual",
      status: "queued",
      scheduled_for: null,
      queued_at: START,
      started_at: null,
      finished_at: null,
      lateness_ms: null,
      attempt: 1,
      model_id: "lab/small",
      routing: null,
      usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0, cost_tokens: 0 },
      steps_count: 0,
      failed_steps: 0,
      has_errors: false,
      error: null,
      metadata: null,
      required_actions: [],
      schedule_id: null,
      trigger_id: null,
      trigger_name: null,
    });
    expect(await queue.scheduling.getRun(queue.agent, id)).toEqual({
      id,
      ...record,
      input: null,
      run_prompt: null,
      input_safety: null,
      output: null,
      output_json: null,
      deliveries: [],
      decisions: [],
      steps: [],
    });
  });

  test("has its steps and their usage when it is finished", async () => {
    const { id } = await queue.enqueue();
    const { lease, engine_input } = await queue.claimOne();
    expect(engine_input).toEqual({ prompt: "go" });
    expect(await queue.scheduling.startStep(lease, { ...MODEL_CALL, internal: { request: "r1" } })).toBe("running");
    expect(
      await queue.scheduling.finishStep(lease, {
        index: 0,
        status: "succeeded",
        result: "call it",
        usage: USAGE,
        chosen: { model_id: "lab/large", routing: { reason: "size" } },
      }),
    ).toBe(true);
    expect(
      await queue.scheduling.startStep(lease, {
        index: 1,
        type: "tool",
        name: "web_fetch",
        arguments: { url: "http://a" },
      }),
    ).toBe("running");
    const error = { code: "egress_refused", message: "not that one" };
    expect(
      await queue.scheduling.finishStep(lease, { index: 1, status: "failed", error, safety: { injected: false } }),
    ).toBe(true);
    queue.now = "2026-03-01T09:00:05.000Z";
    expect(await queue.scheduling.finishRun(lease, { status: "succeeded", output: "done\0" })).toBe(true);

    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      status: "succeeded",
      output: "done\ufffd",
      started_at: START,
      finished_at: queue.now,
      model_id: "lab/large",
      routing: { reason: "size" },
      usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15, cost_tokens: 9 },
      steps_count: 2,
      failed_steps: 1,
      has_errors: true,
      steps: [
        {
          index: 0,
          type: "model",
          status: "succeeded",
          result: "call it",
          error: null,
          safety: null,
          usage: USAGE,
          finished_at: START,
        },
        {
          index: 1,
          type: "tool",
          name: "web_fetch",
          status: "failed",
          arguments: { url: "http://a" },
          result: null,
          error,
          safety: { injected: false },
          usage: null,
        },
      ],
    });
    expect((await queue.scheduling.journal(lease))[0]?.internal).toEqual({ request: "r1" });
    const [listed] = await queue.scheduling.listRuns(queue.agent, {}, { limit: 1, before_id: null });
    expect(listed).not.toHaveProperty("output");
    expect(listed).not.toHaveProperty("steps");
  });

  test("has its error when it fails, and its open step fails with it", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    await queue.scheduling.startStep(lease, MODEL_CALL);
    await queue.scheduling.finishRun(lease, FAILED);
    expect(await queue.scheduling.getRun(queue.agent, id)).toMatchObject({
      ...FAILED,
      steps: [{ status: "failed", error: FAILED.error, finished_at: START }],
    });
  });

  test("never changes after it is finished", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    await queue.scheduling.finishRun(lease, FAILED);
    const before = await queue.scheduling.getRun(queue.agent, id);
    queue.now = "2026-03-02T00:00:00.000Z";
    expect(await queue.scheduling.finishRun(lease, { status: "succeeded", output: "after all" })).toBe(false);
    expect(await queue.scheduling.startStep(lease, MODEL_CALL)).toBe("lost");
    expect(await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", usage: USAGE })).toBe(false);
    expect(await queue.scheduling.heartbeat([lease])).toEqual(["lost"]);
    await queue.scheduling.handBack("worker-1");
    await queue.scheduling.reap();
    await expect(queue.scheduling.requestCancel(queue.agent, id)).rejects.toMatchObject({
      code: "run_already_finished",
    });
    expect(await queue.scheduling.getRun(queue.agent, id)).toEqual(before);
  });

  test("counts the usage of a step once, also if the step's outcome is stored twice", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    await queue.scheduling.startStep(lease, MODEL_CALL);
    expect(await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", usage: USAGE })).toBe(true);
    expect(await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", usage: USAGE })).toBe(false);
    expect((await queue.scheduling.getRun(queue.agent, id)).usage.cost_tokens).toBe(9);
  });

  test("has its step recorded by a settle's hook as by finishStep; the hook answers false once the lease is lost", async () => {
    const { id } = await queue.enqueue();
    const first = await queue.claimOne();
    await queue.scheduling.startStep(first.lease, MODEL_CALL);
    const callHook = async () => {
      const { argument } = queue.scheduling.finishStepHook(first.lease, {
        index: 0,
        status: "succeeded",
        result: "a\0",
        usage: USAGE,
      });
      const [row] = await queue.db.query<{ ok: boolean }>({
        text: "select (finish_steps($1::jsonb)->0->>'done')::boolean as ok",
        values: [jsonbText([argument])],
      });
      return row?.ok;
    };
    expect(await callHook()).toBe(true);
    expect((await queue.scheduling.getRun(queue.agent, id)).steps[0]).toMatchObject({
      result: "a\ufffd",
      usage: USAGE,
    });
    await queue.scheduling.handBack("worker-1");
    expect(await callHook()).toBe(false);
  });
});

test.skipIf(inject("storage").kind === "embedded")(
  "a heartbeat does not wait for a step that is being recorded: it renews the other leases, and no lease counts as lost",
  async () => {
    const lease_until = (lease_ids: string[]) =>
      queue.db.query<{ id: string; lease_until: string }>({
        text: "select id, lease_until from run where id = any ($1) order by id",
        values: [lease_ids],
      });
    await queue.enqueue();
    await queue.enqueue({ user_id: newId(), agent_id: newId() });
    const claimed = await queue.scheduling.claim("worker-1", 2, LIMITS);
    const leases = claimed.map(({ lease }) => lease);
    const [busy, other] = leases.map(({ run_id }) => run_id).sort() as [string, string];
    const before = await lease_until([busy, other]);
    await queue.db.transaction(async (tx) => {
      await tx.query({ text: "select from run where id = $1 for update", values: [busy] });
      const states = await queue.scheduling.heartbeat(leases);
      expect([...states.values()]).toEqual(["running", "running"]);
    });
    const after = await lease_until([busy, other]);
    expect(after[0]).toEqual(before[0]);
    expect(Date.parse(after[1]?.lease_until ?? "")).toBeGreaterThan(Date.parse(before[1]?.lease_until ?? ""));
  },
  5_000,
);

describe("claiming", () => {
  test("gives each run to one worker, also to concurrent claims", async () => {
    for (let index = 0; index < 40; index++) await queue.enqueue({ user_id: newId(), agent_id: newId() });
    const claims = await Promise.all(
      Array.from({ length: 8 }, (_, worker) => queue.scheduling.claim(`worker-${worker}`, 10, LIMITS)),
    );
    const ids = claims.flat().map(({ lease }) => lease.run_id);
    expect(ids).toHaveLength(40);
    expect(new Set(ids).size).toBe(40);
  });

  test("keeps the limits over all workers together", async () => {
    const other = { user_id: newId(), agent_id: newId() };
    for (let index = 0; index < 6; index++) await queue.enqueue();
    for (let index = 0; index < 6; index++) await queue.enqueue(other);
    const limits = { concurrent_runs: 5, concurrent_runs_per_user: 3 };
    const claims = await Promise.all(["a", "b", "c"].map((worker) => queue.scheduling.claim(worker, 4, limits)));
    const users = claims.flat().map(({ lease }) => lease.user_id);
    expect(users).toHaveLength(5);
    for (const user of [queue.agent.user_id, other.user_id])
      expect(users.filter((id) => id === user).length).toBeLessThanOrEqual(3);
  });

  test("keeps a user's own limit and the limit of the user's plan over all workers, and loses no run", async () => {
    const { user_id } = queue.agent;
    const limits = { ...LIMITS, concurrent_runs_of_plans: { small: 2 } };
    const user = "insert into users (id, email, created_at, limits) values ($1, $2, now(), $3)";
    await queue.db.query({ text: user, values: [user_id, `${user_id}@example.com`, { concurrent_runs: 3 }] });
    for (let index = 0; index < 6; index++) await queue.enqueue();
    const claimAll = async () => {
      const claims = await Promise.all(["a", "b"].map((worker) => queue.scheduling.claim(worker, 10, limits)));
      return claims.flat();
    };
    const first = await claimAll();
    expect(first).toHaveLength(3);
    await queue.db.query({
      text: `insert into subscription (id, user_id, provider, status, plan, current_period_start, current_period_end, created_at)
        values ($1, $2, 'operator', 'active', '{"id": "small"}', now(), now() + interval '1 month', now())`,
      values: [newId(), user_id],
    });
    const ended: string[] = [];
    for (let claimed = first; claimed.length > 0; claimed = await claimAll()) {
      expect(claimed.length).toBeLessThanOrEqual(claimed === first ? 3 : 2);
      for (const { lease } of claimed) {
        await queue.scheduling.finishRun(lease, { status: "succeeded", output: "done" });
        ended.push(lease.run_id);
      }
    }
    expect(new Set(ended).size).toBe(6);
  });

  test("keeps a key's limit over all workers, and takes the user's other runs before the key's waiting ones", async () => {
    const api_key_id = newId();
    const engine_input = { api_key_id, key_limits: { concurrent_runs: 1 } };
    for (let index = 0; index < 20; index++) await queue.scheduling.start({ ...queue.agent, engine_input });
    const { id: free } = await queue.enqueue();
    const begun = await Promise.all(["a", "b"].map((worker) => queue.scheduling.claim(worker, 2, LIMITS)));
    const [first, second, ...more] = begun.flat();
    expect(more).toEqual([]);
    expect([first, second].map((run) => run?.lease.run_id)).toContain(free);
    const [limited] = begun.flat().filter(({ lease }) => lease.run_id !== free);
    expect(await queue.scheduling.claim("a", 5, LIMITS)).toEqual([]);
    if (limited !== undefined) await queue.scheduling.finishRun(limited.lease, { status: "succeeded", output: "done" });
    expect(await queue.scheduling.claim("a", 5, LIMITS)).toHaveLength(1);
  });

  test("serves a user with a single run, though another user queued many runs before", async () => {
    for (let index = 0; index < 20; index++) await queue.enqueue();
    const { id } = await queue.enqueue({ user_id: newId(), agent_id: newId() });
    const claimed = await queue.scheduling.claim("worker-1", 2, LIMITS);
    expect(claimed.map(({ lease }) => lease.run_id)).toContain(id);
  });

  test("takes a user's chats first, then the run that was queued first", async () => {
    const manual = await queue.enqueue();
    const second = await queue.enqueue();
    const chat = await queue.enqueue(queue.agent, "chat");
    const claimed = await queue.scheduling.claim("worker-1", 3, LIMITS);
    expect(claimed.map(({ lease }) => lease.run_id)).toEqual([chat.id, manual.id, second.id]);
  });

  test("gives a run-now to this node's worker at once if it has a free slot, but not before a waiting run", async () => {
    const waiting = await queue.enqueue();
    const begun: string[] = [];
    const begin = (runs: readonly ClaimedRun[]) => {
      begun.push(...runs.map(({ lease }) => lease.run_id));
    };
    const none = () => {};
    const offer = () => ({ worker_id: "worker-1", most: 1, limits: LIMITS, begin });
    const stop = await queue.scheduling.watch({ offer, queued: none, freed: none, cancelling: none });
    const late = await queue.enqueue();
    expect(begun).toEqual([waiting.id]);
    expect((await queue.scheduling.getRun(queue.agent, late.id)).status).toBe("queued");
    await stop();
  });

  test("accepts, of two concurrent ends of a run, only the one under the valid lease", async () => {
    const { id } = await queue.enqueue();
    const { lease } = await queue.claimOne();
    const stale = { ...lease, epoch: lease.epoch - 1 };
    const ends = [stale, lease].map((of) =>
      queue.scheduling.finishRun(of, { status: "succeeded", output: `${of.epoch}` }),
    );
    expect(await Promise.all(ends)).toEqual([false, true]);
    expect((await queue.scheduling.getRun(queue.agent, id)).output).toBe(`${lease.epoch}`);
  });

  test("gives a reserved run to its worker only, and cancels the run if that worker never claims it", async () => {
    const reserve = (worker_id: string) =>
      queue.scheduling.start({ ...queue.agent, trigger: "chat", reserved: { worker_id, for_ms: 30_000 } });
    const kept = await reserve("worker-1");
    const left = await reserve("worker-2");
    expect((await queue.scheduling.claim("worker-1", 5, LIMITS)).map(({ lease }) => lease.run_id)).toEqual([kept.id]);
    await queue.expireLeases();
    await queue.scheduling.reap();
    expect((await queue.scheduling.getRun(queue.agent, left.id)).status).toBe("cancelled");
  });
});

describe("a long queue", () => {
  const other = () => ({ user_id: newId(), agent_id: newId() });
  /** Queues many runs, of an agent of each user. */
  const queueMany = (users: readonly AgentKey[], each: number, trigger: "manual" | "schedule" = "manual") =>
    queue.db.query({
      text: `insert into run (user_id, id, agent_id, agent_version, trigger, scheduled_for, queued_at, engine_input, priority)
        select user_id, gen_random_uuid(), agent_id, 1, $2::text, case $2::text when 'schedule' then $3::timestamptz end, $3, '{}',
          case $2::text when 'manual' then 1 else 2 end
        from jsonb_to_recordset($1::jsonb) as given(user_id uuid, agent_id uuid), generate_series(1, $4::integer)`,
      values: [JSON.stringify(users), trigger, START, each],
    });

  test("of 10,000 runs of one user delays no other user: a user with a single run is served next", async () => {
    await queueMany([queue.agent], queue.db.kind === "postgres" ? 10_000 : 1_000);
    const { id } = await queue.enqueue(other());
    const first = await queue.scheduling.claim("worker-1", 10, LIMITS);
    expect(first.map(({ lease }) => lease.run_id)).toContain(id);
    expect(first).toHaveLength(10);
  });

  test("of 90 users gives each user a slot before any user gets a second one", async () => {
    await queueMany(Array.from({ length: 90 }, other), 3);
    const served = new Set<string>();
    for (let turn = 0; turn < 9; turn += 1) {
      const claimed = await queue.scheduling.claim("worker-1", 10, { ...LIMITS, concurrent_runs: 1_000 });
      for (const { lease } of claimed) served.add(lease.user_id);
    }
    expect(served.size).toBe(90);
  });

  test("of more users than one claim reads serves all users, also those behind far longer queues", async () => {
    const first = other();
    await queueMany([first], 300);
    const users = [...Array.from({ length: 150 }, other), other()];
    await queueMany(users, 1);
    const served = new Set<string>();
    for (let turn = 0; turn < 20; turn += 1) {
      for (const { lease } of await queue.scheduling.claim("worker-1", 10, { ...LIMITS, concurrent_runs: 1_000 })) {
        served.add(lease.user_id);
      }
    }
    expect(users.filter(({ user_id }) => !served.has(user_id))).toEqual([]);
  });

  test("of 1,000 run-nows of a user rejects more run-nows and runs of triggers of this user (429), but takes due runs and other users' runs", async () => {
    await queueMany([queue.agent], 999);
    await queueMany([queue.agent], 5, "schedule");
    await queue.enqueue();
    await expect(queue.enqueue()).rejects.toMatchObject({
      code: "rate_limited",
      shape: { status: 429, retry_after_s: 10 },
    });
    await expect(queue.enqueue(queue.agent, "webhook")).rejects.toMatchObject({ code: "rate_limited" });
    await queue.enqueue(other());
    expect(await queue.enqueue(queue.agent, "chat")).toMatchObject({ status: "queued" });
  });
});

test("the queue's figures are the number of waiting runs of all users and the age of the oldest", async () => {
  expect(await queue.scheduling.queueFigures()).toEqual({ queued: 0, oldest_ms: 0 });
  await queue.enqueue();
  queue.now = "2026-03-01T09:00:10.000Z";
  await queue.enqueue(queue.agent, "chat");
  queue.now = "2026-03-01T09:00:30.000Z";
  expect(await queue.scheduling.queueFigures()).toEqual({ queued: 2, oldest_ms: 30_000 });
  await queue.claimOne();
  expect(await queue.scheduling.queueFigures()).toEqual({ queued: 1, oldest_ms: 30_000 });
});
