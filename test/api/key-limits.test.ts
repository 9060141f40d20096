import { beforeAll, describe, expect, it } from "vitest";
import { ask, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// contract 3.3: budgets that start again, and a key's allowed models.

const CHAT = "/api/v1/chat/completions";
let user: Client;

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-04T10:00:00.000Z" } });
beforeAll(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
});

const setClock = async (now: string) =>
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
const newKey = async (fields: object) => {
  const made = await user.post("/api/v1/api-keys", { name: "customer", ...fields });
  expect(made.status).toBe(201);
  return { record: made.body, id: made.body.id as string, ...lab.service.as(made.body.key) };
};
const patch = (caller: Pick<Client, "request">, id: string, changes: object) =>
  caller.request("PATCH", `/api/v1/api-keys/${id}`, changes);
const recordOf = async (id: string) =>
  (await user.get("/api/v1/api-keys")).body.api_keys.find((key: { id: string }) => key.id === id);

describe("a key's budget with an interval", () => {
  it("refuses calls with 402 when it is used up, and starts again at the end of the day in UTC", async () => {
    const key = await newKey({ budget_tokens: 200, budget_interval: "day" });
    expect(key.record).toMatchObject({ budget_used_tokens: 0, budget_resets_at: "2026-03-05T00:00:00.000Z" });
    const call = () => key.post(CHAT, ask("lab/plain", { max_tokens: 60 }));
    const first = await call();
    expect(first.status).toBe(200);
    const used = first.body.usage.cost_tokens;
    expect(await recordOf(key.id)).toMatchObject({ budget_used_tokens: used, spent_tokens: used });
    expect((await patch(user, key.id, { budget_tokens: used + 1 })).status).toBe(200);
    const over = await call();
    expect([over.status, over.body.error.code]).toEqual([402, "key_budget_exceeded"]);
    expect((await patch(user, key.id, { budget_tokens: 200 })).status).toBe(200);

    await setClock("2026-03-05T00:00:00.000Z");
    expect(await recordOf(key.id)).toMatchObject({
      budget_used_tokens: 0,
      spent_tokens: used,
      budget_resets_at: "2026-03-06T00:00:00.000Z",
    });
    expect((await call()).status).toBe(200);
  });

  it("skips the due runs of a schedule, which continues automatically in the next interval", async () => {
    const key = await newKey({ budget_tokens: 0, budget_interval: "week" });
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    const made = await key.post("/api/v1/agents", {
      name: "Daily",
      model_id: "lab/plain",
      run_prompt: "Go.",
      ...schedule,
    });
    const path = `/api/v1/agents/${made.body.id}`;
    await setClock("2026-03-06T12:00:00.000Z");
    expect((await user.get(`${path}/occurrences`)).body.occurrences[0]).toMatchObject({ state: "skipped" });
    expect((await user.get(path)).body).toMatchObject({ schedule_status: "active", schedule_paused_reason: null });
    expect((await patch(user, key.id, { budget_tokens: 1_000_000 })).status).toBe(200);
    await setClock("2026-03-07T12:00:00.000Z");
    expect((await user.get(`${path}/runs`)).body.runs[0]).toMatchObject({ status: "succeeded" });
  });

  it("needs a budget: an interval alone is 400, and is removed with the budget", async () => {
    const alone = await user.post("/api/v1/api-keys", { name: "x", budget_interval: "day" });
    expect([alone.status, alone.body.error.param]).toEqual([400, "budget_interval"]);
    const key = await newKey({ budget_tokens: 5, budget_interval: "month" });
    const removed = await patch(user, key.id, { budget_tokens: null });
    expect(removed.body).toMatchObject({ budget_tokens: null, budget_interval: null, budget_resets_at: null });
  });
});

describe("a key's allowed models", () => {
  it("are the only ones that it can call or list, and auto chooses among them", async () => {
    const key = await newKey({ allowed_models: ["lab/odd"] });
    expect(key.record.allowed_models).toEqual(["lab/odd"]);
    const named = [
      { body: ask("lab/plain"), param: "model" },
      { body: ask("lab/odd", { models: ["lab/plain"] }), param: "models[0]" },
    ];
    for (const { body, param } of named) {
      const refused = await key.post(CHAT, body);
      expect([refused.status, refused.body.error]).toMatchObject([
        403,
        { type: "permission_error", code: "model_not_allowed", param },
      ]);
    }
    for (const path of ["/api/v1/messages", "/api/v1/messages/count_tokens"]) {
      const { model, messages } = ask("lab/plain");
      const limit = path.endsWith("tokens") ? {} : { max_tokens: 5 };
      const refused = await key.post(path, { model, messages, ...limit });
      expect([path, refused.status, refused.body]).toMatchObject([
        ...[path, 403],
        { type: "error", error: { type: "permission_error", code: "model_not_allowed" } },
      ]);
    }
    const ids = (await key.get("/api/v1/models")).body.data.map((model: { id: string }) => model.id);
    expect(ids).toEqual(["lab/odd", "auto"]);
    expect((await key.get("/api/v1/models/lab/plain")).status).toBe(403);
    const auto = await key.post(CHAT, ask("auto"));
    expect(auto.body.routing).toMatchObject({ candidates: ["lab/odd"], chosen: "lab/odd" });
  });

  it("hold for the key's agents too: a run-now or a chat of another model is 403, and names the agent's model", async () => {
    const key = await newKey({ allowed_models: ["lab/odd"] });
    const made = await key.post("/api/v1/agents", { name: "Other", model_id: "lab/plain", run_prompt: "Go." });
    const path = `/api/v1/agents/${made.body.id}`;
    for (const { status, body } of [
      await key.post(`${path}/runs`),
      await key.post(`${path}/chat`, { messages: [{ role: "user", content: "Go." }] }),
      await key.post(CHAT, ask(`agent/${made.body.id}`)),
    ]) {
      expect([status, body.error.code, body.error.param]).toEqual([403, "model_not_allowed", "model_id"]);
      expect(body.error.message).toMatch(/^The agent's model lab\/plain is not among the models/);
    }
    expect((await user.post(`/api/v1/agents/${made.body.id}/runs`)).status).toBe(202);
  });

  it("set the listed price of an agent that routes by itself: the dearest of them, as for auto", async () => {
    const made = await user.post("/api/v1/agents", { name: "Router", auto_route: true });
    const key = await newKey({ allowed_models: ["lab/odd"] });
    const models = (await key.get("/api/v1/models")).body.data as { id: string; input_rate: number }[];
    const rateOf = (id: string) => models.find((model) => model.id === id)?.input_rate;
    expect(rateOf(`agent/${made.body.id}`)).toBe(rateOf("lab/odd"));
    expect(rateOf("auto")).toBe(rateOf("lab/odd"));
  });

  it("cannot be widened by the key itself, nor by a key that it creates", async () => {
    const key = await newKey({ allowed_models: ["lab/odd"], limits: { requests_per_minute: 1_000 } });
    for (const changes of [
      { allowed_models: null },
      { allowed_models: ["lab/odd", "lab/plain"] },
      { limits: { requests_per_minute: 1_001 } },
      { limits: null },
    ]) {
      expect((await patch(key, key.id, changes)).body.error?.code).toBe("budgeted_key");
    }
    expect((await key.post("/api/v1/api-keys", { name: "child" })).body.error.code).toBe("budgeted_key");
    expect((await patch(key, key.id, { allowed_models: [] })).body.allowed_models).toEqual([]);
    expect((await key.get("/api/v1/models")).body.data).toEqual([]);
    expect((await patch(user, key.id, { allowed_models: null })).body.allowed_models).toBe(null);
    expect((await key.post(CHAT, ask("lab/plain"))).status).toBe(200);
  });
});
