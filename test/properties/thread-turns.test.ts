import { expect, inject, test } from "vitest";
import { createThreads } from "../../src/agents/chat/threads.service.ts";
import type { RunConfig } from "../../src/agents/runs/transcript.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { insertAgent } from "../support/database.ts";
import { useQueue } from "./run-queue-fixture.ts";

// The earlier turns of a thread can have megabytes each, and a model's context has room for a few of them.

const queue = useQueue();
const config = { model_id: "lab/small", auto_route: false, system_prompt: null } as RunConfig;
const model = { context_window: 128_000 };
const models = { find: () => model, list: () => [model] } as never;

/** A thread with turns of these lengths, oldest first. Returns what its next turn reads and sends. */
async function nextTurn(lengths: number[]) {
  const { user_id, agent_id } = queue.agent;
  const read: number[] = [];
  const journals: typeof queue.scheduling.journals = (user, ids) => {
    read.push(ids.length);
    return queue.scheduling.journals(user, ids);
  };
  const clock = { now: () => queue.now };
  const threads = createThreads({ db: queue.db, clock, models, runs: { ...queue.scheduling, journals } });
  const key = { user_id, agent_id, thread_id: "t1" };
  for (const length of lengths) {
    const id = newId();
    const messages = [{ role: "user", content: "x".repeat(length) }];
    await queue.db.query({
      text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, finished_at, engine_input, priority)
        values ($1, $2, $3, 1, 'chat', 'succeeded', $4, $4, $5, 0)`,
      values: [user_id, id, agent_id, queue.now, JSON.stringify({ messages, thread_id: "t1" })],
    });
    await queue.db.transaction((tx) => threads.begin(tx, key, { run_id: id, messages: [] }));
  }
  const { id } = await queue.enqueue(queue.agent, "chat");
  await queue.db.transaction((tx) => threads.begin(tx, key, { run_id: id, messages: [] }));
  const run = { ...(await queue.claimOne()), engine_input: { messages: [], thread_id: "t1" } };
  const { messages } = (await threads.withHistory(run, config)).engine_input as { messages: unknown[] };
  return { sent: messages.length, read: read.reduce((sum, turns) => sum + turns, 0) };
}

test("a turn after large turns reads a few of them, not a whole page", async () => {
  expect(await nextTurn(Array(20).fill(150_000))).toEqual({ sent: 1, read: 4 });
});

test("a turn after small turns sends all of them", async () => {
  expect(await nextTurn(Array(47).fill(100))).toEqual({ sent: 47, read: 47 });
});

test("a turn after many turns sends those that fit, and reads few more", async () => {
  const { sent, read } = await nextTurn(Array(40).fill(10_000));
  expect(sent).toBe(19);
  expect(read).toBeLessThanOrEqual(20);
});

test.skipIf(inject("storage").kind === "embedded")(
  "a thread of an agent that is deleted at the same moment is not created: it would stay until the user is erased",
  async () => {
    const { user_id, agent_id } = queue.agent;
    await insertAgent(queue.db, queue.agent);
    const threads = createThreads({ db: queue.db, clock: { now: () => queue.now }, models, runs: queue.scheduling });
    const created = await queue.db.transaction(async (tx) => {
      await tx.query({ text: "delete from agent where user_id = $1 and id = $2", values: [user_id, agent_id] });
      await threads.forget(tx, user_id, agent_id);
      const creation = threads.create({ user_id, agent_id, thread_id: "t1" }).catch((error) => error);
      const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
      await Promise.race([creation, expect.poll(() => queue.db.query({ text: waiting })).toHaveLength(1)]);
      return { creation };
    });
    expect(await created.creation).toMatchObject({ shape: { status: 404 } });
    const left = { text: "select from thread where agent_id = $1", values: [agent_id] };
    expect(await queue.db.query(left)).toEqual([]);
  },
);
