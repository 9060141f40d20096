import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { ask, expectCleanAudit, LAB_KEY, labConfig } from "../support/lab.ts";
import { ADMIN_KEY, type Client, type Service, startService } from "../support/service.ts";
import { completion, startUpstream, type Upstream } from "../support/upstream.ts";

// POST /api/v1/admin/reload reads PURSER_CONFIG and the catalogue without a restart, completely or not at all.

const CHAT = "/api/v1/chat/completions";
const RELOAD = "/api/v1/admin/reload";
const OLD = { id: "lab/a", input_rate: 1, output_rate: 2 };

let upstream: Upstream;
let service: Service;
let user: Client;
let written: Record<string, unknown>;

beforeEach(async () => {
  await service?.stop();
  await upstream?.close();
  upstream = await startUpstream();
  written = labConfig(upstream, [OLD]);
  service = await startService({ env: { LAB_KEY, OPENAI_API_KEY: "sk-of-test" }, config: written });
  user = await service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

/** Rewrites the file and reloads it. */
async function reload(changes: object) {
  writeFileSync(join(service.database.data_dir, "purser.json"), JSON.stringify({ ...written, ...changes }));
  return service.admin.post(RELOAD);
}
const modelsWith = (...models: (typeof OLD)[]) => ({ models: labConfig(upstream, models).models });
const modelIds = async () =>
  (await user.get("/api/v1/models")).body.data.map((model: { id: string }) => model.id) as string[];
const explain = async (request_id: string) => (await user.get(`/api/v1/billing/explain/${request_id}`)).body;

describe("a reload", () => {
  it("replaces models, prices, plans and limits for new calls", async () => {
    const plan = { id: "tiny", name: "Tiny", price_cents: 100, included_tokens: 5 };
    const limits = { requests_per_minute: 777_777 };
    const { status, body } = await reload({
      ...modelsWith({ ...OLD, input_rate: 3, output_rate: 4 }, { id: "lab/b", input_rate: 1, output_rate: 2 }),
      plans: [plan],
      limits,
      trial: { days: 3, tokens: 33 },
    });
    expect([status, body]).toMatchObject([200, { plans: 1, price_version: expect.any(String) }]);
    expect(await modelIds()).toEqual(expect.arrayContaining(["lab/a", "lab/b"]));
    expect((await user.post(CHAT, ask("lab/a"))).body.usage.cost_tokens).toBe(46);
    expect((await user.get("/api/v1/billing/plans")).body.plans).toMatchObject([plan]);
    expect((await user.get("/api/v1/models")).headers.get("ratelimit-limit")).toBe("777777");
    expect((await (await service.newUser()).get("/api/v1/users/me")).body.token_balance).toBe(33);
    await expectCleanAudit(service);
    const [act] = (await service.admin.get("/api/v1/admin/acts?what=configuration.reload")).body.acts;
    expect(act.after.changed).toEqual([
      ...["models.lab/a", "models.lab/b", "plans.starter", "plans.professional"],
      ...["plans.pro", "plans.enterprise", "plans.tiny"],
      ...["trial", "limits"],
    ]);
    // The next one names only what differs from this one.
    await reload({ plans: [plan], limits, trial: { days: 3, tokens: 33 } });
    const [next] = (await service.admin.get("/api/v1/admin/acts?what=configuration.reload")).body.acts;
    expect(next.after.changed).toEqual(["models.lab/a", "models.lab/b"]);
  });

  it("does not change the prices of running calls, and their charge names the old price list", async () => {
    const may_finish = Promise.withResolvers<void>();
    upstream.answer(async (response, request) => {
      await may_finish.promise;
      await completion()(response, request);
    });
    const before = (await user.get("/api/v1/models/lab/a")).body.price_version;
    const started = user.post(CHAT, ask("lab/a"), { "X-Request-Id": "started" });
    await upstream.until(() => upstream.requests.length === 1);
    // The file no longer has the model and its provider.
    expect((await reload({ models: [], providers: [] })).status).toBe(200);
    may_finish.resolve();
    expect((await started).body.usage.cost_tokens).toBe(18);
    expect(await explain("started")).toMatchObject({ rates: { input_rate: 1, output_rate: 2, version: before } });
    expect(await modelIds()).not.toContain("lab/a");
  });

  it("may remove an agent's model: a chat and a run then name this model and the agent's field", async () => {
    const agent = (await user.post("/api/v1/agents", { name: "Left", model_id: "lab/a" })).body.id;
    await reload({ models: [] });
    expect((await user.get(`/api/v1/agents/${agent}`)).body.warnings).toMatchObject([
      { code: "model_unavailable", param: "model_id", message: expect.stringContaining('"lab/a" is not offered') },
    ]);
    const messages = [{ role: "user", content: "hello" }];
    const own_chat = await user.post(`/api/v1/agents/${agent}/chat`, { messages });
    for (const { status, body } of [own_chat, await user.post(CHAT, ask(`agent/${agent}`))]) {
      expect([status, body.error.code, body.error.param]).toEqual([409, "model_unavailable", "model_id"]);
      expect(body.error.message).toMatch(/^The agent's model "lab\/a" is not offered any more\. Set another model_id/);
    }
    const [run] = (await user.get(`/api/v1/agents/${agent}/runs`)).body.runs;
    expect(run.error).toEqual({ code: "model_unavailable", message: own_chat.body.error.message });
    expect(upstream.requests).toEqual([]);
  });

  it("keeps the rates of earlier charges readable", async () => {
    await user.post(CHAT, ask("lab/a"), { "X-Request-Id": "old" });
    await reload(modelsWith({ ...OLD, input_rate: 3, output_rate: 4 }));
    await user.post(CHAT, ask("lab/a"), { "X-Request-Id": "new" });
    const [old, now] = [await explain("old"), await explain("new")];
    expect([old.rates.input_rate, now.rates.input_rate]).toEqual([1, 3]);
    expect(old.rates.version).not.toBe(now.rates.version);
  });

  it("changes the least time between two runs of a schedule, for schedules that are set afterwards", async () => {
    const agent = { name: "Scout", model_id: "lab/a", run_prompt: "Go." };
    const path = `/api/v1/agents/${(await user.post("/api/v1/agents", agent)).body.id}/schedules`;
    const hourly = { name: "hourly", interval: "cron", cron: "0 * * * *" };
    const made = await user.post(path, hourly);
    expect(made.status).toBe(201);
    await reload({ limits: { min_schedule_minutes: 120 } });
    const rejected = (await user.post(path, { ...hourly, name: "more" })).body.error;
    expect(rejected).toMatchObject({ param: "cron", message: expect.stringContaining("at least 120 minutes") });
    expect((await user.get(`${path}/${made.body.id}`)).body.status).toBe("active");
  });

  it.each<[fault: string, changes: object, reason: RegExp]>([
    ["an invalid value", { margin: -1 }, /purser\.json:1: margin must be above 0/],
    ["an unknown key", { colour: "red" }, /colour is an unknown key/],
    ["a missing catalogue", { catalogue: "nowhere.json" }, /nowhere\.json cannot be read \(ENOENT\)/],
  ])("with %s changes nothing and says why", async (_, changes, reason) => {
    const before = await modelIds();
    const { status, body } = await reload({ plans: [], ...changes });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: "invalid_value", param: "PURSER_CONFIG" });
    expect(body.error.message).toMatch(reason);
    expect(body.error.message).toMatch(/^Nothing was reloaded\. PURSER_CONFIG: /);
    expect(await modelIds()).toEqual(before);
    expect((await user.post(CHAT, ask("lab/a"))).body.usage.cost_tokens).toBe(18);
  });

  it("can be called only by the operator", async () => {
    expect((await user.post(RELOAD)).status).toBe(401);
    expect((await service.as(ADMIN_KEY).post(RELOAD)).status).toBe(200);
  });
});

describe("a catalogue file", () => {
  const entry = {
    id: "mine",
    provider: "lab",
    name: "Mine",
    context_window: 1_000,
    max_output_tokens: 100,
    supports: {},
    prices: [{ usd_per_million: { input: "1.60", output: "8" }, source: "https://a.test/prices", as_of: "2026-11-22" }],
  };
  const write = (models: object[]) =>
    writeFileSync(join(service.database.data_dir, "models.json"), JSON.stringify({ models }));

  it("extends the built-in catalogue, or replaces it", async () => {
    write([entry, { ...entry, id: "gpt-4.1", name: "Another" }]);
    expect((await reload({ catalogue: "models.json" })).status).toBe(200);
    expect(await modelIds()).toEqual(expect.arrayContaining(["mine", "gpt-4.1", "gpt-4.1-mini"]));
    expect((await user.get("/api/v1/models/mine")).body).toMatchObject({ input_rate: 1, output_rate: 5 });
    expect((await user.get("/api/v1/models/gpt-4.1")).body).toMatchObject({ name: "Another", owned_by: "lab" });
    await reload({ catalogue: { file: "models.json", mode: "replace" } });
    expect(await modelIds()).not.toContain("gpt-4.1-mini");
  });

  it("is read again by a reload", async () => {
    write([entry]);
    await reload({ catalogue: "models.json" });
    write([{ ...entry, prices: [{ ...entry.prices[0], usd_per_million: { input: "3.20", output: "8" } }] }]);
    expect((await service.admin.post(RELOAD)).status).toBe(200);
    expect((await user.get("/api/v1/models/mine")).body.input_rate).toBe(2);
  });

  it("with a fault is rejected with the file, the entry and the reason", async () => {
    write([{ ...entry, provider: "nobody" }]);
    const { body } = await reload({ catalogue: "models.json" });
    expect(body.error.message).toMatch(/models\.json: mine: nobody is neither built in nor among the providers/);
    write([{ ...entry, context_window: -1 }]);
    expect((await service.admin.post(RELOAD)).body.error.message).toMatch(/models\.json: models\[0\]\.context_window/);
  });
});
