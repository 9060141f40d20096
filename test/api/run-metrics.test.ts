import { afterAll, beforeAll, expect, test } from "vitest";
import { type Lab, startLab } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { completion, hanging } from "../support/upstream.ts";

// The metrics of runs at /metrics.

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(undefined, {
    env: { PURSER_TEST_CLOCK: "2026-03-01T08:00:00Z" },
    limits: { concurrent_runs_per_user: 1 },
  });
});
afterAll(() => lab.stop());

/** The values of a metric, by its labels as text. */
async function metric(name: string): Promise<Record<string, number>> {
  const lines = (await metricsOf(lab.service.url)).split("\n");
  const values = lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return Object.fromEntries(
    values.map((line) => [line.slice(name.length, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]),
  );
}
const advance = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });

test("metrics have the queue's length, the age of its oldest run, the lateness of due runs, and the codes of failed runs", async () => {
  const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
  const fields = { name: "Scout", model_id: "lab/plain", run_prompt: "Go." };
  const agent = `/api/v1/agents/${(await user.post("/api/v1/agents", { ...fields, ...daily })).body.id}`;
  expect([await metric("purser_runs_queued"), await metric("purser_runs_queued_oldest_seconds")]).toEqual([
    { "": 0 },
    { "": 0 },
  ]);

  lab.upstream.answer(hanging());
  for (let run = 0; run < 3; run += 1) await user.post(`${agent}/runs`);
  await lab.upstream.until(() => lab.upstream.requests.length === 1);
  expect(await metric("purser_runs_queued")).toEqual({ "": 2 });
  const { runs } = (await user.get(`${agent}/runs`)).body;
  const moving = advance("2026-03-01T08:05:00Z"); // it waits for the runs
  lab.upstream.answer(completion());
  await user.post(`${agent}/runs/${runs[2].id}/cancel`);
  expect((await moving).status).toBe(200);
  expect(await metric("purser_runs_queued")).toEqual({ "": 0 });

  await advance("2026-03-01T10:00:00Z");
  expect(await metric("purser_scheduled_run_lateness_seconds_count")).toEqual({ "": 1 });
  expect((await metric("purser_scheduled_run_lateness_seconds_bucket"))['{le="0.5"}']).toBe(1);

  await user.request("PUT", agent, { limits: { max_cost_tokens_per_run: 1 } });
  await user.post(`${agent}/runs`, undefined, { Prefer: "wait=30" });
  const ended = Object.entries(await metric("purser_runs_total")).filter(([, count]) => count > 0);
  expect(Object.fromEntries(ended)).toEqual({
    '{status="cancelled"}': 1,
    '{status="succeeded"}': 3,
    '{status="failed",error="budget_exceeded"}': 1,
  });
});
