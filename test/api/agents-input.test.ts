import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { completion, fetching } from "../support/upstream.ts";

let lab: Lab;
let user: Client;

beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00.000Z" } });
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
    expect((await runNow(id)).status).toBe(200);
    await user.request("DELETE", `/api/v1/agents/${id}`);
    const db = await lab.service.database.open();
    const rows = await db.query({ text: "select input_schema, output_schema from agent where id = $1", values: [id] });
    await db.close();
    expect(rows).toEqual([{ input_schema: null, output_schema: null }]);
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

describe("a run whose prompts show what comes from outside", () => {
  let site: Site;
  let released: PromiseWithResolvers<void>;
  beforeAll(async () => {
    released = Promise.withResolvers();
    site = await startSite({
      "/": { body: "<p>12 boats.</p>" },
      "/slow": async (_request, response) => {
        await released.promise;
        response.end("<p>13 boats.</p>");
      },
    });
    await lab.service.restart({ PURSER_EGRESS_ALLOW: site.host });
  });
  afterAll(() => site.close());

  const withFetch = (run_prompt: string) => create({ run_prompt, tools_config: { web_fetch: { enabled: true } } });
  /** Whether a run may fetch an address that only its model composed, in its first step. */
  async function mayFetch(id: string, body?: object): Promise<boolean> {
    lab.upstream.answer(fetching(`${site.url}/?composed`), completion("12 boats"));
    const { body: run } = await runNow(id, body);
    expect(run.status).toBe("succeeded");
    return run.steps[1].status === "succeeded";
  }

  test("is tainted from its start if the run of the last output had read a page, and so is the next one", async () => {
    const { id } = await withFetch("Compare with {{last_output}}.");
    expect(await mayFetch(id)).toBe(true);
    expect(await mayFetch(id)).toBe(false);
    expect(await mayFetch(id)).toBe(false);
  });

  test("is not tainted by the output of a run that read nothing from outside", async () => {
    const { id } = await withFetch("Compare with {{last_output}}.");
    await runNow(id);
    expect(await mayFetch(id)).toBe(true);
  });

  test("is tainted from its start by an end user's input, and not by its owner's", async () => {
    const { id } = await withFetch("Answer {{input.question}}.");
    const input = { question: "How many boats?" };
    expect(await mayFetch(id, { input })).toBe(true);
    expect(await mayFetch(id, { input, metadata: { user_id: "customer-7" } })).toBe(false);
    expect(lab.upstream.requests.at(-1)?.body.messages[1].content).toMatch(
      /begin: text from outside.*\nHow many boats\?\n/,
    );
  });

  test("shows the same text after its process has ended in the middle of it, although the last output is gone", async () => {
    const { id } = await withFetch("At {{now}}, after {{last_run_at}}: {{last_output}}");
    lab.upstream.answer(completion("11 boats"));
    const { body: first } = await runNow(id);
    lab.upstream.requests.length = 0;
    lab.upstream.answer(fetching(`${site.url}/slow`), completion("Done."));
    const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
    await expect.poll(() => site.requests.some(({ path }) => path === "/slow")).toBe(true);
    const restarting = lab.service.restart();
    released.resolve();
    await restarting;
    const db = await lab.service.database.open();
    await db.query({
      text: "update run set output = 'changed', finished_at = finished_at - interval '1 day' where id = $1",
      values: [first.id],
    });
    await db.close();
    const run = async () => (await user.get(`/api/v1/agents/${id}/runs/${queued.id}`)).body;
    await expect.poll(async () => (await run()).status).toBe("succeeded");
    const [before, after] = [0, 1].map((at) => lab.upstream.requests[at]?.body.messages.slice(0, 2));
    expect(JSON.stringify(before)).toContain("11 boats");
    expect(after).toEqual(before);
  });
});

describe("a run without a schedule", () => {
  test("has the time of the agent's own schedule's zone", async () => {
    const { id } = await create({ run_prompt: "{{now}}", schedule_timezone: "Asia/Kolkata" });
    await runNow(id);
    const [system, task] = lab.upstream.requests.at(-1)?.body.messages ?? [];
    expect(task.content).toMatch(/\+05:30$/);
    expect(system.content).toMatch(/^This run began on \w+, .*\+05:30 \(Asia\/Kolkata\)\.$/);
  });
});
