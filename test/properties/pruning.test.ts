import { beforeEach, describe, expect, inject, test } from "vitest";
import { findChargedAgents } from "../../src/account/ledger/usage.store.ts";
import { createThreads } from "../../src/agents/chat/threads.service.ts";
import { createAgentsStore } from "../../src/agents/definitions/agents.store.ts";
import { createRetention } from "../../src/agents/definitions/retention.ts";
import type { OnPrune } from "../../src/agents/runs/runs.types.ts";
import { createWebhookKeyStore } from "../../src/agents/tools/webhook-key.store.ts";
import type { AgentKey } from "../../src/api/contract/agents.ts";
import type { ChatMessage } from "../../src/api/contract/completions.ts";
import type { Tx } from "../../src/platform/db/db.ts";
import { addDays } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { insertAgent } from "../support/database.ts";
import { FAILED, MODEL_CALL, START, useQueue } from "./run-queue-fixture.ts";

// Runs are deleted from a database of this file's own.

const queue = useQueue();
const DONE = { status: "succeeded", output: "Done." } as const;
const clock = { now: () => queue.now };
beforeEach(async () => {
  await queue.db.query({
    text: "truncate occurrence, agent, agent_version, thread, thread_turn, usage_daily, agent_webhook_key",
  });
});

const threads = () => createThreads({ db: queue.db, clock, runs: queue.scheduling, models: {} as never });
const retention = (keep_days: number | null, onPrune: OnPrune = threads().forgetTurns) => {
  const store = createAgentsStore(queue.db);
  return createRetention({
    db: queue.db,
    clock,
    runs: queue.scheduling,
    schedules: queue.scheduling,
    onPrune,
    ledger: { chargedAgents: (agents) => findChargedAgents(queue.db, agents) },
    onDelete: createWebhookKeyStore(queue.db).deleteAgents,
    store,
    keep_days,
  });
};
async function ended(trigger: "manual" | "chat" = "manual"): Promise<string> {
  const { id } = await queue.enqueue(queue.agent, trigger);
  const { lease } = await queue.claimOne();
  await queue.scheduling.startStep(lease, MODEL_CALL);
  expect(await queue.scheduling.finishRun(lease, DONE)).toBe(true);
  return id;
}
const ids = async () =>
  (await queue.db.query<{ id: string }>({ text: "select id from run order by id" })).map(({ id }) => id);
const counted = async (table: string) =>
  (await queue.db.query<{ rows: number }>({ text: `select count(*) as rows from ${table}` }))[0]?.rows;

describe("the operator's retention", () => {
  test("deletes older finished runs with their steps, but no unfinished or younger run and no agent's last run", async () => {
    await ended();
    await queue.enqueue();
    const open = await queue.claimOne();
    await queue.scheduling.startStep(open.lease, MODEL_CALL);
    const waiting = await queue.enqueue();
    queue.now = addDays(START, 5);
    const young = await ended();
    queue.agent = { user_id: newId(), agent_id: newId() };
    queue.now = START;
    const last = await ended();
    queue.now = addDays(START, 8);
    await retention(7).pruneOld();
    expect(await ids()).toEqual([open.lease.run_id, waiting.id, young, last]);
    expect(await counted("run_step")).toBe(3);
  });

  test("without a limit, which is the default, deletes nothing", async () => {
    await ended();
    await ended();
    queue.now = addDays(START, 10_000);
    await retention(null).pruneOld();
    expect(await ids()).toHaveLength(2);
  });

  test("goes on while a batch of the ledger is at work, and lets the next batch begin", async () => {
    await ended();
    await ended();
    queue.now = addDays(START, 8);
    const beginBatch = (tx: Tx) => tx.query({ text: "select ledger_lock('{}', now())" });
    const clear = threads().forgetTurns;
    const pruning = retention(7, (tx, runs) => queue.db.transaction(beginBatch).then(() => clear(tx, runs)));
    await queue.db.transaction(async (tx) => {
      await beginBatch(tx);
      await pruning.pruneOld();
    });
    expect(await ids()).toHaveLength(1);
  });

  test("deletes a long backlog in batches of bounded size, one after the other, and then rests for an hour", async () => {
    const { user_id, agent_id } = queue.agent;
    await queue.db.query({
      text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, finished_at, engine_input, priority)
        select $1, gen_random_uuid(), $2, 1, 'manual', 'succeeded', $3, $3, '{}', 1 from generate_series(1, 2500)`,
      values: [user_id, agent_id, START],
    });
    const kept = retention(1);
    queue.now = addDays(START, 2);
    await kept.pruneOld();
    expect(await counted("run")).toBe(500);
    await kept.pruneOld();
    expect(await counted("run")).toBe(1);
    await queue.db.query({ text: "update run set id = '00000000-0000-7000-8000-000000000000'" });
    const newer = await ended();
    await kept.pruneOld();
    expect(await counted("run")).toBe(2);
    queue.now = addDays(START, 2.05);
    await kept.pruneOld();
    expect(await ids()).toEqual([newer]);
  });
});

/** The first 20 are scheduled, and each tenth has cost something. */
function insertCancelled({ user_id, agent_id }: AgentKey, runs: number, id_prefix = "00000000-0000-7000-8000-") {
  return queue.db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, finished_at, engine_input, priority,
        cost_tokens, scheduled_for)
      select $1, ($5 || lpad(n::text, 12, '0'))::uuid, $2, 1,
        case when n <= 20 then 'schedule' else 'manual' end, 'cancelled', $3, $3, '{}', 1,
        case when n % 10 = 0 then 5 else 0 end, case when n <= 20 then timestamptz '2026-01-01' end
      from generate_series(1, $4::integer) n`,
    values: [user_id, agent_id, START, runs, id_prefix],
  });
}

test("of a user's failed and cancelled runs the newest 10,000 stay, and older ones that cost something or were scheduled", async () => {
  await insertCancelled(queue.agent, 10_320);
  await insertCancelled({ user_id: newId(), agent_id: newId() }, 100);
  await retention(null).pruneOld();
  const left = await queue.db.query<{ old: number; all: number }>({
    text: `select count(*) filter (where id <= '00000000-0000-7000-8000-000000000320') as old, count(*) as all
      from run group by user_id order by count(*)`,
  });
  expect(left).toEqual([
    { old: 100, all: 100 },
    { old: 20 + 30, all: 10_050 },
  ]);
});

test.each([
  ["30 days after it, and not its row, whose name a charge needs", true, 29, 31],
  ["an hour after it if it has no usage, and its row", false, 0.04, 0.09],
])("runs and the webhook key of a deleted agent go %s", async (_what, is_charged, days_before, days_after) => {
  await ended();
  const { user_id, agent_id } = queue.agent;
  await queue.db.query({
    text: `insert into agent (user_id, id, version, name, auto_route, is_active, tools_config,
        limits, created_at, updated_at, deleted_at)
      values ($1, $2, 1, 'gone', true, true, '{}', '{}', $3, $3, $3)`,
    values: [user_id, agent_id, START],
  });
  await queue.db.query({
    text: "insert into agent_webhook_key (user_id, agent_id, sealed, created_at) values ($1, $2, '', $3)",
    values: [user_id, agent_id, START],
  });
  if (is_charged) {
    await queue.db.query({
      text: `insert into usage_daily (user_id, day, model, agent_id, api_key_id, requests, input_tokens, cached_input_tokens,
          output_tokens, cost)
        values ($1, '2026-03-01', 'lab/small', $2, $3, 1, 1, 0, 1, 1)`,
      values: [user_id, agent_id, newId()],
    });
  }
  const kept = retention(null);
  const rows = async () => [(await ids()).length, await counted("agent_webhook_key"), await counted("agent")];
  queue.now = addDays(START, days_before);
  await kept.pruneOld();
  expect(await rows()).toEqual([1, 1, 1]);
  queue.now = addDays(START, days_after);
  await kept.pruneOld();
  expect(await rows()).toEqual([0, 0, is_charged ? 1 : 0]);
});

describe("conversations", () => {
  const key = (thread_id: string) => ({ ...queue.agent, thread_id });
  /** A turn, whose run has succeeded. */
  async function turn(thread_id: string, text?: string): Promise<string> {
    const messages: ChatMessage[] = text === undefined ? [] : [{ role: "user", content: text }];
    const run_id = await ended("chat");
    await queue.db.query({
      text: "update run set engine_input = engine_input || jsonb_build_object('messages', $2::jsonb) where id = $1",
      values: [run_id, JSON.stringify(messages)],
    });
    await queue.db.transaction((tx) => threads().begin(tx, key(thread_id), { run_id, messages }));
    return run_id;
  }

  test("lose the turns whose runs are too old, and are deleted with their last turn; one without turns stays", async () => {
    await insertAgent(queue.db, queue.agent);
    await threads().create(key("never-begun"));
    await turn("old");
    await turn("going-on", "The first question");
    await turn("renamed", "The first question");
    await threads().rename(key("renamed"), "Plans");
    queue.now = addDays(START, 5);
    const second = await turn("going-on", "The second question");
    await turn("renamed");
    queue.now = addDays(START, 8);
    await retention(7).pruneOld();
    const page = { limit: 10, before_turn: null };
    expect((await threads().detail(key("going-on"), page)).record.turns).toMatchObject([{ run_id: second }]);
    expect((await threads().detail(key("never-begun"), page)).record.turns).toEqual([]);
    await expect(threads().detail(key("old"), page)).rejects.toThrow("This thread");
    expect(await counted("thread_turn")).toBe(2);
    // A title is deleted with the message that it comes from; the sweep takes the next one.
    const titles = async (q?: string) => {
      const listed = await threads().list(queue.agent.user_id, { q }, { limit: 10, before_uid: null });
      return Object.fromEntries(listed.map(({ record }) => [record.id, record.title]));
    };
    expect(await titles()).toEqual({ "never-begun": null, "going-on": null, renamed: "Plans" });
    await threads().addTitles();
    expect(await titles()).toEqual({ "never-begun": null, "going-on": "The second question", renamed: "Plans" });
    expect(await titles("QUESTION")).toEqual({ "going-on": "The second question" });
    expect(await titles("first")).toEqual({});
  });

  test("keep their answered turns when a later turn that failed is deleted, and the next turn follows them", async () => {
    const answered = await turn("going-on");
    const failed = await queue.enqueue(queue.agent, "chat");
    const { lease } = await queue.claimOne();
    expect(await queue.scheduling.finishRun(lease, FAILED)).toBe(true);
    await queue.db.transaction((tx) => threads().begin(tx, key("going-on"), { run_id: failed.id, messages: [] }));
    await insertCancelled(queue.agent, 10_020, "ffffffff-0000-7000-8000-");
    await retention(null).pruneOld();
    expect((await ids()).slice(0, 2)).toEqual([answered, "ffffffff-0000-7000-8000-000000000001"]);
    const page = { limit: 10, before_turn: null };
    expect((await threads().detail(key("going-on"), page)).record.turns).toMatchObject([{ run_id: answered }]);
    await turn("going-on");
    expect(await queue.db.query({ text: "select last_turn from thread" })).toEqual([{ last_turn: 2 }]);
  });

  test.skipIf(inject("storage").kind === "embedded")(
    "keep a turn that begins while the previous turn is being deleted",
    async () => {
      await turn("going-on");
      await ended();
      queue.now = addDays(START, 8);
      const { promise: locked, resolve: hasLocked } = Promise.withResolvers<void>();
      const { promise: may_go_on, resolve: goOn } = Promise.withResolvers<void>();
      const next = newId();
      const beginning = queue.db.transaction(async (tx) => {
        await threads().begin(tx, key("going-on"), { run_id: next, messages: [] });
        hasLocked();
        await may_go_on;
      });
      await locked;
      const pruning = retention(7).pruneOld();
      const waits =
        "select count(*) as rows from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
      await expect.poll(async () => (await queue.db.query<{ rows: number }>({ text: waits }))[0]?.rows).toBe(1);
      goOn();
      await Promise.all([beginning, pruning]);
      const rows = await queue.db.query({ text: "select last_turn, last_run_id from thread" });
      expect(rows).toEqual([{ last_turn: 2, last_run_id: next }]);
      expect(await counted("thread_turn")).toBe(1);
    },
  );
});

test("the search for charges of 50 deleted agents reads their user's days of usage once, not once per agent", async () => {
  const { user_id } = queue.agent;
  await queue.db.query({
    text: `insert into usage_daily (user_id, day, model, agent_id, api_key_id, requests, input_tokens, cached_input_tokens,
        output_tokens, cost)
      select $1, date '2026-01-01' + n, 'lab/small', $2, $2, 1, 1, 0, 1, 1 from generate_series(1, 2000) n`,
    values: [user_id, queue.agent.agent_id],
  });
  await queue.db.query({ text: "analyze usage_daily" });
  const agents = Array.from({ length: 50 }, () => ({ user_id, agent_id: newId() }));
  const [found, read] = await queue.db.transaction(async (tx) => [
    await findChargedAgents(tx, [...agents, queue.agent]),
    await tx.query<{ rows: number }>({
      text: `select (seq_tup_read + idx_tup_fetch)::integer as rows from pg_stat_xact_user_tables
        where relname = 'usage_daily'`,
    }),
  ]);
  expect([...found]).toEqual([queue.agent.agent_id]);
  expect(read[0]?.rows).toBeLessThanOrEqual(4_000);
});
