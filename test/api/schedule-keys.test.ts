import { beforeEach, describe, expect, test } from "vitest";
import { charges, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, hanging } from "../support/upstream.ts";

// contract 3: a schedule spends for the API key that enabled it, and stops with this key.

let user: Client;
let day = 1;

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: at(1, "00:00") } });
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
});

/** An instant of the n-th day after February 28. */
function at(of_day: number, time: string): string {
  return new Date(Date.parse(`2026-02-28T${time}:00.000Z`) + of_day * 86_400_000).toISOString();
}
const setClock = async (now: string) =>
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
/** Advances the clock to noon, `days` later: each daily schedule is due once a day. */
const pass = async (days = 1) => {
  day += days;
  await setClock(at(day, "12:00"));
};

type Key = Awaited<ReturnType<typeof newKey>>;
async function newKey(fields: object = {}) {
  const made = await user.post("/api/v1/api-keys", { name: "worker", ...fields });
  expect(made.status).toBe(201);
  return { id: made.body.id as string, ...lab.service.as(made.body.key) };
}
const DAILY = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
const agentBy = async (caller: Pick<Client, "post">, fields: object = {}) => {
  const made = await caller.post("/api/v1/agents", {
    name: "Daily",
    model_id: "lab/plain",
    run_prompt: "Go.",
    ...DAILY,
    ...fields,
  });
  expect(made.status).toBe(201);
  return { path: `/api/v1/agents/${made.body.id}`, made: made.body };
};
const runsOf = async (path: string) => (await user.get(`${path}/runs`)).body.runs;
const keyNow = async ({ id }: Key) =>
  (await user.get("/api/v1/api-keys")).body.api_keys.find((key: { id: string }) => key.id === id);
const patch = (caller: Pick<Client, "request">, { id }: { id: string }, changes: object) =>
  caller.request("PATCH", `/api/v1/api-keys/${id}`, changes);

describe("a key with a budget", () => {
  test("cannot exceed it by a schedule: the schedule pauses, and a higher budget resumes it", async () => {
    const key = await newKey({ budget_tokens: 420 });
    const { path, made } = await agentBy(key);
    expect(made.schedule_api_key_id).toBe(key.id);
    await pass(30);
    expect((await user.get(path)).body).toMatchObject({
      schedule_status: "paused",
      schedule_paused_reason: "key_budget_exceeded",
      consecutive_failures: 0,
    });
    const { spent_tokens } = await keyNow(key);
    expect(spent_tokens).toBeGreaterThan(0);
    expect(spent_tokens).toBeLessThanOrEqual(420);
    const charged = await charges(user);
    expect(charged.reduce((sum, { amount }) => sum - amount, 0)).toBe(spent_tokens);
    expect(charged.every((entry) => (entry as { api_key_id?: string }).api_key_id === key.id)).toBe(true);
    const paused = (await user.get("/api/v1/notices")).body.notices.filter(
      ({ event }: { event: string }) => event === "schedule.paused",
    );
    expect(paused).toMatchObject([{ data: { agent_id: made.id, reason: "key_budget_exceeded" } }]);

    expect((await patch(user, key, { budget_tokens: 1_000_000 })).status).toBe(200);
    expect((await user.get(path)).body).toMatchObject({ schedule_status: "active", schedule_paused_reason: null });
    await pass();
    expect((await runsOf(path))[0].status).toBe("succeeded");
  });

  test("that is used up begins no due run, and the occurrence says why", async () => {
    const { path } = await agentBy(await newKey({ budget_tokens: 0 }));
    await pass(2);
    expect(await runsOf(path)).toEqual([]);
    const { occurrences } = (await user.get(`${path}/occurrences`)).body;
    expect(occurrences).toMatchObject([
      { state: "skipped", reason: expect.stringContaining("key_budget_exceeded") },
      { state: "skipped", reason: expect.stringContaining("key_budget_exceeded") },
    ]);
  });

  test("spends its own budget when it changes the task of another caller's schedule", async () => {
    const key = await newKey({ budget_tokens: 0 });
    const { path, made } = await agentBy(user);
    expect(made.schedule_api_key_id).not.toBe(key.id);
    const renamed = await key.request("PUT", path, { name: "Another name", description: "renamed" });
    expect(renamed.body.schedule_api_key_id).toBe(made.schedule_api_key_id);
    const changed = await key.request("PUT", path, { run_prompt: "Spend the console's tokens for me." });
    expect(changed.body.schedule_api_key_id).toBe(key.id);
    await pass();
    expect(await runsOf(path)).toEqual([]);
    expect((await user.get(path)).body.schedule_paused_reason).toBe("key_budget_exceeded");

    const again = await user.request("PUT", path, { schedule_enabled: true });
    expect(again.body).toMatchObject({
      schedule_status: "active",
      schedule_api_key_id: made.schedule_api_key_id,
    });
    await pass();
    expect(await runsOf(path)).toMatchObject([{ status: "succeeded" }]);
  });

  test("cannot raise its own budget or another key's, nor extend its own life", async () => {
    const expires_at = at(3_000, "00:00");
    const key = await newKey({ budget_tokens: 100, expires_at });
    const other = await newKey({ budget_tokens: 100, expires_at });
    for (const target of [key, other]) {
      for (const changes of [{ budget_tokens: 101 }, { budget_tokens: null }, { expires_at: null }]) {
        const refused = await patch(key, target, changes);
        expect([refused.status, refused.body.error.code], JSON.stringify(changes)).toEqual([403, "budgeted_key"]);
      }
    }
    const lowered = await patch(key, key, { budget_tokens: 50, name: "smaller" });
    expect(lowered.body).toMatchObject({ id: key.id, name: "smaller", budget_tokens: 50, expires_at });
    expect(await keyNow(other)).toMatchObject({ budget_tokens: 100, expires_at });
  });
});

test("a schedule of a key that may not use the agent's model fails and names that model", async () => {
  const { path } = await agentBy(await newKey({ allowed_models: ["lab/odd"] }));
  await pass();
  const message = expect.stringMatching(/^The agent's model lab\/plain is not among the models/);
  expect(await runsOf(path)).toMatchObject([{ status: "failed", error: { code: "model_unavailable", message } }]);
});

describe("changing a key", () => {
  test("answers 403 to a key with fewer scopes, 400 for an end in the past, 404 for another user's key, 409 for a revoked key", async () => {
    const key = await newKey({ budget_tokens: 100 });
    const narrow = await newKey({ scopes: ["keys:write"] });
    const broader = await patch(narrow, key, { budget_tokens: 200 });
    expect([broader.status, broader.body.error.code]).toEqual([403, "insufficient_scope"]);
    expect((await patch(narrow, key, { name: "renamed" })).status).toBe(200);
    const past = await patch(user, key, { expires_at: at(0, "00:00") });
    expect([past.status, past.body.error.param]).toEqual([400, "expires_at"]);
    const scopes = await patch(user, narrow, { scopes: ["agents:write"] });
    expect([scopes.status, scopes.body.error.param]).toEqual([400, "scopes"]);
    const stranger = await lab.service.newUser();
    expect((await patch(stranger, key, { name: "mine" })).status).toBe(404);
    await user.request("DELETE", `/api/v1/api-keys/${key.id}`);
    const revoked = await patch(user, key, { budget_tokens: 200 });
    expect([revoked.status, revoked.body.error.code]).toEqual([409, "key_revoked"]);
  });

  test("by a key with a shorter life cannot extend another key's life", async () => {
    const short = await newKey({ expires_at: at(100, "00:00") });
    const other = await newKey({ expires_at: at(200, "00:00") });
    const refused = await patch(short, other, { expires_at: null });
    expect([refused.status, refused.body.error.param]).toEqual([400, "expires_at"]);
  });
});

describe("a stolen key's schedule", () => {
  test.each([
    ["revoked by its owner", (key: Key) => user.request("DELETE", `/api/v1/api-keys/${key.id}`), 204],
    ["reported as leaked", (key: Key) => user.post("/api/v1/api-keys/revoke-leaked", { key: key.key }), 202],
  ])("does not run again once the key is %s, until another key enables it", async (_how, revoke, status) => {
    const key = await newKey();
    const { path, made } = await agentBy(key);
    const { path: others } = await agentBy(user);
    expect((await revoke(key)).status).toBe(status);
    expect((await user.get(path)).body).toMatchObject({
      schedule_status: "paused",
      schedule_paused_reason: "key_revoked",
      schedule_api_key_id: key.id,
    });
    const { notices } = (await user.get("/api/v1/notices")).body;
    expect(notices).toMatchObject([{ event: "schedule.paused", data: { agent_id: made.id, reason: "key_revoked" } }]);
    await pass();
    expect(await runsOf(path)).toEqual([]);
    expect(await runsOf(others)).toHaveLength(1);
    await user.request("PUT", path, { schedule_enabled: true });
    await pass();
    expect(await runsOf(path)).toMatchObject([{ status: "succeeded" }]);
  });

  test("has its run cancelled when the key is revoked", async () => {
    const key = await newKey();
    const { path } = await agentBy(key, { run_prompt: "Take long." });
    const { path: others } = await agentBy(user);
    const isLong = (request: { body: unknown }) => JSON.stringify(request.body).includes("Take long.");
    lab.upstream.answer((response, request) =>
      (isLong(request) ? hanging("working") : completion())(response, request),
    );
    const passing = pass();
    await expect.poll(() => lab.upstream.requests.some(isLong)).toBe(true);
    await user.request("DELETE", `/api/v1/api-keys/${key.id}`);
    await passing;
    expect(await runsOf(path)).toMatchObject([{ trigger: "schedule", status: "cancelled" }]);
    expect(await runsOf(others)).toMatchObject([{ status: "succeeded" }]);
  });
});

test("a rotated key keeps its schedules, and an expired key pauses them until its end is moved", async () => {
  const key = await newKey({ expires_at: at(day + 2, "00:00") });
  const { path } = await agentBy(key);
  expect((await key.post(`/api/v1/api-keys/${key.id}/rotate`, {})).status).toBe(200);
  await pass();
  expect(await runsOf(path)).toMatchObject([{ status: "succeeded" }]);
  await pass();
  expect(await runsOf(path)).toHaveLength(1);
  expect((await user.get(path)).body).toMatchObject({
    schedule_paused_reason: "key_expired",
    schedule_api_key_id: key.id,
  });
  expect((await patch(user, key, { expires_at: at(day + 100, "00:00") })).status).toBe(200);
  await pass();
  expect(await runsOf(path)).toHaveLength(2);
});

test("a run-now counts against the caller's key, and neither pauses nor takes over the schedule", async () => {
  const small = await newKey({ budget_tokens: 100 });
  const { path, made } = await agentBy(user, { limits: { max_consecutive_failures: 1 } });
  const { body: run } = await small.post(`${path}/runs`, undefined, { Prefer: "wait=30" });
  expect(run).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
  expect((await user.get(path)).body).toMatchObject({
    schedule_status: "active",
    schedule_api_key_id: made.schedule_api_key_id,
  });
});

test("a schedule that is turned off counts against no key", async () => {
  const key = await newKey();
  const { path } = await agentBy(key);
  expect((await user.request("PUT", path, { schedule_enabled: false })).body.schedule_api_key_id).toBeNull();
});
