import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newConfig } from "../../src/agents/definitions/agent-config.ts";
import { createAgentRuns } from "../../src/agents/definitions/agent-runs.service.ts";
import { createAgentsStore } from "../../src/agents/definitions/agents.store.ts";
import { createRunOutcomes } from "../../src/agents/definitions/run-outcomes.service.ts";
import { createScheduleKeys } from "../../src/agents/definitions/schedule-keys.service.ts";
import { createWaitingSchedules } from "../../src/agents/definitions/waiting-schedules.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createScheduling, type Scheduling } from "../support/scheduling.ts";
import { createLedgerFixture } from "./ledger-fixture.ts";
import { LIMITS } from "./run-queue-fixture.ts";

// Agents, scheduling and the ledger over one database. No process reports its grants here: it dies before, so only
// the sweep resumes schedules.

const LACKS_TOKENS = { code: "insufficient_tokens", message: "Not enough." };
const DAY_S = 86_400;

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

const createModules = () => {
  const fixture = createLedgerFixture(db, "2026-03-01T10:00:00.000Z");
  const { ledger, clock } = fixture;
  const log = createLog("silent");
  const paused: unknown[] = [];
  const store = createAgentsStore(db);
  const find = () => {
    throw new Error("nothing here is asked for by anybody");
  };
  const models = { find: () => null } as never;
  const keysOf = async () => new Map();
  const scheduling: Scheduling = createScheduling({
    db,
    clock,
    notify: async (event) => void ("reason" in event && paused.push(event.agent_id)),
    onRunEnd: (ending, tx) => onRunEnd(ending, tx),
  });
  const schedules = scheduling;
  const schedule_keys = createScheduleKeys({ clock, schedules, ledger, keysOf, log });
  const onRunEnd = createRunOutcomes({ schedules, schedule_keys, deliverResults: async () => {}, log });
  const asked = { meansOf: find, suspended: async () => new Set<string>(), find, withDraft: find };
  const runs = createAgentRuns({ clock, runs: scheduling, schedules, ledger, schedule_keys, models, ...asked });
  const waiting = createWaitingSchedules({ schedules, ledger, log });
  return { ...fixture, scheduling, store, runs, paused, ...waiting };
};
let on: ReturnType<typeof createModules>;
let agent: { user_id: string; agent_id: string };
beforeEach(async () => {
  await db.query({
    text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change, schedule, occurrence, agent, agent_version",
  });
  on = createModules();
  agent = { user_id: await on.account(5), agent_id: newId() };
  const { user_id, agent_id: id } = agent;
  const config = newConfig({ name: "Daily", model_id: "lab/plain", run_prompt: "Go." });
  const now = on.clock.now();
  const state = { version: 1 };
  const times = { created_at: now, updated_at: now, deleted_at: null };
  await db.transaction(async (tx) => {
    await on.store.insertAgent(tx, { ...config, ...state, ...times, user_id, id });
    await on.scheduling.setSchedule(tx, agent, { interval: "daily", times: ["09:00"], timezone: "UTC" });
  });
});

/** Claims the run that is due a day later. */
const nextDay = async () => {
  on.pass(DAY_S);
  await on.scheduling.tick(on.runs.onDue);
  const [run] = await on.scheduling.claim("worker", 1, LIMITS);
  if (run === undefined) throw new Error("nothing was due");
  return run.lease;
};
const failRun = async (error = LACKS_TOKENS) => on.scheduling.finishRun(await nextDay(), { status: "failed", error });
const isPaused = async () => {
  return (await on.scheduling.schedule(agent))?.paused_reason !== null;
};
const failures = async () => (await on.scheduling.schedule(agent))?.consecutive_failures;

describe("a schedule that was paused because tokens were missing", () => {
  test("is resumed by the sweep after a grant that was not reported", async () => {
    await failRun();
    await on.resumeRefilled();
    expect(await isPaused()).toBe(true);
    await on.grant(agent.user_id, 1_000);
    await on.resumeRefilled();
    expect(await isPaused()).toBe(false);
  });

  test("is resumed if the grant came after its run had read the balance and before the pause", async () => {
    const lease = await nextDay();
    // The run has found the account empty, and has not ended yet.
    await on.grant(agent.user_id, 1_000);
    await on.onGrant(agent.user_id);
    await on.scheduling.finishRun(lease, { status: "failed", error: LACKS_TOKENS });
    expect(await isPaused()).toBe(true);
    await on.resumeRefilled();
    expect(await isPaused()).toBe(false);
  });

  test("is resumed once for each grant, however small; a rest of an earlier grant does not resume it", async () => {
    await failRun();
    await on.grant(agent.user_id, 1);
    await on.resumeRefilled();
    await failRun();
    await on.resumeRefilled();
    await on.onGrant(agent.user_id);
    expect(await isPaused()).toBe(true);
    await on.grant(agent.user_id, 1);
    await on.onGrant(agent.user_id);
    expect(await isPaused()).toBe(false);
  });

  test("is resumed when overage is allowed, raised or reset, and not when it is lowered or set to the same value", async () => {
    const { user_id } = agent;
    const allow = (cap_tokens: number | null) => on.ledger.setOverage({ user_id, cap_tokens });
    await failRun();
    const resumed = async (change: () => Promise<unknown>) => {
      await change();
      await on.resumeRefilled();
      const is_resumed = !(await isPaused());
      if (is_resumed) await failRun();
      return is_resumed;
    };
    expect(await resumed(() => allow(10))).toBe(true);
    expect(await resumed(() => allow(10))).toBe(false);
    expect(await resumed(() => allow(4))).toBe(false);
    expect(await resumed(() => allow(20))).toBe(true);
    expect(await resumed(() => on.ledger.closeOveragePeriod({ user_id, carried_tokens: 0 }))).toBe(false);
    const held = await on.hold(user_id, 15);
    await on.settle(user_id, (held as { hold_id: string }).hold_id, 15);
    expect(await resumed(() => on.ledger.closeOveragePeriod({ user_id, carried_tokens: 0 }))).toBe(true);
    expect(await resumed(() => allow(null))).toBe(false);
  });

  test("is resumed when a payment that was taken back is reinstated", async () => {
    const { user_id } = agent;
    const { id: bucket_id } = await on.grant(user_id, 100);
    const back = { user_id, bucket_id, amount_tokens: 100, reason: "disputed" };
    await on.ledger.clawBack({ ...back, key: "lost" });
    await failRun();
    await on.resumeRefilled();
    expect(await isPaused()).toBe(true);
    await on.ledger.reinstate({ ...back, key: "won" });
    await on.resumeRefilled();
    expect(await isPaused()).toBe(false);
  });

  test("is checked by every node, and reported at most once", async () => {
    await failRun();
    await on.grant(agent.user_id, 1_000);
    await Promise.all([on.resumeRefilled(), on.onGrant(agent.user_id), on.resumeRefilled()]);
    expect([await isPaused(), on.paused]).toEqual([false, [agent.agent_id]]);
  });
});

describe("failures in a row", () => {
  const broken = { code: "model_unavailable", message: "It failed." };

  test("do not include runs without tokens, and are counted from 0 after a grant", async () => {
    await failRun(broken);
    await failRun(broken);
    expect(await failures()).toBe(2);
    await failRun();
    expect(await failures()).toBe(2);
    await on.grant(agent.user_id, 1_000);
    await on.resumeRefilled();
    expect(await failures()).toBe(0);
  });

  test("stay the reason of the pause that they caused, also after a grant", async () => {
    for (let failure = 1; failure < 5; failure += 1) await failRun(broken);
    const late = await nextDay();
    // A run-now paused the schedule while the due run was at work.
    await on.scheduling.pauseSchedule(agent, "5 failed runs in a row");
    await on.scheduling.finishRun(late, { status: "failed", error: LACKS_TOKENS });
    await on.grant(agent.user_id, 1_000);
    await on.onGrant(agent.user_id);
    await on.resumeRefilled();
    expect([await isPaused(), await failures()]).toEqual([true, 4]);
  });

  test("do not include a run-now without tokens, which does not pause either: its caller gets the error", async () => {
    await on.scheduling.start(agent);
    const [run] = await on.scheduling.claim("worker", 1, LIMITS);
    if (run === undefined) throw new Error("nothing was queued");
    await on.scheduling.finishRun(run.lease, { status: "failed", error: LACKS_TOKENS });
    expect([await isPaused(), await failures()]).toEqual([false, 0]);
  });
});
