import { expect, test } from "vitest";
import { createInsist, DatabaseAwayError, insistent } from "../../../src/agents/insistent.ts";
import { errors } from "../../../src/errors.ts";
import type { Scheduling } from "../../../src/scheduling/scheduling.service.ts";
import type { RunLease } from "../../../src/scheduling/scheduling.types.ts";

const away = Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNRESET" });
const lease = { user_id: "u", agent_id: "a", run_id: "r" } as RunLease;
const FINISH = { status: "succeeded", output: "Done." } as const;
const STEP = { index: 0, status: "succeeded" } as const;

/** A scheduling whose writes are carried out and not answered at first, and find the second time that there is nothing left to write. */
function unanswered(found: string, stopping = new AbortController()) {
  let tries = 0;
  const write = async () => {
    tries += 1;
    if (tries === 1) throw away;
    return false;
  };
  const scheduling = {
    finishRun: write,
    finishStep: write,
    getRun: async () => ({ status: found }),
    journal: async () => [{ index: 0, status: found }],
  };
  const insist = createInsist({ log: { warn: () => {} }, stopping: stopping.signal });
  return insistent(scheduling as unknown as Scheduling, insist);
}

test.each([
  ["its own", "succeeded", true],
  ["another's", "failed", false],
])(
  "a write whose answer was lost is not taken for a lost lease: the outcome that is there is %s",
  async (_, found, is_ours) => {
    expect(await unanswered(found).finishRun(lease, FINISH)).toBe(is_ours);
    expect(await unanswered(found).finishStep(lease, STEP)).toBe(is_ours);
  },
);

test("a lease that is lost at the first try is lost", async () => {
  const insist = createInsist({ log: { warn: () => {} }, stopping: new AbortController().signal });
  const scheduling = { finishRun: async () => false } as unknown as Scheduling;
  expect(await insistent(scheduling, insist).finishRun(lease, FINISH)).toBe(false);
});

test("a process that stops tries once more, and waits for nothing", async () => {
  const stopping = new AbortController();
  const insist = createInsist({ log: { warn: () => {} }, stopping: stopping.signal });
  let tries = 0;
  const failing = insist(async () => {
    tries += 1;
    // the pause after this one is minutes long by the tests' measure
    if (tries === 5) setImmediate(() => stopping.abort());
    throw away;
  });
  await expect(failing).rejects.toThrow(DatabaseAwayError);
  expect(tries).toBe(6);
});

test.each([
  ["the database refuses, which it would again", Object.assign(new Error("invalid input"), { code: "22P02" })],
  ["is not there any more", errors.notFound("This run")],
])("what %s is not tried again", async (_, failure) => {
  const insist = createInsist({ log: { warn: () => {} }, stopping: new AbortController().signal });
  let tries = 0;
  const failing = insist(async () => {
    tries += 1;
    throw failure;
  });
  await expect(failing).rejects.toBe(failure);
  expect(tries).toBe(1);
});
