import { afterAll, beforeAll, expect, test } from "vitest";
import { ask, charges, expectCleanAudit, type Lab, startLab, WIDE_MODELS } from "../support/lab.ts";
import { completion, hanging, json } from "../support/upstream.ts";

// A scheduled run, from the user's request to the ledger. Only the clock is set; everything else is real.

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(WIDE_MODELS, { env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00Z" } });
});
afterAll(() => lab.stop());

const daily = {
  name: "Morning",
  model_id: "lab/plain",
  run_prompt: "What is new?",
  schedule_enabled: true,
  schedule_interval: "daily",
  schedule_time: "09:00",
  schedule_timezone: "Asia/Kolkata",
};
const setClock = async (now: string) => {
  const answer = await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
  expect(answer.status).toBe(200);
};

test("an agent set to 09:00 in Kolkata runs once at each due instant and is charged for each run", async () => {
  lab.upstream.answer(completion("Nothing."));
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const agent = (await user.post("/api/v1/agents", daily)).body;
  expect(agent.next_run_at).toBe("2026-03-01T03:30:00.000Z");
  await setClock("2026-03-04T00:00:00Z");

  const { runs } = (await user.get(`/api/v1/agents/${agent.id}/runs`)).body;
  expect(
    runs.map(({ scheduled_for, trigger, status, lateness_ms }: Record<string, unknown>) => ({
      scheduled_for,
      trigger,
      status,
      lateness_ms,
    })),
  ).toEqual(
    ["03", "02", "01"].map((day) => ({
      scheduled_for: `2026-03-${day}T03:30:00.000Z`,
      trigger: "schedule",
      status: "succeeded",
      lateness_ms: 0,
    })),
  );
  const { occurrences } = (await user.get(`/api/v1/agents/${agent.id}/occurrences`)).body;
  expect(occurrences.map(({ state, run_id }: Record<string, unknown>) => [state, run_id])).toEqual(
    runs.map(({ id }: { id: string }) => ["run", id]),
  );
  expect(await charges(user)).toMatchObject(runs.map(({ id }: { id: string }) => ({ amount: -18, run_id: id })));
  expect((await user.get(`/api/v1/agents/${agent.id}`)).body).toMatchObject({
    next_run_at: "2026-03-04T03:30:00.000Z",
    last_run: { id: runs[0].id },
  });
});

test("out of tokens at due time: one failed run without a model call, paused, resumed by the next grant", async () => {
  lab.upstream.answer(completion("Nothing."));
  const user = await lab.service.newUser({ trial: false, tokens: 1 });
  const agent = (await user.post("/api/v1/agents", daily)).body;
  const before = lab.upstream.requests.length;
  await setClock("2026-03-06T00:00:00Z");
  const path = `/api/v1/agents/${agent.id}`;
  const ofUser = lab.upstream.requests.length - before;
  expect(ofUser).toBe(2); // the first test's agent, on two mornings
  expect((await user.get(`${path}/runs`)).body.runs).toMatchObject([
    { status: "failed", error: { code: "insufficient_tokens" } },
  ]);
  expect((await user.get(path)).body).toMatchObject({
    schedule_status: "paused",
    schedule_paused_reason: expect.stringContaining("out of tokens"),
    consecutive_failures: 0,
  });
  expect((await user.get(`${path}/occurrences`)).body.occurrences).toMatchObject([
    { state: "skipped", reason: expect.stringMatching(/^paused since 2026-03-04T\S+Z: out of tokens/) },
    { state: "run" },
  ]);
  await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, {
    amount_tokens: 1_000_000,
    source: "top_up",
  });
  expect((await user.get(path)).body.schedule_status).toBe("active");
  await setClock("2026-03-07T00:00:00Z");
  expect((await user.get(`${path}/runs?status=succeeded`)).body.runs).toHaveLength(1);
});

test("failures in a row pause the schedule with a reason (antfarm#218); turning it on resumes", async () => {
  lab.upstream.answer(json({}, 400)); // a 400 is not retried, unlike a 5xx
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const agent = (await user.post("/api/v1/agents", { ...daily, limits: { max_consecutive_failures: 2 } })).body;
  const path = `/api/v1/agents/${agent.id}`;
  await setClock("2026-03-11T00:00:00Z");
  expect((await user.get(`${path}/runs`)).body.runs).toHaveLength(2);
  expect((await user.get(path)).body).toMatchObject({
    schedule_status: "paused",
    consecutive_failures: 2,
    schedule_paused_reason: expect.stringContaining("2 failed runs in a row"),
  });
  const resumed = (await user.request("PUT", path, { schedule_enabled: true })).body;
  expect(resumed).toMatchObject({ schedule_status: "active", consecutive_failures: 0, version: 1 });
});

test("a schedule without tokens of its plan waits until overage is enabled", async () => {
  const user = await lab.service.newUser({ trial: false });
  await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/subscription`, { plan_id: "starter" });
  lab.upstream.answer(completion("All of it.", { prompt_tokens: 18_000_000, completion_tokens: 0 }));
  await user.post("/api/v1/chat/completions", ask("lab/plain", { max_tokens: 1 }));
  lab.upstream.answer(completion("Nothing."));
  const path = `/api/v1/agents/${(await user.post("/api/v1/agents", daily)).body.id}`;
  await setClock("2026-03-12T00:00:00Z");
  expect((await user.get(path)).body.schedule_status).toBe("paused");
  await setClock("2026-03-13T00:00:00Z");
  expect((await user.get(`${path}/runs`)).body.runs).toHaveLength(1);
  expect((await user.post("/api/v1/billing/overage/enable")).status).toBe(200);
  expect((await user.get(path)).body.schedule_status).toBe("active");
  await setClock("2026-03-14T00:00:00Z");
  expect((await user.get(`${path}/runs?status=succeeded`)).body.runs).toHaveLength(1);
});

test("if the clocks skip the hour, an agent runs once, later that day, and its record says so beforehand", async () => {
  lab.upstream.answer(completion("Nothing."));
  await setClock("2026-03-27T12:00:00Z");
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const nightly = { ...daily, schedule_time: "02:30", schedule_timezone: "Europe/Berlin" };
  const agent = (await user.post("/api/v1/agents", nightly)).body;
  const instants = ["2026-03-28T01:30:00.000Z", "2026-03-29T01:30:00.000Z", "2026-03-30T00:30:00.000Z"];
  expect(agent.upcoming_runs.slice(0, 3)).toEqual([
    { at: instants[0] },
    { at: instants[1], note: expect.stringContaining("2026-03-29 03:30") },
    { at: instants[2] },
  ]);
  await setClock("2026-03-30T12:00:00Z");
  const { occurrences } = (await user.get(`/api/v1/agents/${agent.id}/occurrences`)).body;
  expect(occurrences.map(({ at, state }: Record<string, string>) => [at, state]).reverse()).toEqual(
    instants.map((at) => [at, "run"]),
  );
});

test("turning an agent off cancels its queued runs, and rejects new ones (409)", async () => {
  lab.upstream.answer(hanging());
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const path = `/api/v1/agents/${(await user.post("/api/v1/agents", { ...daily, schedule_enabled: false })).body.id}`;
  // At most ten runs of a user execute at the same time.
  const runs: string[] = [];
  for (let index = 0; index < 11; index += 1) runs.push((await user.post(`${path}/runs`)).body.id);
  const statuses = async () =>
    Promise.all(runs.slice(-2).map(async (id) => (await user.get(`${path}/runs/${id}`)).body.status));
  await expect.poll(statuses).toEqual(["running", "queued"]);
  await user.request("PUT", path, { is_active: false });
  expect(await statuses()).toEqual(["running", "cancelled"]);
  expect((await user.post(`${path}/runs`)).body.error.code).toBe("agent_disabled");
  await user.request("DELETE", path);
});

test("the audit is clean after these tests", () => expectCleanAudit(lab.service));
