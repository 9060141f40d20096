import { beforeEach, describe, expect, test } from "vitest";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, json } from "../support/upstream.ts";

// What resumes a paused schedule, and what does not: contract 6.10.1.

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-11-20T08:00:00.000Z" } });
const AGENT = {
  name: "Clerk",
  model_id: "lab/plain",
  run_prompt: "Work.",
  schedule_enabled: true,
  schedule_interval: "daily",
  schedule_time: "09:00",
  limits: { max_consecutive_failures: 1 },
};
let user: Client;
beforeEach(async () => {
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});

/** Sets the clock to the next 09:00 or later. All due runs have ended then. */
async function passDay(): Promise<void> {
  const { now } = (await lab.service.admin.get("/api/v1/admin/clock")).body;
  const next = new Date(Date.parse(now) + 86_400_000).toISOString();
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: next })).status).toBe(200);
}

/** An agent whose only due run has failed. Returns its address. */
async function pausedAgent(): Promise<string> {
  const path = `/api/v1/agents/${(await user.post("/api/v1/agents", AGENT)).body.id}`;
  lab.upstream.answer(json({ error: { message: "no" } }, 400));
  await passDay();
  lab.upstream.answer(completion());
  expect((await user.get(path)).body).toMatchObject({ schedule_status: "paused", consecutive_failures: 1 });
  return path;
}

describe("a schedule that failures have paused", () => {
  test.each<[what: string, edit: (agent: Record<string, unknown>) => object]>([
    ["a new description", () => ({ description: "Reads." })],
    ["a new description beside an unchanged schedule", () => ({ description: "Reads.", schedule_enabled: true })],
    ["the whole agent with a new description", (agent) => ({ ...agent, description: "Reads." })],
    ["the whole agent as it is", (agent) => agent],
    ["is_active as it was", () => ({ is_active: true })],
    ["another time", () => ({ schedule_time: "10:00", schedule_enabled: true })],
    ["another task", () => ({ run_prompt: "Read." })],
    ["other limits", () => ({ limits: { max_consecutive_failures: 100 } })],
    ["a new name", () => ({ name: "Scribe", is_active: true, schedule_enabled: true })],
    ["nothing", () => ({})],
  ])("stays paused after a PUT of %s", async (_what, edit) => {
    const path = await pausedAgent();
    const { body: agent } = await user.get(path);
    const config = await user.get(`${path}/versions/${agent.version}`);
    const { agent_id: _, version: _version, created_at: _at, ...fields } = config.body;
    const { status, body } = await user.request("PUT", path, edit(fields));
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { schedule_status: "paused", consecutive_failures: 1 },
    });
    expect(body.schedule_paused_reason).toBe(agent.schedule_paused_reason);
  });

  test.each<[what: string, resume: (path: string) => Promise<unknown>]>([
    ["POST /resume", (path) => user.post(`${path}/resume`)],
    ["a PUT of schedule_enabled: true alone", (path) => user.request("PUT", path, { schedule_enabled: true })],
    [
      "turning it off and on",
      async (path) => {
        await user.request("PUT", path, { schedule_enabled: false });
        await user.request("PUT", path, { schedule_enabled: true, description: "Reads." });
      },
    ],
    [
      "turning the agent off and on",
      async (path) => {
        await user.request("PUT", path, { is_active: false });
        await user.request("PUT", path, { is_active: true });
      },
    ],
  ])("resumes by %s, and runs again", async (_what, resume) => {
    const path = await pausedAgent();
    await resume(path);
    const active = { schedule_status: "active", schedule_paused_reason: null, consecutive_failures: 0 };
    expect((await user.get(path)).body).toMatchObject(active);
    await passDay();
    expect((await user.get(path)).body).toMatchObject({ ...active, last_run: { status: "succeeded" } });
  });

  test("is resumed by its owner only, and its runs then count against the key that resumed it", async () => {
    const path = await pausedAgent();
    const stranger = await lab.service.newUser();
    expect((await stranger.post(`${path}/resume`)).status).toBe(404);
    const reader = (await user.post("/api/v1/api-keys", { name: "reader", scopes: ["agents:read"] })).body;
    expect((await lab.service.as(reader.key).post(`${path}/resume`)).body.error.code).toBe("insufficient_scope");
    const writer = (await user.post("/api/v1/api-keys", { name: "writer", scopes: ["agents:read", "agents:write"] }))
      .body;
    const { status, body } = await lab.service.as(writer.key).post(`${path}/resume`);
    expect([status, body.schedule_status, body.schedule_api_key_id]).toEqual([200, "active", writer.id]);
    // a second time, it changes nothing
    expect((await lab.service.as(writer.key).post(`${path}/resume`)).body).toEqual(body);
  });
});

test("a schedule that waits for tokens stays paused after an edit, and resumes with the grant", async () => {
  user = await lab.service.newUser({ trial: false });
  const path = `/api/v1/agents/${(await user.post("/api/v1/agents", AGENT)).body.id}`;
  await passDay();
  const edited = await user.request("PUT", path, { description: "Reads.", schedule_enabled: true });
  expect(edited.body).toMatchObject({ schedule_status: "paused" });
  await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, { amount_tokens: 1_000, source: "bonus" });
  await expect.poll(async () => (await user.get(path)).body.schedule_status).toBe("active");
});

test("POST /resume leaves a schedule off that is off", async () => {
  const path = `/api/v1/agents/${(await user.post("/api/v1/agents", { ...AGENT, schedule_enabled: false })).body.id}`;
  const { status, body } = await user.post(`${path}/resume`);
  expect([status, body.schedule_status, body.version]).toEqual([200, "off", 1]);
});
