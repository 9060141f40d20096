import { afterAll, beforeAll, expect, test } from "vitest";
import { charges, expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// The operator's retention deletes old records and no others.

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T08:00:00Z", PURSER_KEEP_RUNS_DAYS: "10" } });
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(() => lab.stop());

const advance = async (now: string) =>
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
const DAILY = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" } as const;
async function create(fields: object = {}): Promise<string> {
  const made = await user.post("/api/v1/agents", { name: "A", model_id: "lab/plain", run_prompt: "Go.", ...fields });
  expect(made.status).toBe(201);
  return `/api/v1/agents/${made.body.id}`;
}
const listed = async (agent: string, list: "runs" | "occurrences") =>
  (await user.get(`${agent}/${list}?limit=100`)).body[list] as { id: string; scheduled_for: string }[];

test("finished runs, their occurrences and conversations are kept for PURSER_KEEP_RUNS_DAYS; an agent's last run and every charge stay", async () => {
  const daily = await create(DAILY);
  const idle = await create();
  const only = (await user.post(`${idle}/runs`, undefined, { Prefer: "wait=30" })).body;
  const said = { messages: [{ role: "user", content: "hello" }], thread_id: "talk" };
  const turn = (await user.post(`${daily}/chat`, said)).body;
  await advance("2026-03-05T12:00:00Z");
  expect(await listed(daily, "runs")).toHaveLength(6);
  expect((await user.get(`${daily}/threads/talk`)).body.turns).toHaveLength(1);

  await advance("2026-03-21T12:00:00Z");
  const due = Array.from({ length: 10 }, (_, day) => `2026-03-${21 - day}T09:00:00.000Z`);
  expect((await listed(daily, "runs")).map(({ scheduled_for }) => scheduled_for)).toEqual(due);
  expect((await listed(daily, "occurrences")).map(({ scheduled_for }) => scheduled_for)).toEqual(due);
  expect((await user.get(`${daily}/runs/${turn.run_id}`)).status).toBe(404);
  expect((await user.get(`${daily}/threads/talk`)).status).toBe(404);
  expect((await user.get(idle)).body.last_run).toMatchObject({ id: only.id, status: "succeeded" });
  expect((await user.get(`${idle}/runs/${only.id}`)).body.steps).toHaveLength(1);
  expect((await charges(user)).map((charge) => (charge as { run_id?: string }).run_id)).toContain(turn.run_id);
  expect(await charges(user)).toHaveLength(23);
  await expectCleanAudit(lab.service);

  // A deleted occurrence does not happen again after a restart, or when the schedule is turned off and on.
  await user.request("PUT", daily, { schedule_enabled: false });
  await user.request("PUT", daily, { schedule_enabled: true });
  await lab.service.restart();
  await advance("2026-03-21T12:30:00Z");
  expect(await listed(daily, "runs")).toHaveLength(10);
  expect(await charges(user)).toHaveLength(23);
});
