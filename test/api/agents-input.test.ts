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

describe("an agent with input_schema", () => {
  const input_schema = {
    type: "object",
    properties: { city: { type: "string" }, unit: { enum: ["celsius", "kelvin"] } },
    required: ["city"],
    additionalProperties: false,
  };

  test("runs with an input that fits, which its prompt shows as the model got it", async () => {
    const { id } = await create({
      input_schema,
      system_prompt: "Units: {{input.unit}}.",
      run_prompt: "Weather in {{input.city}}.",
    });
    const { body: run } = await runNow(id, { input: { city: "Oslo {{date}}", unit: "kelvin" } });
    const { messages } = (await user.get(`/api/v1/agents/${id}/runs/${run.id}/prompt`)).body;
    expect(messages).toEqual([
      {
        role: "system",
        content: expect.stringMatching(/^Units: kelvin\.\n\nThis run began on \w+day, [\d-]+T[\d:]+\+00:00 \(UTC\)\.$/),
      },
      { role: "user", content: "Weather in Oslo {{date}}." },
    ]);
    expect(lab.upstream.requests.at(-1)?.body.messages).toEqual(messages);
  });

  test.each([
    [undefined, "missing_field", "input.city"],
    [{ city: 5 }, "invalid_value", "input.city"],
    [{ city: "Oslo", unit: "x" }, "invalid_value", "input.unit"],
    [{ city: "Oslo", town: "x" }, "unknown_field", "input.town"],
  ])("rejects the input %j and queues nothing", async (input, code, param) => {
    const { id } = await create({ input_schema });
    const { status, body } = await runNow(id, { input });
    expect([status, body.error.code, body.error.param]).toEqual([400, code, param]);
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toEqual([]);
  });

  test("keeps its schemas in each version, and none after its deletion", async () => {
    const { id } = await create({ input_schema, output_schema: { type: "object" } });
    await user.request("PUT", `/api/v1/agents/${id}`, { input_schema: null });
    expect((await user.get(`/api/v1/agents/${id}/versions/1`)).body).toMatchObject({ input_schema });
    expect((await user.get(`/api/v1/agents/${id}`)).body).toMatchObject({
      input_schema: null,
      output_schema: { type: "object" },
    });
  });

  test("rejects a run's own run_prompt with a near miss of a placeholder", async () => {
    const { id } = await create({ input_schema });
    const { status, body } = await runNow(id, { input: { city: "Oslo" }, run_prompt: "In {{input.ctiy}}" });
    expect([status, body.error.param, body.error.message]).toEqual([
      ...[400, "run_prompt"],
      expect.stringContaining("did you mean {{input.city}}?"),
    ]);
  });
});

describe("{{last_output}}", () => {
  test("is the output of the last succeeded run, between fences, and of a chat or a failed run never", async () => {
    const { id } = await create({ run_prompt: "Before: {{last_output}} ({{last_run_at}})" });
    const promptOf = async (run: { id: string }) =>
      (await user.get(`/api/v1/agents/${id}/runs/${run.id}/prompt`)).body.messages.at(-1).content;
    const { body: first } = await runNow(id);
    expect(await promptOf(first)).toBe("Before: none (never)");
    lab.upstream.answer(completion("12 {{date}} boats"));
    await runNow(id);
    lab.upstream.answer(completion("from a chat"));
    await user.post(`/api/v1/agents/${id}/chat`, { messages: [{ role: "user", content: "hi" }] });
    const { body: third } = await runNow(id);
    expect(await promptOf(third)).toMatch(
      /^Before: \[\w+ begin: .*\]\n12 \{\{date\}\} boats\n\[\w+ end .*\] \(\d{4}-.*\)$/,
    );
    expect(lab.upstream.requests.at(-1)?.body.messages.at(-1).content).toBe(await promptOf(third));
  });
});
