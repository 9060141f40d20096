import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, json } from "../support/upstream.ts";

// contract 6: an agent's schedules.

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00.000Z" } });
let user: Client;
let agent: string;
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
  agent = await newAgent();
});
afterEach(async () => {
  // Otherwise its schedules run while the clock moves in other tests.
  for (const { id } of (await user.get("/api/v1/agents")).body.agents)
    await user.request("DELETE", `/api/v1/agents/${id}`);
});

const WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"];
async function newAgent(fields: object = {}, caller: Pick<Client, "post"> = user): Promise<string> {
  const made = await caller.post("/api/v1/agents", {
    name: "Scout",
    model_id: "lab/plain",
    run_prompt: "Go.",
    ...fields,
  });
  expect(made.status).toBe(201);
  return `/api/v1/agents/${made.body.id}`;
}
async function add(fields: object, caller: Pick<Client, "post"> = user) {
  const { status, body } = await caller.post(`${agent}/schedules`, {
    name: "mornings",
    interval: "daily",
    times: ["08:30"],
    ...fields,
  });
  expect({ status, body }).toMatchObject({ status: 201 });
  return { ...body, path: `${agent}/schedules/${body.id}` };
}
const patch = (path: string, fields: object, caller = user) => caller.request("PATCH", path, fields);
const now = async () => (await lab.service.admin.get("/api/v1/admin/clock")).body.now as string;
const WITH_CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
/** A schedule that is off, written before its agent needed a city. */
async function offPath(): Promise<string> {
  await user.request("PUT", agent, { input_schema: null });
  const { path } = await add({ enabled: false });
  await user.request("PUT", agent, { input_schema: WITH_CITY });
  return path;
}
/** Moves the clock to the given time of the next day. All due runs have ended then. */
async function nextDay(time: string): Promise<string> {
  const day = new Date(Date.parse(await now()) + 86_400_000).toISOString().slice(0, 10);
  const target = `${day}T${time}:00.000Z`;
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: target })).status).toBe(200);
  return target;
}

describe("a schedule", () => {
  test.each<[string, object, object]>([
    [
      "on weekdays in a zone",
      {
        interval: "weekly",
        days_of_week: [...WEEKDAYS].reverse(),
        times: ["17:00", "08:30"],
        timezone: "Europe/Berlin",
      },
      { days_of_week: WEEKDAYS, times: ["08:30", "17:00"], day_of_month: null, cron: null, run_at: null },
    ],
    [
      "on the last day of the month",
      { interval: "monthly", day_of_month: "last" },
      { day_of_month: "last", times: ["08:30"] },
    ],
    ["on the first of the month by default", { interval: "monthly" }, { day_of_month: 1 }],
    ["by cron", { interval: "cron", cron: "30 8 * * 1-5", times: undefined }, { cron: "30 8 * * 1-5", times: null }],
    [
      "once",
      { interval: "once", run_at: "2030-12-24T18:00", times: undefined },
      { upcoming_runs: [{ at: "2030-12-24T18:00:00.000Z" }] },
    ],
    [
      "between two instants",
      { starts_at: "2030-01-01T00:00:00+01:00", ends_at: "2030-01-03T00:00:00Z" },
      {
        starts_at: "2029-12-31T23:00:00.000Z",
        upcoming_runs: [{ at: "2030-01-01T08:30:00.000Z" }, { at: "2030-01-02T08:30:00.000Z" }],
      },
    ],
  ])("%s is created, read and listed", async (_, fields, shown) => {
    const { path, ...made } = await add(fields);
    expect(made).toMatchObject({
      name: "mornings",
      enabled: true,
      status: "active",
      paused_reason: null,
      input: null,
      ...shown,
    });
    expect(made.next_run_at).toBe(made.upcoming_runs[0].at);
    expect((await user.get(path)).body).toEqual(made);
    expect((await user.get(`${agent}/schedules`)).body).toEqual({ schedules: [made], next_cursor: null });
    // A record that was read and sent back is no change.
    expect((await patch(path, made)).body).toEqual(made);
  });

  test("is changed in the given fields; another interval drops what it does not have", async () => {
    const { path, ...made } = await add({ interval: "weekly", days_of_week: ["monday"], input: { city: "Pune" } });
    expect((await patch(path, { times: ["10:00"] })).body).toMatchObject({
      times: ["10:00"],
      days_of_week: ["monday"],
    });
    const daily = (await patch(path, { interval: "daily", name: "all days" })).body;
    expect(daily).toMatchObject({ name: "all days", days_of_week: null, times: ["10:00"], input: { city: "Pune" } });
    expect((await patch(path, { input: null, run_prompt: "Other." })).body).toMatchObject({
      input: null,
      run_prompt: "Other.",
    });
    expect((await patch(path, { enabled: false })).body).toMatchObject({
      status: "off",
      next_run_at: null,
      upcoming_runs: [],
    });
    expect((await patch(path, { enabled: true })).body).toMatchObject({ status: "active" });
    const wrong = (await patch(path, { id: made.agent_id })).body.error;
    expect(wrong).toMatchObject({ code: "invalid_value", param: "id" });
  });

  test("has a name of its own within the agent", async () => {
    await add({});
    const again = await user.post(`${agent}/schedules`, { name: "mornings", interval: "daily", times: ["09:00"] });
    expect([again.status, again.body.error.code]).toEqual([409, "name_taken"]);
    const other = await add({ name: "evenings" });
    expect((await patch(other.path, { name: "mornings" })).status).toBe(409);
    expect((await patch(other.path, { name: "default" })).body.error.code).toBe("name_taken");
    agent = await newAgent();
    await add({});
  });

  test("is one of at most 20 of an agent, listed page by page", async () => {
    const names = Array.from({ length: 20 }, (_, n) => `s${n}`);
    for (const name of names) await add({ name });
    const beyond = await user.post(`${agent}/schedules`, { name: "s20", interval: "daily", times: ["09:00"] });
    const fields = { schedule_interval: "daily", schedule_time: "09:00" };
    const by_fields = await user.request("PUT", agent, fields);
    for (const { status, body } of [beyond, by_fields]) {
      expect([status, body.error.code]).toEqual([409, "schedule_limit_reached"]);
    }
    const first = (await user.get(`${agent}/schedules?limit=15`)).body;
    const second = (await user.get(`${agent}/schedules?limit=15&cursor=${first.next_cursor}`)).body;
    const listed = [...first.schedules, ...second.schedules].map(({ name }: { name: string }) => name);
    expect([listed, second.next_cursor]).toEqual([names, null]);
  });

  test("of another user or another agent is 404, and so is a deleted one", async () => {
    const { path, id } = await add({});
    const elsewhere = `${await newAgent()}/schedules/${id}`;
    const stranger = await lab.service.newUser();
    for (const [caller, at] of [
      [stranger, path],
      [user, elsewhere],
      [user, `${agent}/schedules/none`],
    ] as const) {
      const answers = await Promise.all([
        caller.get(at),
        patch(at, { name: "x" }, caller),
        caller.request("DELETE", at),
        ...["pause", "resume", "run"].map((act) => caller.post(`${at}/${act}`)),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404, 404]);
    }
    expect((await user.request("DELETE", path)).status).toBe(204);
    expect((await user.get(path)).status).toBe(404);
  });

  test("needs a run_prompt of its own or of its agent, which then cannot lose it", async () => {
    agent = await newAgent({ run_prompt: null });
    const bare = await user.post(`${agent}/schedules`, { name: "x", interval: "daily", times: ["09:00"] });
    expect(bare.body.error).toMatchObject({ code: "missing_field", param: "run_prompt" });
    await add({ run_prompt: "Its own." });
    await user.request("PUT", agent, { run_prompt: "Go." });
    await add({ name: "second" });
    expect((await user.request("PUT", agent, { run_prompt: null })).body.error).toMatchObject({ param: "run_prompt" });
  });

  test.each<[string, () => ReturnType<typeof patch>, string]>([
    ["POST", () => user.post(`${agent}/schedules`, { name: "x", interval: "daily", times: ["09:00"] }), "input.city"],
    ["PATCH that turns it on", async () => patch(await offPath(), { enabled: true }), "input.city"],
    [
      "PUT of schedule_enabled",
      () => user.request("PUT", agent, { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" }),
      "schedule_enabled",
    ],
    [
      "PUT of an input_schema",
      async () => {
        await add({ name: "fits", input: { city: "Pune" } });
        const required = ["city", "unit"];
        return user.request("PUT", agent, { input_schema: { ...WITH_CITY, required } });
      },
      "input_schema",
    ],
  ])("cannot be on with an input that does not fit its agent's input_schema: %s", async (_write, write, param) => {
    agent = await newAgent({ input_schema: WITH_CITY });
    const { status, body } = await write();
    expect([status, body.error.param]).toEqual([400, param]);
  });

  test("runs not more often than the operator allows", async () => {
    const often = { name: "often", interval: "cron", cron: "*/5 * * * *" };
    expect((await user.post(`${agent}/schedules`, { ...often, cron: "*/4 * * * *" })).body.error).toMatchObject({
      param: "cron",
      message: "cron has two runs within 4 minutes. Leave at least 5 minutes between them.",
    });
    expect((await user.post(`${agent}/schedules`, often)).status).toBe(201);
  });
});

describe("the schedule named default", () => {
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
  const schedules = async () => (await user.get(`${agent}/schedules`)).body.schedules;

  test("does not exist before the agent's schedule_* fields or a POST set it", async () => {
    expect(await schedules()).toEqual([]);
    expect((await user.get(agent)).body).toMatchObject({ schedule_status: "off", schedule_interval: null });
    await user.request("PUT", agent, daily);
    expect(await schedules()).toMatchObject([
      { name: "default", interval: "daily", times: ["09:00"], status: "active" },
    ]);
    agent = await newAgent();
    await add({ name: "default", interval: "weekly", days_of_week: ["monday", "friday"], timezone: "Asia/Kolkata" });
    expect((await user.get(agent)).body).toMatchObject({
      schedule_enabled: true,
      schedule_interval: "weekly",
      schedule_time: "08:30",
      schedule_day_of_week: null,
      schedule_days_of_week: ["monday", "friday"],
      schedule_timezone: "Asia/Kolkata",
      schedule_status: "active",
    });
  });

  test("may lack fields while it is off", async () => {
    await user.request("PUT", agent, { schedule_interval: "weekly" });
    const [incomplete] = await schedules();
    expect(incomplete).toMatchObject({ interval: "weekly", times: null, days_of_week: null, status: "off" });
    const path = `${agent}/schedules/${incomplete.id}`;
    expect((await patch(path, { enabled: true })).body.error).toMatchObject({ code: "missing_field", param: "times" });
    const complete = { enabled: true, times: ["08:30"], days_of_week: ["monday"] };
    expect((await patch(path, complete)).body).toMatchObject({ status: "active" });
  });

  test("is one schedule in both places: schedule_enabled false turns it off, and times beyond the fields stay", async () => {
    agent = await newAgent(daily);
    const [{ id }] = await schedules();
    const path = `${agent}/schedules/${id}`;
    await patch(path, { times: ["08:00", "20:00"], input: { city: "Pune" } });
    const record = (await user.get(agent)).body;
    expect(record).toMatchObject({ schedule_interval: "daily", schedule_time: null, version: 1 });
    await user.request("PUT", agent, { ...record, description: "Sees." });
    expect((await user.get(path)).body).toMatchObject({ times: ["08:00", "20:00"], input: { city: "Pune" } });
    expect((await user.request("PUT", agent, { schedule_enabled: false })).body.schedule_status).toBe("off");
    expect((await user.get(path)).body).toMatchObject({ enabled: false, status: "off" });
    await patch(path, { enabled: true, interval: "cron", cron: "0 6 * * *" });
    expect((await user.get(agent)).body).toMatchObject({ schedule_interval: "cron", schedule_enabled: true });
    await user.request("PUT", agent, { ...(await user.get(agent)).body, name: "Other" });
    expect((await user.get(path)).body).toMatchObject({ interval: "cron", cron: "0 6 * * *" });
    expect((await patch(path, { name: "other" })).body.error).toMatchObject({ code: "invalid_value", param: "name" });
  });

  test("is empty after it was deleted, and can be set again", async () => {
    agent = await newAgent(daily);
    const [{ id }] = await schedules();
    expect((await user.request("DELETE", `${agent}/schedules/${id}`)).status).toBe(204);
    expect(await schedules()).toEqual([]);
    expect((await user.get(agent)).body).toMatchObject({
      schedule_enabled: false,
      schedule_interval: null,
      next_run_at: null,
    });
    expect((await user.request("PUT", agent, daily)).body).toMatchObject({ schedule_status: "active" });
  });
});

describe("several schedules of an agent", () => {
  const runs = async () => (await user.get(`${agent}/runs`)).body.runs;
  const occurrences = async (query = "") => (await user.get(`${agent}/occurrences${query}`)).body.occurrences;

  test("run at the same instant once each, with their own input and task, and are told apart in the lists", async () => {
    const pune = await add({ name: "pune", input: { city: "Pune" } });
    const lima = await add({ name: "lima", input: { city: "Lima" }, run_prompt: "Look at it." });
    const day = await nextDay("08:30");
    const done = (await runs()).filter((run: { scheduled_for: string }) => run.scheduled_for === day);
    const details = await Promise.all(
      done.map(async ({ id }: { id: string }) => (await user.get(`${agent}/runs/${id}`)).body),
    );
    const shown = details.map(({ schedule_id, input, scheduled_for, trigger, status }) => ({
      schedule_id,
      input,
      scheduled_for,
      trigger,
      status,
    }));
    const due = { scheduled_for: day, trigger: "schedule", status: "succeeded" };
    expect(shown).toHaveLength(2);
    expect(shown).toContainEqual({ schedule_id: pune.id, input: { city: "Pune" }, ...due });
    expect(shown).toContainEqual({ schedule_id: lima.id, input: { city: "Lima" }, ...due });
    const all = await occurrences();
    expect(all.slice(0, 2)).toMatchObject([
      { at: day, state: "run" },
      { at: day, state: "run" },
    ]);
    expect((await occurrences(`?schedule_id=${lima.id}`))[0]).toMatchObject({ schedule_id: lima.id, at: day });
    const first = (await user.get(`${agent}/occurrences?limit=1`)).body;
    const second = (await user.get(`${agent}/occurrences?limit=1&cursor=${first.next_cursor}`)).body;
    expect([...first.occurrences, ...second.occurrences]).toEqual(all.slice(0, 2));
    const found = (await user.get(`/api/v1/runs?schedule_id=${lima.id}`)).body.runs;
    expect(found.map((run: { schedule_id: string }) => run.schedule_id)).toEqual(found.map(() => lima.id));
    expect(found[0]).toMatchObject({ scheduled_for: day });
    const record = (await user.get(agent)).body;
    expect(record.upcoming_runs).toHaveLength(5);
    expect(record.next_run_at).toBe((await user.get(pune.path)).body.next_run_at);
    const listed = (await user.get("/api/v1/agents?sort=next_run_at")).body.agents;
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([record.id]);
  });

  test("are paused by their owner, resumed and run now, each by itself", async () => {
    const one = await add({ name: "one", input: { n: 1 } });
    const other = await add({ name: "other" });
    expect((await user.post(`${one.path}/pause`)).body).toMatchObject({
      status: "paused",
      paused_reason: "paused by its owner",
    });
    await nextDay("08:30");
    expect((await occurrences(`?schedule_id=${one.id}`))[0]).toMatchObject({
      state: "skipped",
      reason: expect.stringContaining("paused by its owner"),
    });
    expect((await occurrences(`?schedule_id=${other.id}`))[0]).toMatchObject({ state: "run" });
    const run = await user.post(`${one.path}/run`, undefined, { Prefer: "wait=20" });
    expect(run).toMatchObject({
      status: 200,
      body: { trigger: "manual", schedule_id: one.id, input: { n: 1 }, status: "succeeded" },
    });
    const queued = await user.post(`${one.path}/run`);
    expect([queued.status, queued.headers.get("location")]).toEqual([202, `${agent}/runs/${queued.body.id}`]);
    // Enabling the agent leaves it paused.
    await user.request("PUT", agent, { is_active: false });
    expect((await user.get(one.path)).body).toMatchObject({ status: "off", next_run_at: null });
    await user.request("PUT", agent, { is_active: true });
    expect((await user.get(one.path)).body.status).toBe("paused");
    expect((await user.post(`${one.path}/resume`)).body).toMatchObject({ status: "active", paused_reason: null });
    await nextDay("08:30");
    expect((await occurrences(`?schedule_id=${one.id}`))[0]).toMatchObject({ state: "run" });
  });

  test("pause after their own failures only", async () => {
    agent = await newAgent({ limits: { max_consecutive_failures: 2 } });
    const bad = await add({ name: "bad", run_prompt: "Fail." });
    const good = await add({ name: "good", times: ["09:30"] });
    for (const failures of [1, 2]) {
      lab.upstream.answer(json({ error: { message: "no" } }, 400));
      await nextDay("08:45");
      lab.upstream.answer(completion());
      await nextDay("08:00");
      expect((await user.get(bad.path)).body.consecutive_failures).toBe(failures === 1 ? 1 : 2);
    }
    expect((await user.get(bad.path)).body).toMatchObject({
      status: "paused",
      paused_reason: "2 failed runs in a row: resume the schedule to go on",
    });
    expect((await user.get(good.path)).body).toMatchObject({ status: "active", consecutive_failures: 0 });
    expect((await user.get(agent)).body).toMatchObject({ consecutive_failures: 0, schedule_status: "off" });
    expect((await user.post(`${bad.path}/resume`)).body).toMatchObject({ status: "active", consecutive_failures: 0 });
  });

  test("a run-now that names one has its task, its input where it gives none, and counts for it", async () => {
    const one = await add({ name: "pune", input: { city: "Pune" }, run_prompt: "Look at it." });
    const runNow = async (body: object) =>
      (await user.post(`${agent}/runs`, { schedule_id: one.id, ...body }, { Prefer: "wait=20" })).body;
    // It cost nothing, and keeps its task.
    lab.upstream.answer(json({ error: { message: "no" } }, 400));
    const failed = await runNow({ input: { city: "Lima" } });
    expect(failed).toMatchObject({
      status: "failed",
      schedule_id: one.id,
      input: { city: "Lima" },
      run_prompt: "Look at it.",
    });
    expect((await user.get(one.path)).body.consecutive_failures).toBe(1);
    expect((await user.get(agent)).body.consecutive_failures).toBe(0);
    lab.upstream.answer(completion());
    expect(await runNow({ run_prompt: "Go there." })).toMatchObject({
      input: { city: "Pune" },
      run_prompt: "Go there.",
    });
    expect(lab.upstream.requests.at(-1)?.body.messages.at(-1).content).toContain("Go there.");
    expect((await user.get(one.path)).body.consecutive_failures).toBe(0);
    expect((await user.post(`${agent}/runs`, undefined, { Prefer: "wait=20" })).body.run_prompt).toBeNull();
    const elsewhere = await newAgent();
    const draft = { system_prompt: "Be brief." };
    const tested = await user.post(`${agent}/runs`, { schedule_id: one.id, draft });
    expect([tested.status, tested.body.error.param]).toEqual([400, "schedule_id"]);
    const unknown = await user.post(`${elsewhere}/runs`, { schedule_id: one.id });
    expect([unknown.status, unknown.body.error.message]).toEqual([404, expect.stringContaining("This schedule")]);
  });

  test("count against the key that set them up", async () => {
    const newKey = async () => {
      const { body } = await user.post("/api/v1/api-keys", { name: "worker" });
      return { id: body.id as string, ...lab.service.as(body.key) };
    };
    const [one, other] = [await newKey(), await newKey()];
    const ones = await add({ name: "ones" }, one);
    const others = await add({ name: "others" }, other);
    expect([ones.api_key_id, others.api_key_id]).toEqual([one.id, other.id]);
    expect((await other.request("PATCH", ones.path, { name: "renamed" })).body.api_key_id).toBe(one.id);
    expect((await other.request("PATCH", ones.path, { input: { spend: true } })).body.api_key_id).toBe(other.id);
    expect((await one.request("PATCH", ones.path, { input: null })).body.api_key_id).toBe(one.id);
    await user.request("DELETE", `/api/v1/api-keys/${other.id}`);
    expect((await user.get(others.path)).body).toMatchObject({ status: "paused", paused_reason: "key_revoked" });
    expect((await user.get(ones.path)).body.status).toBe("active");
    expect((await one.request("PUT", agent, { system_prompt: "Be brief." })).status).toBe(200);
    expect((await user.get(others.path)).body).toMatchObject({ status: "paused", api_key_id: one.id });
  });
});

test("a schedule that runs once has ended afterwards", async () => {
  const day = new Date(Date.parse(await now()) + 86_400_000).toISOString().slice(0, 10);
  const once = await add({ interval: "once", run_at: `${day}T12:00`, times: undefined });
  await nextDay("12:00");
  expect((await user.get(once.path)).body).toMatchObject({
    status: "ended",
    next_run_at: null,
    upcoming_runs: [],
    enabled: true,
  });
  expect((await user.get(`${agent}/runs`)).body.runs).toMatchObject([{ schedule_id: once.id, status: "succeeded" }]);
  const late = await patch(once.path, { run_at: `${day}T08:00` });
  expect(late.body.error).toMatchObject({ code: "invalid_value", param: "run_at" });
});
