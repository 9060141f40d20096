import { expect, test } from "vitest";
import type { RunFinish } from "../../src/agents/runs/runs.types.ts";
import { FAILED, MODEL_CALL, USAGE, useQueue } from "./run-queue-fixture.ts";

// contract 6.5.1: a chat may have 32 MB, and a run that cost nothing must not fill the disk with them.

const queue = useQueue();
const TERMS = { request_id: "request", api_key_id: null };
const INPUT = { ...TERMS, messages: [{ role: "user", content: "hello" }], tools: [], labels: { user: "u" } };

async function chat() {
  return queue.scheduling.start({ ...queue.agent, trigger: "chat", model_id: "lab/small", engine_input: INPUT });
}
async function inputOf(run_id: string) {
  const rows = await queue.db.query<{ engine_input: unknown }>({
    text: "select engine_input from run where id = $1",
    values: [run_id],
  });
  return rows[0]?.engine_input;
}
/** A chat that ends so; with a cost, its model step was charged before. */
async function ended(finish: RunFinish, { is_paid }: { is_paid: boolean }) {
  const { id } = await chat();
  const { lease } = await queue.claimOne();
  if (is_paid) {
    await queue.scheduling.startStep(lease, MODEL_CALL);
    await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", result: {}, usage: USAGE });
  }
  expect(await inputOf(id)).toEqual(INPUT);
  expect(await queue.scheduling.finishRun(lease, finish)).toBe(true);
  return inputOf(id);
}

test("a chat that failed and cost nothing loses its messages", async () => {
  expect(await ended(FAILED, { is_paid: false })).toEqual(TERMS);
});

test("a chat that was cancelled in the queue loses its messages", async () => {
  const { id } = await chat();
  await queue.scheduling.requestCancel(queue.agent, id);
  expect(await inputOf(id)).toEqual(TERMS);
});

test("a run-now that failed and cost nothing keeps a short input and run_prompt, and no long one", async () => {
  const long = [...crypto.getRandomValues(new Uint8Array(20_000))].join("");
  for (const [input, run_prompt, kept] of [
    [{ city: "Oslo" }, "Go.", { input: { city: "Oslo" }, run_prompt: "Go." }],
    [{ noise: long }, long, { input: null, run_prompt: null }],
  ] as const) {
    const { id } = await queue.scheduling.start({ ...queue.agent, model_id: "lab/small", input, run_prompt });
    const { lease } = await queue.claimOne();
    await queue.scheduling.finishRun(lease, FAILED);
    const [row] = await queue.db.query({ text: "select input, run_prompt from run where id = $1", values: [id] });
    expect(row).toEqual(kept);
  }
});

test("a chat that failed after a paid call keeps its messages, and so does each that succeeded", async () => {
  expect(await ended(FAILED, { is_paid: true })).toEqual(INPUT);
  expect(await ended({ status: "succeeded", output: "hi" }, { is_paid: false })).toEqual(INPUT);
});
