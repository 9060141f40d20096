import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

let lab: Lab;
let user: Client;

beforeAll(async () => {
  lab = await startLab();
});
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
});

async function create(fields: object = {}) {
  const made = await user.post("/api/v1/agents", {
    name: "Clerk",
    model_id: "lab/plain",
    run_prompt: "Look.",
    ...fields,
  });
  expect(made.status).toBe(201);
  return made.body;
}
const runNow = (id: string, body?: object) => user.post(`/api/v1/agents/${id}/runs`, body, { Prefer: "wait=30" });

describe("a run with input", () => {
  test("keeps its input and metadata in its record, and its metadata in lists and in the usage", async () => {
    const { id } = await create();
    const input = { city: "Oslo", days: [1, 2] };
    const metadata = { order: "A-17" };
    const { status, body: run } = await runNow(id, { input, metadata });
    expect([status, run.status]).toEqual([200, "succeeded"]);
    const { body: record } = await user.get(`/api/v1/agents/${id}/runs/${run.id}`);
    expect(record).toMatchObject({ input, metadata });
    const [listed] = (await user.get(`/api/v1/agents/${id}/runs`)).body.runs;
    expect(listed).toMatchObject({ id: run.id, metadata });
    expect(listed).not.toHaveProperty("input");
  });

  test("without a body has neither", async () => {
    const { id } = await create();
    const { body: run } = await runNow(id);
    expect(run).toMatchObject({ status: "succeeded", input: null, metadata: null });
  });

  test("executes its own run_prompt in place of the agent's, which its prompt shows", async () => {
    const { id } = await create();
    const { body: run } = await runNow(id, { run_prompt: "Listen." });
    const { messages } = (await user.get(`/api/v1/agents/${id}/runs/${run.id}/prompt`)).body;
    expect(messages.at(-1)).toEqual({ role: "user", content: "Listen." });
  });
});
