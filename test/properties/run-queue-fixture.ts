import { afterAll, beforeAll, beforeEach } from "vitest";
import type { ClaimedRun } from "../../src/agents/runs/runs.types.ts";
import type { AgentKey } from "../../src/api/contract/agents.ts";
import type { RunRecord } from "../../src/api/contract/runs.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createScheduling, type Scheduling, type SchedulingOptions } from "../support/scheduling.ts";

export const START: Instant = "2026-03-01T09:00:00.000Z";
export const LIMITS = { concurrent_runs: 50, concurrent_runs_per_user: 10 };
export const MODEL_CALL = { index: 0, type: "model", name: "lab/small", arguments: { messages: 1 } } as const;
export const USAGE = { input_tokens: 10, output_tokens: 5, cost_tokens: 9 };
export const FAILED = { status: "failed", error: { code: "timeout", message: "It took too long." } } as const;

export interface Queue {
  db: Db;
  scheduling: Scheduling;
  /** Called for what `scheduling` reports; a test may replace them. */
  calls: Required<Pick<SchedulingOptions, "notify" | "onLost" | "onCancelled">>;
  now: Instant;
  /** A new one for each test. */
  agent: AgentKey;
  enqueue(of?: AgentKey, trigger?: "manual" | "chat" | "webhook"): Promise<RunRecord>;
  /** Claims the one run in the queue. */
  claimOne(worker_id?: string): Promise<ClaimedRun>;
  /** Ends all leases, as after the death of their workers. */
  expireLeases(): Promise<void>;
  /** Opens the database again, as a new process does. */
  reopen(): Promise<void>;
}

/** One queue for the tests of a file. Before each test it is emptied and the clock is set to START. */
export function useQueue({ ends_with_step = false } = {}): Queue {
  let database: TestDatabase | undefined;
  const queue: Queue = {
    db: undefined as unknown as Db,
    scheduling: undefined as unknown as Scheduling,
    calls: { notify: async () => {}, onLost: () => {}, onCancelled: () => {} },
    now: START,
    agent: { user_id: newId(), agent_id: newId() },
    enqueue(of = queue.agent, trigger = "manual") {
      const run = { ...of, trigger, model_id: "lab/small", engine_input: { prompt: "go" } };
      return queue.scheduling.start(trigger === "webhook" ? { ...run, trigger_id: newId() } : run);
    },
    async claimOne(worker_id = "worker-1") {
      const [run, ...others] = await queue.scheduling.claim(worker_id, 1, LIMITS);
      if (run === undefined || others.length > 0) throw new Error("one run was expected");
      return run;
    },
    async expireLeases() {
      await queue.db.query({
        text: "update run set lease_until = now() - interval '1 second' where lease_until is not null",
      });
    },
    async reopen() {
      await queue.db?.close();
      database ??= await createTestDatabase();
      queue.db = await database.open();
      queue.scheduling = createScheduling({
        db: queue.db,
        clock: { now: () => queue.now },
        ends_with_step,
        notify: (event, tx) => queue.calls.notify(event, tx),
        onLost: (...lost) => queue.calls.onLost(...lost),
        onCancelled: (run) => queue.calls.onCancelled(run),
      });
    },
  };
  beforeAll(() => queue.reopen());
  afterAll(async () => {
    await queue.db?.close();
    await database?.drop();
  });
  beforeEach(async () => {
    queue.now = START;
    queue.agent = { user_id: newId(), agent_id: newId() };
    await queue.db.query({ text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change" });
  });
  return queue;
}
