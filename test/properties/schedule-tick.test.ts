import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ScheduleSpec } from "../../src/agents/schedules/spec.ts";
import type { DueAnswer, OnDue } from "../../src/agents/schedules/tick.service.ts";
import type { AgentKey } from "../../src/api/contract/agents.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createScheduling, type Scheduling } from "../support/scheduling.ts";

const DAILY: ScheduleSpec = { interval: "daily", times: ["09:00"], timezone: "UTC" };
const LIMITS = { concurrent_runs: 1_000, concurrent_runs_per_user: 1_000 };

let database: TestDatabase;
let db: Db;
let now: Instant;
let scheduling: Scheduling;
let agent: AgentKey;

beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  scheduling = createScheduling({ db, clock: { now: () => now } });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});
beforeEach(async () => {
  now = "2026-03-01T00:00:00.000Z";
  agent = { user_id: newId(), agent_id: newId() };
  await db.query({
    text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change, schedule, occurrence",
  });
});

const answerWith =
  (answer: DueAnswer): OnDue =>
  async (_, schedules) =>
    new Map(schedules.map(({ id }) => [id, answer]));
const everyAgentRuns = answerWith({ run: { agent_version: 3, model_id: "lab/small", engine_input: { prompt: "go" } } });
const setSchedule = (spec: ScheduleSpec | null, of = agent) =>
  db.transaction((tx) => scheduling.setSchedule(tx, of, spec));
const runs = () => scheduling.listRuns(agent, {}, { limit: 100, before_id: null });
const nextRunAt = async () => (await scheduling.schedule(agent))?.next_run_at;
/** `day state reason` of each occurrence, oldest first. */
const occurrences = async () =>
  (await scheduling.occurrences(agent, { limit: 100, before: null }))
    .reverse()
    .map(({ at, state, reason }) => [at.slice(5, 10), state, reason]);

test("a due instant becomes one occurrence and one queued run, and the schedule continues", async () => {
  await setSchedule(DAILY);
  expect(await nextRunAt()).toBe("2026-03-01T09:00:00.000Z");
  now = "2026-03-01T08:59:59.999Z";
  await scheduling.tick(everyAgentRuns);
  expect(await runs()).toEqual([]);
  now = "2026-03-01T09:00:00.500Z";
  await scheduling.tick(everyAgentRuns);
  await scheduling.tick(everyAgentRuns);

  const [claimed] = await scheduling.claim("worker-1", 10, LIMITS);
  expect(claimed).toMatchObject({ agent_id: agent.agent_id, trigger: "schedule", engine_input: { prompt: "go" } });
  const [run, ...others] = await runs();
  expect(others).toEqual([]);
  expect(run).toMatchObject({
    agent_version: 3,
    trigger: "schedule",
    scheduled_for: "2026-03-01T09:00:00.000Z",
    queued_at: now,
    lateness_ms: 500,
  });
  const at = "2026-03-01T09:00:00.000Z";
  expect(await scheduling.occurrences(agent, { limit: 10, before: null })).toEqual([
    {
      at,
      scheduled_for: at,
      state: "run",
      status: "run",
      schedule_id: (await scheduling.schedule(agent))?.id,
      reason: null,
      run_id: run?.id,
      recorded_at: now,
    },
  ]);
  expect(await nextRunAt()).toBe("2026-03-02T09:00:00.000Z");
  expect(await scheduling.nextDueAt("2026-03-02T08:00:00.000Z")).toBeNull();
  expect(await scheduling.nextDueAt("2026-03-03T00:00:00.000Z")).toBe("2026-03-02T09:00:00.000Z");
});

test("an instant that is due again after its run queues no second run", async () => {
  await setSchedule(DAILY);
  now = "2026-03-01T09:00:00.500Z";
  await scheduling.tick(everyAgentRuns);
  await db.transaction((tx) => scheduling.cancelIdle(tx, agent));
  await db.query({ text: "update schedule set next_run_at = $1", values: ["2026-03-01T09:00:00.000Z"] });
  await scheduling.tick(everyAgentRuns);
  expect(await runs()).toMatchObject([{ status: "cancelled" }]);
  expect(await nextRunAt()).toBe("2026-03-02T09:00:00.000Z");
});

test("concurrent ticks of several nodes queue each due run once (n8n-io/n8n#7045)", async () => {
  const agents = Array.from({ length: 450 }, () => ({ user_id: newId(), agent_id: newId() }));
  await db.transaction(async (tx) => {
    for (const each of agents) await scheduling.setSchedule(tx, each, DAILY);
  });
  now = "2026-03-01T09:00:00.000Z";
  const nodes = Array.from({ length: 4 }, () => createScheduling({ db, clock: { now: () => now } }));
  await Promise.all(nodes.map((node) => node.tick(everyAgentRuns)));
  const [count] = await db.query<{ runs: number; agents: number; occurrences: number }>({
    text: "select count(*) as runs, count(distinct agent_id) as agents, (select count(*) from occurrence where state = 'run') as occurrences from run",
  });
  expect(count).toEqual({ runs: 450, agents: 450, occurrences: 450 });
});

test("a tick whose transaction fails leaves no row, and the next tick does all of its work", async () => {
  await setSchedule(DAILY);
  now = "2026-03-01T09:00:00.000Z";
  const failing: OnDue = async () => Promise.reject(new Error("the node died"));
  await expect(scheduling.tick(failing)).rejects.toThrow("the node died");
  expect([await runs(), await occurrences()]).toEqual([[], []]);
  await scheduling.tick(everyAgentRuns);
  expect(await runs()).toHaveLength(1);
});

test("after a downtime older instants are missed, and the latest one runs late", async () => {
  await setSchedule(DAILY);
  now = "2026-03-03T12:00:00.000Z";
  await scheduling.tick(everyAgentRuns);
  expect((await occurrences()).map(([day, state]) => `${day} ${state}`)).toEqual([
    "03-01 missed",
    "03-02 missed",
    "03-03 run",
  ]);
  expect(await nextRunAt()).toBe("2026-03-04T09:00:00.000Z");
});

test("one tick handles a downtime of years: every instant once and in order, and the latest becomes a run", async () => {
  await setSchedule(DAILY);
  now = "2029-03-01T10:00:00.000Z";
  await scheduling.tick(everyAgentRuns);
  const [counted] = await db.query<{ instants: number; missed: number; from: Instant; until: Instant }>({
    text: `select count(*) as instants, count(*) filter (where state = 'missed') as missed, min(at) as "from",
      max(at) filter (where state = 'run') as until from occurrence`,
  });
  expect(counted).toEqual({
    instants: 1097,
    missed: 1096,
    from: "2026-03-01T09:00:00.000Z",
    until: "2029-03-01T09:00:00.000Z",
  });
  expect(await nextRunAt()).toBe("2029-03-02T09:00:00.000Z");
});

test("the latest instant of a downtime runs late when it is less than 12 hours old, and says how late", async () => {
  await setSchedule(DAILY);
  now = "2026-03-01T20:59:59.000Z";
  await scheduling.tick(everyAgentRuns);
  await scheduling.claim("worker-1", 1, LIMITS);
  expect((await runs())[0]).toMatchObject({ scheduled_for: "2026-03-01T09:00:00.000Z", lateness_ms: 43_199_000 });
});

describe("during a tick", () => {
  /** A tick that has locked the due schedules and has not committed. */
  const heldTick = () => {
    const locked = Promise.withResolvers<void>();
    const commit = Promise.withResolvers<void>();
    const onDue: OnDue = async (tx, agents) => {
      locked.resolve();
      await commit.promise;
      return everyAgentRuns(tx, agents);
    };
    return { locked: locked.promise, commit: commit.resolve, done: scheduling.tick(onDue) };
  };
  const change = {
    edited: () => setSchedule({ ...DAILY, times: ["10:00"] }),
    "switched off": () => setSchedule(null),
    paused: () => scheduling.pauseSchedule(agent, "enough"),
    deleted: () => db.transaction((tx) => scheduling.forgetAgent(tx, agent)),
  };
  const after = {
    edited: [["03-01", "run", null]],
    "switched off": [["03-01", "run", null]],
    paused: [["03-01", "run", null]],
    deleted: [],
  };
  test.each(Object.keys(change) as (keyof typeof change)[])(
    "a schedule that is %s queues its due run once, and then follows the change",
    async (kind) => {
      await setSchedule(DAILY);
      now = "2026-03-01T09:00:00.000Z";
      const ticking = heldTick();
      await ticking.locked;
      const changing = change[kind]();
      ticking.commit();
      await Promise.all([ticking.done, changing]);
      expect(await occurrences()).toEqual(after[kind]);
      expect((await runs()).map(({ status }) => status)).toEqual([kind === "deleted" ? "cancelled" : "queued"]);
      const next = { edited: "2026-03-01T10:00:00.000Z", paused: "2026-03-02T09:00:00.000Z" };
      expect(await nextRunAt()).toBe(kind === "switched off" ? null : next[kind as keyof typeof next]);
      now = "2026-03-01T09:30:00.000Z";
      await scheduling.tick(everyAgentRuns);
      expect(await runs()).toHaveLength(1);
    },
  );
});

test("an instant is skipped while the previous run is unfinished, but not because of a chat", async () => {
  await setSchedule(DAILY);
  await scheduling.start({ ...agent, trigger: "chat" });
  for (const day of ["01", "02"]) {
    now = `2026-03-${day}T09:00:00.000Z`;
    await scheduling.tick(everyAgentRuns);
  }
  expect(await occurrences()).toEqual([
    ["03-01", "run", null],
    [
      "03-02",
      "skipped",
      `previous run still going: ${(await runs()).find(({ trigger }) => trigger === "schedule")?.id}`,
    ],
  ]);
});

describe("of several schedules of an agent", () => {
  const named = (name: string, spec: ScheduleSpec = DAILY) =>
    db.transaction((tx) => scheduling.setSchedule(tx, agent, spec, name));
  /** `name state` of each occurrence, in the order of names. */
  const outcomes = async () => {
    const all = await scheduling.ofAgents(agent.user_id, [agent.agent_id]);
    const name_of = new Map(all.map(({ id, name }) => [id, name]));
    const found = await scheduling.occurrences(agent, { limit: 100, before: null });
    return found.map(({ schedule_id, state }) => `${name_of.get(schedule_id)} ${state}`).sort();
  };

  test("each one has a run of its own at the same instant, once for any number of nodes", async () => {
    for (const name of ["default", "a", "b"]) await named(name);
    now = "2026-03-01T09:00:00.000Z";
    const nodes = Array.from({ length: 3 }, () => createScheduling({ db, clock: { now: () => now } }));
    await Promise.all(nodes.map((node) => node.tick(everyAgentRuns)));
    expect(await outcomes()).toEqual(["a run", "b run", "default run"]);
    expect(new Set((await runs()).map(({ schedule_id }) => schedule_id)).size).toBe(3);
  });

  test("only the one with an unfinished run skips; a run-now without a schedule counts for the default one", async () => {
    for (const name of ["default", "a", "b"]) await named(name);
    const a = await scheduling.schedule(agent, "a");
    await scheduling.start({ ...agent, schedule_id: a?.id });
    now = "2026-03-01T09:00:00.000Z";
    await scheduling.tick(everyAgentRuns);
    expect(await outcomes()).toEqual(["a skipped", "b run", "default run"]);
    await db.transaction((tx) => scheduling.cancelIdle(tx, agent));
    await scheduling.start(agent);
    await db.query({ text: "truncate occurrence" });
    now = "2026-03-02T09:00:00.000Z";
    await scheduling.tick(everyAgentRuns);
    expect(await outcomes()).toEqual(["a run", "b run", "default skipped"]);
  });

  test("one that is paused, changed, ended or deleted leaves the others alone", async () => {
    for (const name of ["default", "a", "b", "c"]) await named(name);
    await named("once", { interval: "once", run_at: "2026-03-01T08:00", timezone: "UTC" });
    await scheduling.pauseSchedule(agent, "enough", "a");
    await named("b", { ...DAILY, times: ["10:00"] });
    await db.transaction(async (tx) => {
      const c = (await scheduling.lock(tx, agent)).find(({ name }) => name === "c");
      if (c !== undefined) await scheduling.remove(tx, c);
    });
    now = "2026-03-01T09:00:00.000Z";
    await scheduling.tick(everyAgentRuns);
    expect(await outcomes()).toEqual(["a skipped", "default run", "once run"]);
    expect(await scheduling.schedule(agent, "once")).toMatchObject({ enabled: true, next_run_at: null });
    expect(await scheduling.nextDueAt("2026-03-09T00:00:00.000Z")).toBe("2026-03-01T10:00:00.000Z");
  });
});

test("a paused schedule skips its instants; after it is resumed it runs again", async () => {
  await setSchedule(DAILY);
  await scheduling.pauseSchedule(agent, "out of tokens");
  now = "2026-03-01T09:00:00.000Z";
  await scheduling.tick(everyAgentRuns);
  expect(await scheduling.schedule(agent)).toMatchObject({
    next_run_at: "2026-03-02T09:00:00.000Z",
    paused_reason: "out of tokens",
  });
  await scheduling.pauseSchedule(agent, null);
  now = "2026-03-02T09:00:00.000Z";
  await scheduling.tick(everyAgentRuns);
  expect(await occurrences()).toEqual([
    ["03-01", "skipped", "paused since 2026-03-01T00:00:00.000Z: out of tokens"],
    ["03-02", "run", null],
  ]);
});

test("a pause that gets another reason keeps its start; after a resume, the next pause has a new start", async () => {
  const pausedAt = async (reason: string | null, at: Instant) => {
    now = at;
    await scheduling.pauseSchedule(agent, reason);
    const [row] = await db.query<{ paused_at: Instant | null }>({
      text: "select paused_at from schedule where agent_id = $1",
      values: [agent.agent_id],
    });
    return row?.paused_at;
  };
  await setSchedule(DAILY);
  expect(await pausedAt("2 failures", "2026-03-01T01:00:00.000Z")).toBe("2026-03-01T01:00:00.000Z");
  expect(await pausedAt("3 failures", "2026-03-01T02:00:00.000Z")).toBe("2026-03-01T01:00:00.000Z");
  expect(await pausedAt(null, "2026-03-01T03:00:00.000Z")).toBeNull();
  expect(await pausedAt("4 failures", "2026-03-01T04:00:00.000Z")).toBe("2026-03-01T04:00:00.000Z");
  expect(await pausedAt(null, "2026-03-01T05:00:00.000Z")).toBeNull();
  const schedule = await scheduling.schedule(agent);
  if (schedule === undefined) throw new Error("there is no schedule");
  await db.transaction((tx) => scheduling.pauseForTokens(tx, schedule, "out of tokens", 0));
  expect(await scheduling.resumeForTokens(schedule, 1)).toBe(true);
  expect(await pausedAt(null, now)).toBeNull();
});

test("an instant is skipped with the reason if its agent refuses the run or was deleted", async () => {
  await setSchedule(DAILY);
  now = "2026-03-01T09:00:00.000Z";
  await scheduling.tick(answerWith({ declined: "its model is no longer offered" }));
  now = "2026-03-02T09:00:00.000Z";
  await scheduling.tick(async () => new Map());
  expect(await runs()).toEqual([]);
  expect(await occurrences()).toEqual([
    ["03-01", "skipped", "its model is no longer offered"],
    ["03-02", "skipped", "the agent is gone"],
  ]);
});

test("a schedule that is switched off or deleted never fires again (n8n#30607)", async () => {
  const deleted = { user_id: agent.user_id, agent_id: newId() };
  await setSchedule(DAILY);
  await setSchedule(DAILY, deleted);
  await setSchedule(null);
  await db.transaction((tx) => scheduling.forgetAgent(tx, deleted));
  expect(await nextRunAt()).toBeNull();
  now = "2026-03-05T12:00:00.000Z";
  await scheduling.tick(everyAgentRuns);
  expect([await runs(), await occurrences()]).toEqual([[], []]);
});

test("a schedule that is switched off and on again runs at its next instant", async () => {
  await setSchedule(DAILY);
  await setSchedule(null);
  now = "2026-03-01T12:00:00.000Z";
  await setSchedule(DAILY);
  expect(await nextRunAt()).toBe("2026-03-02T09:00:00.000Z");
});

test("an edit takes effect at once; setting the same schedule again loses no due instant", async () => {
  await setSchedule(DAILY);
  now = "2026-03-01T09:00:01.000Z";
  await setSchedule(DAILY);
  expect(await nextRunAt()).toBe("2026-03-01T09:00:00.000Z");
  expect(await occurrences()).toEqual([]);
  await setSchedule({ interval: "monthly", times: ["10:30"], timezone: "Asia/Kolkata", day_of_month: "last" });
  expect(await nextRunAt()).toBe("2026-03-31T05:00:00.000Z");
  await setSchedule({ interval: "monthly", times: ["10:30"], timezone: "Asia/Kolkata", day_of_month: 5 });
  expect(await nextRunAt()).toBe("2026-03-05T05:00:00.000Z");
  await setSchedule({ interval: "weekly", times: ["10:30"], timezone: "Asia/Kolkata", days_of_week: ["monday"] });
  expect(await nextRunAt()).toBe("2026-03-02T05:00:00.000Z");
});

test("an instant that is due when its schedule is changed or turned off is recorded, also before a tick has read it", async () => {
  await setSchedule(DAILY);
  now = "2026-03-03T09:00:00.500Z";
  await setSchedule({ ...DAILY, times: ["08:00"] });
  const changed = "the schedule was changed or turned off at that moment";
  const missed = "the service was down; only the latest missed time runs: 2026-03-03T09:00:00.000Z";
  const first = [
    ["03-01", "missed", missed],
    ["03-02", "missed", missed],
    ["03-03", "skipped", changed],
  ];
  expect(await occurrences()).toEqual(first);
  now = "2026-03-04T08:00:00.000Z";
  await scheduling.pauseSchedule(agent, "enough");
  await setSchedule(null);
  await scheduling.tick(everyAgentRuns);
  expect(await occurrences()).toEqual([
    ...first,
    ["03-04", "skipped", "paused since 2026-03-04T08:00:00.000Z: enough"],
  ]);
  expect(await runs()).toEqual([]);
});

test("occurrences are listed page by page, newest first", async () => {
  await setSchedule(DAILY);
  now = "2026-03-04T12:00:00.000Z";
  await scheduling.tick(everyAgentRuns);
  const first = await scheduling.occurrences(agent, { limit: 3, before: null });
  const second = await scheduling.occurrences(agent, { limit: 3, before: first.at(-1) ?? null });
  expect([...first, ...second].map(({ at }) => at.slice(8, 10))).toEqual(["04", "03", "02", "01"]);
});
