import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createStripePayments } from "../../src/account/billing/stripe.adapter.ts";
import { testPayments } from "../../src/operator/service-tests.ts";
import { ask, LAB_KEY, labConfig } from "../support/lab.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { type Client, type Service, startService } from "../support/service.ts";
import { startStripe } from "../support/stripe.ts";
import { STRIPE_KEY } from "../support/stripe-server.ts";
import { completion, json as reply, startUpstream, type Upstream } from "../support/upstream.ts";

// The service at a glance, the settings as they were read, and the checks of a first set-up: contract 8.13.

const MODEL = { id: "lab/a", input_rate: 1, output_rate: 2, upstream_usd_per_million: { input: 1, output: 2 } };
let upstream: Upstream;
let mails: MailServer;
let service: Service;
let user: Client;

const overview = async (window = "24h") => {
  const { status, body } = await service.admin.get(`/api/v1/admin/overview?window=${window}`);
  expect(status).toBe(200);
  return body;
};
const settings = async () => (await service.admin.get("/api/v1/admin/settings")).body;
const stateOf = async (step: string) =>
  (await overview()).setup.find((each: { step: string }) => each.step === step).state;
const testProvider = async (name: string) => {
  const { status, body } = await service.admin.post(`/api/v1/admin/providers/${name}/test`);
  expect(status).toBe(200);
  return body;
};
const writeFile = (changes: object) =>
  writeFileSync(
    join(service.database.data_dir, "purser.json"),
    JSON.stringify({ ...labConfig(upstream, [MODEL]), ...changes }, null, 1),
  );

beforeAll(async () => {
  upstream = await startUpstream();
  mails = await startMailServer();
  const env = { LAB_KEY, SMTP_URL: mails.url, PURSER_PAYMENTS: "none" };
  service = await startService({ env, config: labConfig(upstream, [MODEL]) });
  user = await service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await service.stop();
  await mails.stop();
  await upstream.close();
});

describe("the overview", () => {
  it("has the money of today and of seven days, with the margin", async () => {
    upstream.answer(completion());
    await user.post("/api/v1/chat/completions", ask("lab/a"));
    const { money } = await overview();
    // 10 tokens of input and 4 of output, at 1 and 2 dollars per million. The tokens were granted, so they earn nothing.
    expect(money.today).toMatchObject({ requests: 1, revenue_micro_usd: 0, upstream_cost_micro_usd: 18 });
    expect(money.today.margin_micro_usd).toBe(-18);
    expect(money.last_7_days).toEqual(money.today);
    expect(money.yesterday).toMatchObject({ requests: 0, margin_micro_usd: 0 });
  });

  it("names the agents whose runs fail, with their owner and the last error, and leaves out those outside of the window", async () => {
    const agent = (await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/a", run_prompt: "Go." })).body;
    const run = async (...replies: Parameters<Upstream["answer"]>) => {
      upstream.answer(...replies);
      return (await user.post(`/api/v1/agents/${agent.id}/runs`, {}, { Prefer: "wait=10" })).body;
    };
    await run(completion());
    const failed = await run(reply({ error: { message: "no" } }, 400));
    expect(failed.status).toBe("failed");
    upstream.answer(completion());
    const { runs, failing_agents } = await overview("7d");
    expect(runs).toEqual({ ended: 2, failed: 1, failing_agents: 1 });
    const { email } = (await service.admin.get(`/api/v1/admin/users/${user.user_id}`)).body;
    const { error: last_error, id: last_run_id } = failed;
    expect(failing_agents).toMatchObject([
      { agent_id: agent.id, agent_name: "Scout", user_id: user.user_id, user_email: email, runs: 2, failed_runs: 1 },
    ]);
    expect(failing_agents).toMatchObject([{ last_error, last_run_id, last_failed_at: failed.finished_at }]);
    const db = await service.database.open();
    await db.query({ text: "update run set finished_at = finished_at - interval '2 days'" });
    await db.close();
    expect(await overview()).toMatchObject({ runs: { ended: 0, failed: 0, failing_agents: 0 }, failing_agents: [] });
    expect((await overview("7d")).failing_agents).toHaveLength(1);
  });

  it("says how the last calls of a provider ended, and not what was asked", async () => {
    const failure = { error: { message: "the prompt was: hello", code: "rate_limit_exceeded" } };
    upstream.answer(reply(failure, 429));
    await user.post("/api/v1/chat/completions", ask("lab/a"));
    upstream.answer(completion());
    const body = await overview();
    const lab = body.providers.find(({ name }: { name: string }) => name === "lab");
    expect(lab).toMatchObject({ kind: "openai-compatible", key: "set", key_variable: "LAB_KEY", models: 1 });
    expect(lab).toMatchObject({ recent_failures: 1, last_answered_at: expect.any(String) });
    expect(lab.recent_calls).toBeGreaterThan(2);
    expect(lab.last_failure).toMatchObject({ model_id: "lab/a", code: "upstream_error", provider_status: 429 });
    expect(lab.last_failure.provider_code).toBe("rate_limit_exceeded");
    expect(JSON.stringify(body)).not.toContain("the prompt was");
    const openai = body.providers.find(({ name }: { name: string }) => name === "openai");
    expect(openai).toMatchObject({ key: "not_set", key_variable: "OPENAI_API_KEY", models: 0, recent_calls: 0 });
  });

  it("has the queue, payments to collect and mails that wait", async () => {
    const db = await service.database.open();
    await db.query({
      text: `insert into payment (user_id, id, purpose, status, provider, amount_cents, currency, tokens, created_at, mismatch_cents, mismatch_currency)
        values ($1, gen_random_uuid(), 'top_up', 'mismatch', 'stripe', 100, 'usd', 1000, now(), 90, 'usd')`,
      values: [user.user_id],
    });
    const { queue, payments, mail } = await overview();
    await db.query({ text: "delete from payment where status = 'mismatch'" });
    await db.close();
    expect(queue).toEqual({ queued: 0, running: 0, waiting: 0, oldest_queued_at: null });
    expect(payments).toEqual({ provider: "none", unpaid_invoices: 0, past_due_subscriptions: 0, mismatches: 1 });
    expect(mail).toMatchObject({ delivery: "mail", queued: 0, last_failure: null });
  });

  it("keeps how the last audit and the last backup ended, and a set-up is done once a backup was made", async () => {
    expect(await overview()).toMatchObject({ audit: null, backup: null });
    expect(await stateOf("backup")).toBe("to_do");
    await service.admin.get("/api/v1/admin/audit");
    await service.admin.post("/api/v1/admin/backup");
    await expect.poll(() => stateOf("backup")).toBe("done");
    const { audit, backup } = await overview();
    for (const { ended_at, problem, succeeded_at } of [audit, backup]) {
      expect([problem, succeeded_at]).toEqual([null, ended_at]);
    }
    const db = await service.database.open();
    await db.query({ text: "update bucket set remaining = remaining - 1" });
    await service.admin.get("/api/v1/admin/audit");
    await db.query({ text: "update bucket set remaining = remaining + 1" });
    await db.close();
    const { audit: after } = await overview();
    expect(after).toMatchObject({ problem: expect.stringMatching(/^Violated: /), succeeded_at: audit.succeeded_at });
  });

  it("says what of a first set-up is left", async () => {
    const { setup } = await overview();
    expect(Object.fromEntries(setup.map((each: { step: string; state: string }) => [each.step, each.state]))).toEqual({
      admin: expect.any(String),
      provider: "done",
      payments: "not_wanted",
      mail: "done",
      sign_up: "to_do",
      backup: expect.any(String),
    });
  });
});

describe("a test", () => {
  it("of a provider is one small call, which no user pays, and says what it costs the operator", async () => {
    const sent = upstream.requests.length;
    upstream.answer(completion());
    const test = await testProvider("lab");
    expect(test).toEqual({
      ok: true,
      latency_ms: expect.any(Number),
      problem: null,
      model_id: "lab/a",
      provider: null,
      cost_micro_usd: 18,
    });
    expect(upstream.requests.slice(sent)).toMatchObject([{ body: { max_tokens: 16 } }]);
    expect((await user.get("/api/v1/users/me/requests?limit=1")).body.requests[0].model).toBe("lab/a");
    expect((await service.admin.get("/api/v1/admin/audit")).body.ok).toBe(true);
  });

  it("of a provider that refuses has the provider's own words without the key, and names the variable", async () => {
    upstream.answer(
      reply({ error: { message: `Incorrect API key provided: ${LAB_KEY}`, code: "invalid_api_key" } }, 401),
    );
    const test = await testProvider("lab");
    upstream.answer(completion());
    expect(test).toMatchObject({ ok: false, problem: expect.stringContaining("LAB_KEY"), cost_micro_usd: null });
    expect(test.provider).toMatchObject({ status: 401, code: "invalid_api_key" });
    expect(test.provider.message).toMatch(/^Incorrect API key provided: \[redacted\]/);
  });

  it("of a provider without its key makes no call, and of an unknown one is 404", async () => {
    const test = await testProvider("openai");
    expect(test).toMatchObject({ ok: false, model_id: null, problem: expect.stringContaining("OPENAI_API_KEY") });
    expect((await service.admin.post("/api/v1/admin/providers/none/test")).status).toBe(404);
  });

  it("of the mail server sends a mail, and has the server's own words about a failure", async () => {
    const send = async () => (await service.admin.post("/api/v1/admin/mail/test", { to: "ops@example.com" })).body;
    expect(await send()).toMatchObject({ ok: true, problem: null, smtp_status: null });
    expect(mails.to("ops@example.com")).toMatchObject([{ subject: "Test mail from Purser" }]);
    mails.refuse(550);
    expect(await send()).toMatchObject({ ok: false, smtp_status: 550, answer: expect.stringContaining("not now") });
    expect((await overview()).mail.last_failure).toMatchObject({ smtp_status: 550, at: expect.any(String) });
  });

  it("of payments says that none are configured", async () => {
    const { body } = await service.admin.post("/api/v1/admin/payments/test");
    expect(body).toEqual({ ok: true, latency_ms: 0, problem: null, provider: "none" });
  });

  it("of Stripe reads its events, and says so if Stripe rejects the key", async () => {
    const stripe = await startStripe({ now: () => "2026-01-31T10:00:00.000Z" });
    const rest = { webhook_secret: "whsec_1", api_base: stripe.url, public_url: "https://purser.example" };
    const check = (secret_key: string) => testPayments(createStripePayments({ ...rest, secret_key }));
    expect(await check(STRIPE_KEY)).toMatchObject({ ok: true, problem: null });
    const { ok, problem } = await check("sk_test_wrong");
    expect([ok, problem]).toEqual([false, "Stripe says: Invalid API Key. Check STRIPE_SECRET_KEY."]);
    stripe.stop();
  });
});

describe("the settings", () => {
  it("are those in force, with the file's path, and without secrets", async () => {
    const body = await settings();
    expect(body.file.path).toBe(join(service.database.data_dir, "purser.json"));
    expect(body.variables).toEqual(
      expect.arrayContaining([
        { name: "LAB_KEY", is_secret: true, is_set: true, from: "environment", value: null },
        { name: "PURSER_PAYMENTS", is_secret: false, is_set: true, from: "environment", value: "none" },
      ]),
    );
    expect(body.file_settings).toEqual(
      expect.arrayContaining([
        { path: "models.lab/a.input_rate", value: 1, line: expect.any(Number) },
        { path: "margin", value: 1, line: null },
      ]),
    );
    expect(body.models).toMatchObject([{ source: "built_in" }, { model_id: "lab/a", source: "file" }]);
    expect(JSON.stringify(body)).not.toContain(LAB_KEY);
    expect(body.last_reload).toBeNull();
  });

  it("after a reload are the new ones, and the answer names what changed", async () => {
    writeFile({ trial: { days: 3 } });
    const { body } = await service.admin.post("/api/v1/admin/reload");
    expect(body).toMatchObject({ models: 2, changed: ["trial"] });
    const after = await settings();
    expect(after.file_settings).toContainEqual({ path: "trial.days", value: 3, line: expect.any(Number) });
    expect(after.last_reload).toMatchObject({ changed: ["trial"], problem: null, at: after.read_at });
  });

  it("stay as they were if the file has a fault, whose line they name", async () => {
    const before = await settings();
    writeFile({ trial: { days: "many" } });
    expect((await service.admin.post("/api/v1/admin/reload")).status).toBe(400);
    const after = await settings();
    expect(after).toMatchObject({ read_at: before.read_at, file_settings: before.file_settings });
    expect(after.last_reload).toMatchObject({
      changed: [],
      problem: expect.stringMatching(/purser\.json:\d+: trial\.days /),
    });
  });
});

it("a key with the role read sees the overview and the settings, and tests nothing", async () => {
  const { key } = (await service.admin.post("/api/v1/admin/keys", { name: "monitor", role: "read" })).body;
  const monitor = service.as(key);
  for (const path of ["overview", "settings"]) expect((await monitor.get(`/api/v1/admin/${path}`)).status).toBe(200);
  for (const path of ["providers/lab/test", "mail/test", "payments/test"]) {
    expect((await monitor.post(`/api/v1/admin/${path}`, { to: "ops@example.com" })).status).toBe(403);
  }
});
