import { afterAll, beforeAll, expect, test } from "vitest";
import { type Lab, startLab } from "../support/lab.ts";
import { completion } from "../support/upstream.ts";

// contract 6: a month whose cap is used up is no failure of the agent. The next month has the full cap again.

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-27T00:00:00Z" } });
  lab.upstream.answer(completion());
});
afterAll(() => lab.stop());

/** Covers the smallest hold of a call, which is more than the call's cost of 18 tokens. */
const CAP = 396;
const DAILY = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" } as const;
const advance = async (now: string) =>
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);

test("due runs fail while max_cost_tokens_per_month is used up, pause nothing, and work again in the next month", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const made = await user.post("/api/v1/agents", {
    name: "Daily",
    model_id: "lab/plain",
    run_prompt: "Go.",
    limits: { max_consecutive_failures: 2 },
    ...DAILY,
  });
  expect(made.status).toBe(201);
  const path = `/api/v1/agents/${made.body.id}`;
  for (let spent = 0; spent < CAP; spent += 18) await user.post(`${path}/runs`, undefined, { Prefer: "wait=30" });
  await user.request("PUT", path, { limits: { max_cost_tokens_per_month: CAP } });
  await advance("2026-03-30T12:00:00Z");
  const { runs } = (await user.get(`${path}/runs`)).body;
  const due = runs.filter(({ trigger }: { trigger: string }) => trigger === "schedule");
  expect(due.map(({ status }: { status: string }) => status)).toEqual(["failed", "failed", "failed", "failed"]);
  expect(runs[0].error).toMatchObject({ code: "budget_exceeded", param: "limits.max_cost_tokens_per_month" });
  expect(runs[0].error.message).toContain("wait for the next month");
  expect((await user.get(path)).body).toMatchObject({ schedule_status: "active", consecutive_failures: 0 });
  await advance("2026-04-01T12:00:00Z");
  expect((await user.get(`${path}/runs?limit=1`)).body.runs).toMatchObject([
    { status: "succeeded", scheduled_for: "2026-04-01T09:00:00.000Z" },
  ]);
});

test("a run's own cap, max_cost_tokens_per_run, still counts as a failure and pauses", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const limits = { max_cost_tokens_per_run: 1, max_consecutive_failures: 2 };
  const fields = { name: "Daily", model_id: "lab/plain", run_prompt: "Go.", limits, ...DAILY };
  const { id } = (await user.post("/api/v1/agents", fields)).body;
  await advance("2026-04-03T12:00:00Z");
  expect((await user.get(`/api/v1/agents/${id}`)).body).toMatchObject({
    schedule_status: "paused",
    consecutive_failures: 2,
  });
});
