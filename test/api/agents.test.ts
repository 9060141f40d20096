import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

let lab: Lab;
let user: Client;

beforeAll(async () => {
  lab = await startLab();
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(() => lab.stop());

const minimal = { name: "Scout", model_id: "lab/plain" };
const scheduled = {
  ...minimal,
  run_prompt: "Go.",
  schedule_enabled: true,
  schedule_interval: "daily",
  schedule_time: "09:00",
};

async function create(fields: object = {}, owner = user) {
  const made = await owner.post("/api/v1/agents", { ...minimal, ...fields });
  expect(made.status).toBe(201);
  return made.body;
}
const put = (id: string, fields: object, owner = user) => owner.request("PUT", `/api/v1/agents/${id}`, fields);

test("safety: off is rejected until the operator allows it, and the error names the setting (contract 7)", async () => {
  const unjudged = { tools_config: { web_fetch: { enabled: true, safety: "off" } } };
  const refused = await user.post("/api/v1/agents", { ...minimal, ...unjudged });
  expect(refused).toMatchObject({
    status: 400,
    body: {
      error: {
        code: "invalid_value",
        param: "tools_config.web_fetch.safety",
        message: expect.stringContaining("PURSER_SAFETY_OFF"),
      },
    },
  });
  await lab.service.restart({ PURSER_SAFETY_OFF: "allowed" });
  const { id } = await create(unjudged);
  await lab.service.restart();
  expect((await put(id, { description: "Reads." })).status).toBe(200);
  expect((await put(id, unjudged)).status).toBe(400);
});

describe("an agent", () => {
  test("is returned with every field of the contract", async () => {
    const { id, created_at, updated_at, ...rest } = await create();
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(created_at).toBe(updated_at);
    expect(rest).toEqual({
      version: 1,
      name: "Scout",
      description: null,
      system_prompt: null,
      run_prompt: null,
      model_id: "lab/plain",
      auto_route: false,
      is_active: true,
      tools_config: {},
      client_tools: "ignore",
      input_schema: null,
      output_schema: null,
      deliveries: [],
      approval_hours: 24,
      on_budget: "fail",
      schedule_enabled: false,
      schedule_interval: null,
      schedule_time: null,
      schedule_day_of_week: null,
      schedule_days_of_week: null,
      schedule_day_of_month: null,
      schedule_timezone: "UTC",
      next_run_at: null,
      upcoming_runs: [],
      schedule_status: "off",
      schedule_paused_reason: null,
      schedule_api_key_id: null,
      consecutive_failures: 0,
      last_run: null,
      limits: {
        max_steps: 25,
        max_run_seconds: 900,
        max_cost_tokens_per_run: null,
        max_cost_tokens_per_month: null,
        max_consecutive_failures: 5,
      },
      model_settings: { temperature: null, top_p: null, reasoning_effort: null, max_output_tokens: null },
      secrets_used: [],
      warnings: [],
    });
    expect((await user.get(`/api/v1/agents/${id}`)).body).toEqual({ id, created_at, updated_at, ...rest });
  });

  test("with a schedule has its next run and the five after it", async () => {
    const agent = await create({
      ...scheduled,
      schedule_interval: "monthly",
      schedule_day_of_month: "last",
      schedule_timezone: "Asia/Kolkata",
    });
    expect(agent).toMatchObject({ schedule_status: "active", schedule_day_of_month: "last" });
    expect(agent.upcoming_runs).toHaveLength(5);
    expect(agent.next_run_at).toBe(agent.upcoming_runs[0].at);
    expect(agent.next_run_at).toMatch(/T03:30:00\.000Z$/);
    const disabled = (await put(agent.id, { is_active: false })).body;
    expect(disabled).toMatchObject({
      schedule_status: "off",
      next_run_at: null,
      upcoming_runs: [],
      schedule_enabled: true,
    });
  });

  test("changes only in the given fields, with one version per change", async () => {
    const { id } = await create({ description: "x", limits: { max_steps: 3 } });
    const changed = (await put(id, { name: "Ranger", description: null, limits: { max_run_seconds: 60 } })).body;
    expect(changed).toMatchObject({ version: 2, name: "Ranger", description: null, model_id: "lab/plain" });
    expect(changed.limits).toMatchObject({ max_steps: 3, max_run_seconds: 60 });
    expect((await put(id, { name: "Ranger" })).body.version).toBe(2);
    expect((await put(id, {})).body.version).toBe(2);
  });

  test("shows the configuration of each version, and each run has its version (appstrate#636)", async () => {
    const { id } = await create({ run_prompt: "Go.", limits: { max_steps: 3 } });
    await put(id, { run_prompt: "Stop.", model_id: "lab/odd" });
    const version = async (number: string, of = user) => of.get(`/api/v1/agents/${id}/versions/${number}`);
    const first = (await version("1")).body;
    expect(first).toMatchObject({ agent_id: id, version: 1, run_prompt: "Go.", model_id: "lab/plain" });
    expect(first.limits).toMatchObject({ max_steps: 3, max_run_seconds: 900 });
    const { agent_id: _, created_at, ...second } = (await version("2")).body;
    const { id: __, ...now } = (await user.get(`/api/v1/agents/${id}`)).body;
    expect({ ...now, ...second }).toEqual(now);
    expect(created_at).toBe(now.updated_at);
    for (const wrong of ["0", "3", "-1", "1.0", "x", "99999999999999999999"]) {
      expect((await version(wrong)).status).toBe(404);
    }
    expect((await version("1", await lab.service.newUser())).status).toBe(404);
    await user.request("DELETE", `/api/v1/agents/${id}`);
    expect((await version("1")).status).toBe(404);
  });

  test("is 404 once it is deleted, and its runs too", async () => {
    const { id } = await create();
    expect((await user.request("DELETE", `/api/v1/agents/${id}`)).status).toBe(204);
    for (const path of ["", "/runs", "/occurrences"])
      expect((await user.get(`/api/v1/agents/${id}${path}`)).status).toBe(404);
    expect((await put(id, { name: "x" })).status).toBe(404);
    expect((await user.request("DELETE", `/api/v1/agents/${id}`)).status).toBe(404);
    expect((await user.post(`/api/v1/agents/${id}/chat`, { messages: [{ role: "user", content: "hi" }] })).status).toBe(
      404,
    );
  });

  test("of another user is 404 everywhere", async () => {
    const { id } = await create();
    const other = await lab.service.newUser();
    const path = `/api/v1/agents/${id}`;
    const answers = await Promise.all([
      other.get(path),
      put(id, { name: "mine" }, other),
      other.request("DELETE", path),
      other.post(`${path}/runs`),
      other.get(`${path}/runs`),
      other.post(`${path}/chat`, { messages: [{ role: "user", content: "hi" }] }),
      user.get("/api/v1/agents/not-an-id"),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404, 404, 404]);
    expect((await user.get(path)).body.name).toBe("Scout");
  });

  test("is listed newest first, page by page", async () => {
    const owner = await lab.service.newUser();
    const ids: string[] = [];
    for (const name of ["a", "b", "c"]) ids.push((await create({ name }, owner)).id);
    const first = (await owner.get("/api/v1/agents?limit=2")).body;
    expect(first.agents.map(({ name }: { name: string }) => name)).toEqual(["c", "b"]);
    const second = (await owner.get(`/api/v1/agents?limit=2&cursor=${first.next_cursor}`)).body;
    expect(second).toMatchObject({ agents: [{ id: ids[0] }], next_cursor: null });
    expect((await owner.get("/api/v1/agents?cursor=nonsense")).body.error.code).toBe("invalid_cursor");
  });

  test("is listed as one that needs attention while its newest run failed or a schedule of it is paused", async () => {
    const owner = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const run = async (id: string) =>
      (await owner.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body.status;
    lab.upstream.answer(completion());
    const limits = { max_cost_tokens_per_run: 1 };
    const ids = new Map<string, string>();
    for (const name of ["never ran", "works", "recovers"])
      ids.set(name, (await create({ name, run_prompt: "Go." }, owner)).id);
    ids.set("fails", (await create({ name: "fails", run_prompt: "Go.", limits }, owner)).id);
    ids.set("waits", (await create({ ...scheduled, name: "waits" }, owner)).id);
    expect(await run(ids.get("works") ?? "")).toBe("succeeded");
    expect(await run(ids.get("fails") ?? "")).toBe("failed");
    await put(ids.get("recovers") ?? "", { limits }, owner);
    expect(await run(ids.get("recovers") ?? "")).toBe("failed");
    const { schedules } = (await owner.get(`/api/v1/agents/${ids.get("waits")}/schedules`)).body;
    await owner.post(`/api/v1/agents/${ids.get("waits")}/schedules/${schedules[0].id}/pause`);

    const listed = async (query = "") =>
      (await owner.get(`/api/v1/agents?needs_attention=true${query}`)).body.agents.map(
        ({ name }: { name: string }) => name,
      );
    expect(await listed()).toEqual(["waits", "fails", "recovers"]);
    await put(ids.get("recovers") ?? "", { limits: { max_cost_tokens_per_run: 100_000 } }, owner);
    expect(await run(ids.get("recovers") ?? "")).toBe("succeeded");
    expect(await listed()).toEqual(["waits", "fails"]);
    expect(await listed("&name=fai")).toEqual(["fails"]);
  });

  test("whose schedule fails needs attention until a run of it succeeds: a chat in between is no such run", async () => {
    const owner = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    lab.upstream.answer(completion());
    const { id } = await create({ ...scheduled, limits: { max_cost_tokens_per_run: 1 } }, owner);
    const run = async () =>
      (await owner.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" })).body.status;
    const isListed = async () => (await owner.get("/api/v1/agents?needs_attention=true")).body.agents.length === 1;
    expect(await run()).toBe("failed");
    await put(id, { limits: { max_cost_tokens_per_run: 100_000 } }, owner);
    const messages = [{ role: "user", content: "Hello." }];
    expect((await owner.post(`/api/v1/agents/${id}/chat`, { messages })).status).toBe(200);
    expect((await owner.get(`/api/v1/agents/${id}`)).body.last_run.status).toBe("succeeded");
    expect(await isListed()).toBe(true);
    expect(await run()).toBe("succeeded");
    expect(await isListed()).toBe(false);
  });

  test.each(["", "&sort=next_run_at"])(
    "is listed with few others if it is large, so that no list blocks the node: %s",
    async (sort) => {
      const owner = await lab.service.newUser();
      const paths = Array.from({ length: 50 }, (_, n) => `/${"p".repeat(990)}${n}`);
      const auth = { secret: "S", paths, inject: { type: "bearer" } };
      const servers = Array.from({ length: 20 }, (_, n) => ({
        name: `s${n}`,
        url: `https://s${n}.example.com/mcp`,
        auth,
      }));
      await owner.post("/api/v1/secrets", { name: "S", value: "a value of some length" });
      const large = {
        ...scheduled,
        system_prompt: "x".repeat(100_000),
        tools_config: { mcp: { enabled: false, servers } },
      };
      for (let n = 0; n < 5; n += 1) await create({ ...large, schedule_time: `09:0${n}` }, owner);
      const pages: string[][] = [];
      for (let next: string | null = ""; next !== null; ) {
        const { body } = await owner.get(`/api/v1/agents?limit=100${sort}${next === "" ? "" : `&cursor=${next}`}`);
        pages.push(body.agents.map((agent: { schedule_time: string }) => agent.schedule_time));
        next = body.next_cursor;
      }
      expect(pages.map(({ length }) => length)).toEqual([3, 2]);
      expect(pages.flat().toSorted()).toEqual(["09:00", "09:01", "09:02", "09:03", "09:04"]);
    },
  );
});

describe("an invalid body is rejected and nothing is written", () => {
  const cases: [string, unknown, string, string][] = [
    ["no name", { model_id: "lab/plain" }, "missing_field", "name"],
    ["no model", { name: "x" }, "missing_field", "model_id"],
    ["an unknown model", { ...minimal, model_id: "lab/none" }, "model_not_found", "model_id"],
    [
      "an unknown tool",
      { ...minimal, tools_config: { shell: { enabled: true } } },
      "unknown_field",
      "tools_config.shell",
    ],
    [
      "an unknown setting",
      { ...minimal, tools_config: { web_fetch: { enabled: true, x: 1 } } },
      "unknown_field",
      "tools_config.web_fetch.x",
    ],
    ["an unknown zone", { ...scheduled, schedule_timezone: "Mars/X" }, "invalid_value", "schedule_timezone"],
    ["an unknown interval", { ...scheduled, schedule_interval: "hourly" }, "invalid_value", "schedule_interval"],
    [
      "an unknown day",
      { ...scheduled, schedule_interval: "weekly", schedule_day_of_week: "funday" },
      "invalid_value",
      "schedule_day_of_week",
    ],
    [
      "an unknown day of the month",
      { ...scheduled, schedule_interval: "monthly", schedule_day_of_month: 32 },
      "invalid_value",
      "schedule_day_of_month",
    ],
    ["weekly without its day", { ...scheduled, schedule_interval: "weekly" }, "missing_field", "schedule_day_of_week"],
    ["an unknown field", { ...minimal, colour: 1 }, "unknown_field", "colour"],
    ["malformed JSON", "{", "invalid_json", ""],
  ];
  test.each(cases)("%s", async (_what, body, code, param) => {
    const owner = await lab.service.newUser();
    const answer = await owner.post("/api/v1/agents", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({
      code,
      type: "invalid_request_error",
      ...(param === "" ? {} : { param }),
    });
    expect((await owner.get("/api/v1/agents")).body.agents).toEqual([]);
  });

  test("a record that was read and edited can be sent back, but a changed read-only field is rejected", async () => {
    const record = await create(scheduled);
    const renamed = await put(record.id, { ...record, name: "Renamed" });
    expect(renamed).toMatchObject({ status: 200, body: { name: "Renamed", version: 2 } });
    for (const change of [
      { id: "x" },
      { version: 7 },
      { created_at: "2020-01-01T00:00:00.000Z" },
      { secrets_used: ["A"] },
    ]) {
      const { status, body } = await put(record.id, { ...renamed.body, ...change });
      expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_value", Object.keys(change)[0]]);
    }
  });

  test("an update that makes the agent inconsistent", async () => {
    const { id } = await create(scheduled);
    const refused = await put(id, { run_prompt: null });
    expect(refused.body.error).toMatchObject({ code: "missing_field", param: "run_prompt" });
    expect((await user.get(`/api/v1/agents/${id}`)).body).toMatchObject({ version: 1, run_prompt: "Go." });
  });
});

test("the audit is clean after these tests", () => expectCleanAudit(lab.service));
