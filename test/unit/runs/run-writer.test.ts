import { expect, test } from "vitest";
import { createRetry, createRunWriter, DatabaseUnavailableError } from "../../../src/agents/runs/run-writer.ts";
import type { RunLease } from "../../../src/agents/runs/runs.types.ts";
import { errors } from "../../../src/kernel/errors.ts";

const away = Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNRESET" });
const lease = { user_id: "u", agent_id: "a", run_id: "r" } as RunLease;
const FINISH = { status: "succeeded", output: "Done." } as const;
const STEP = { index: 0, status: "succeeded" } as const;

/** A writer whose first write succeeds without an answer, and whose second one finds nothing left to write. */
function unanswered(found: string, stopping = new AbortController()) {
  let tries = 0;
  const write = async () => {
    tries += 1;
    if (tries === 1) throw away;
    return false;
  };
  const runs = {
    finishRun: write,
    finishStep: write,
    getRun: async () => ({ status: found }),
    journal: async () => [{ index: 0, status: found }],
  };
  const retry = createRetry({ log: { warn: () => {} }, stopping: stopping.signal });
  return createRunWriter(runs as never, { retry, onStep: () => {} });
}

test.each([
  ["its own", "succeeded", true],
  ["another's", "failed", false],
])(
  "a write whose answer was lost does not count as a lost lease: the stored outcome is %s",
  async (_, found, is_ours) => {
    expect(await unanswered(found).finishRun(lease, FINISH)).toBe(is_ours);
    expect(await unanswered(found).finishStep(lease, STEP)).toBe(is_ours);
  },
);

test("a lease that is lost at the first attempt is lost", async () => {
  const retry = createRetry({ log: { warn: () => {} }, stopping: new AbortController().signal });
  const runs = { finishRun: async () => false } as never;
  expect(await createRunWriter(runs as never, { retry, onStep: () => {} }).finishRun(lease, FINISH)).toBe(false);
});

test("a process that stops tries once more, without a pause", async () => {
  const stopping = new AbortController();
  const retry = createRetry({ log: { warn: () => {} }, stopping: stopping.signal });
  let tries = 0;
  const failing = retry(async () => {
    tries += 1;
    // The pause after this attempt would take minutes.
    if (tries === 5) setImmediate(() => stopping.abort());
    throw away;
  });
  await expect(failing).rejects.toThrow(DatabaseUnavailableError);
  expect(tries).toBe(6);
});

test("a write that fails while the process stops is tried once more", async () => {
  const stopping = new AbortController();
  stopping.abort();
  expect(await unanswered("succeeded", stopping).finishRun(lease, FINISH)).toBe(true);
});

test.each([
  ["the database rejects permanently", Object.assign(new Error("invalid input"), { code: "22P02" })],
  ["has no row any more", errors.notFound("This run")],
])("a write that %s is not retried", async (_, failure) => {
  const retry = createRetry({ log: { warn: () => {} }, stopping: new AbortController().signal });
  let tries = 0;
  const failing = retry(async () => {
    tries += 1;
    throw failure;
  });
  await expect(failing).rejects.toBe(failure);
  expect(tries).toBe(1);
});

test.each([
  ["its own", "requires_action", "suspended"],
  ["another's", "running", "lost"],
])("a suspension whose answer was lost is not made twice: the stored status is %s", async (_, found, state) => {
  let tries = 0;
  const suspendRun = async () => {
    tries += 1;
    if (tries === 1) throw away;
    return "lost" as const;
  };
  const runs = { suspendRun, getRun: async () => ({ status: found }) };
  const retry = createRetry({ log: { warn: () => {} }, stopping: new AbortController().signal });
  const writer = createRunWriter(runs as never, { retry, onStep: () => {} });
  expect(await writer.suspendRun(lease, { status: "requires_action", record: async () => {} })).toBe(state);
});
