import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";

// An operator's views and corrections of one user: contract 8.7.

let service: Service;
let user: Client;
let stranger: Client;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T09:00:00Z", PURSER_PAYMENTS: "sandbox" } });
  user = await service.newUser({ tokens: 100_000 });
  stranger = await service.newUser();
  const messages = [{ role: "user", content: "hello" }];
  await user.post("/api/v1/chat/completions", { model: "purser/rehearsal", messages });
});
afterAll(() => service.stop());

const of = (id: string, rest: string) => `/api/v1/admin/users/${id}/${rest}`;
const audit = async () => (await service.admin.get("/api/v1/admin/audit")).body.violations;
const lastAct = async () => (await service.admin.get("/api/v1/admin/acts?limit=1")).body.acts[0];
const balance = async ({ user_id }: Client) =>
  (await service.admin.get(`/api/v1/admin/users/${user_id}`)).body.balance.posted;

describe("the pages of one user", () => {
  it.each([
    ["usage", "/users/me/usage"],
    ["usage?days=3&format=csv", "/users/me/usage?days=3&format=csv"],
    ["transactions?limit=1", "/users/me/transactions?limit=1"],
    ["transactions?format=csv", "/users/me/transactions?format=csv"],
    ["requests", "/users/me/requests"],
    ["buckets?include=closed", "/users/me/buckets?include=closed"],
    ["api-keys", "/api-keys"],
  ])("%s are those of the user's own endpoint, without other users' data", async (rest, own) => {
    // Both lists of keys are read before a key's last use is written.
    const theirs = await service.admin.get(of(user.user_id, rest));
    const mine = await user.get(`/api/v1${own}`);
    expect([theirs.status, theirs.body]).toEqual([200, mine.body]);
    expect((await service.admin.get(of("0198c0de-0000-7000-8000-000000000000", rest))).status).toBe(404);
    expect((await stranger.get(of(user.user_id, rest))).status, "a user's key is no operator's").toBe(401);
  });

  it("requests explains a call like the user's own endpoint", async () => {
    const { request_id, cost_tokens } = (await user.get("/api/v1/users/me/requests")).body.requests[0];
    expect(cost_tokens).toBeGreaterThan(0);
    const theirs = await service.admin.get(of(user.user_id, `requests/${request_id}`));
    expect(theirs.body).toEqual((await user.get(`/api/v1/billing/explain/${request_id}`)).body);
    expect((await service.admin.get(of(stranger.user_id, `requests/${request_id}`))).status).toBe(404);
  });

  it("runs lists the user's runs of all agents, filtered, and /admin/runs those of all users", async () => {
    const agent = (
      await user.post("/api/v1/agents", { name: "Runner", model_id: "purser/rehearsal", run_prompt: "hi" })
    ).body;
    await user.post(`/api/v1/agents/${agent.id}/runs`, undefined, { Prefer: "wait=20" });
    await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-01-31T09:00:00Z" });
    const { runs } = (await service.admin.get(of(user.user_id, "runs"))).body;
    const [own] = (await user.get(`/api/v1/agents/${agent.id}/runs`)).body.runs;
    const user_email = (await user.get("/api/v1/users/me")).body.email;
    expect(runs).toEqual([{ ...own, user_id: user.user_id, user_email, agent_name: "Runner", agent_deleted: false }]);
    const opened = await service.admin.get(`/api/v1/admin/runs/${own.id}`);
    expect(opened.body).toMatchObject({
      ...runs[0],
      steps: [{ index: 0, type: "model", status: "succeeded", error: null }],
    });
    expect(JSON.stringify(opened.body), "no texts").not.toMatch(/"(output|input|arguments|result)":/);
    expect((await service.admin.get("/api/v1/admin/runs/0198c0de-0000-7000-8000-000000000000")).status).toBe(404);
    expect((await service.admin.get("/api/v1/admin/runs?status=succeeded")).body.runs).toEqual(runs);
    expect((await service.admin.get("/api/v1/admin/runs?status=failed")).body.runs).toEqual([]);
    expect((await service.admin.get(of(stranger.user_id, "runs"))).body.runs).toEqual([]);
  });
});

describe("corrections", () => {
  it("create and revoke a user's key, for a user who has lost it", async () => {
    const made = await service.admin.post(of(user.user_id, "api-keys"), { name: "replacement", reason: "lost" });
    expect(made.status).toBe(201);
    expect((await service.as(made.body.key).get("/api/v1/users/me")).body.id).toBe(user.user_id);
    expect(await lastAct()).toMatchObject({ what: "api_key.create", target: { id: made.body.id }, reason: "lost" });
    const key = of(user.user_id, `api-keys/${made.body.id}`);
    expect((await service.admin.request("DELETE", key.replace(user.user_id, stranger.user_id))).status).toBe(404);
    expect((await service.admin.request("DELETE", `${key}?reason=found`)).status).toBe(204);
    expect((await service.as(made.body.key).get("/api/v1/users/me")).status).toBe(401);
    expect(await lastAct()).toMatchObject({ what: "api_key.revoke", reason: "found" });
  });

  it("adjust a balance exactly, bonuses before paid tokens, in entries of the ledger, once per Idempotency-Key, and never below 0", async () => {
    const { user_id, get } = await service.newUser({ trial: false, tokens: 1_000 });
    const adjust = (amount_tokens: number, key: string) =>
      service.admin.post(of(user_id, "adjustments"), { amount_tokens, reason: "mistake" }, { "Idempotency-Key": key });
    expect((await adjust(500, "up")).body).toMatchObject({ amount_tokens: 500, balance: { posted: 1_500, debt: 0 } });
    const down = await adjust(-1_200, "down");
    expect([down.status, down.body.balance]).toEqual([201, { posted: 300, held: 0, available: 300, debt: 0 }]);
    expect((await adjust(-1_200, "down")).headers.get("Idempotent-Replayed")).toBe("true");
    const { transactions } = (await get("/api/v1/users/me/transactions?type=adjustment")).body;
    expect(transactions.map((entry: { amount: number }) => entry.amount)).toEqual([-700, -500, 500]);
    expect(transactions[0].description).toBe("mistake");
    const before = await lastAct();
    expect(before).toMatchObject({ what: "tokens.adjust", user_id, after: { amount_tokens: -1_200 } });
    const below = await adjust(-301, "below");
    expect([below.status, below.body.error.param]).toEqual([400, "amount_tokens"]);
    expect((await adjust(0, "nothing")).status).toBe(400);
    expect(await lastAct()).toEqual(before);
    expect(await audit()).toEqual([]);
  });

  it("close a bucket: its tokens are removed, and a second time changes nothing", async () => {
    const closing = await service.newUser({ trial: false, tokens: 700 });
    const [bucket] = (await closing.get("/api/v1/users/me/buckets")).body.buckets;
    const close = of(closing.user_id, `buckets/${bucket.id}/close`);
    expect((await service.admin.post(close, {})).body.error).toMatchObject({ code: "missing_field", param: "reason" });
    const closed = await service.admin.post(close, { reason: "given by mistake" });
    expect(closed.body).toMatchObject({ remaining: 0, closed_reason: "closed", taken_tokens: 700 });
    expect(await lastAct()).toMatchObject({
      what: "bucket.close",
      target: { id: bucket.id },
      before: { remaining: 700 },
    });
    expect((await service.admin.post(close, { reason: "again" })).body.taken_tokens).toBe(0);
    expect((await service.admin.post(close.replace(closing.user_id, user.user_id), { reason: "x" })).status).toBe(404);
    expect(await balance(closing)).toBe(0);
    expect(await audit()).toEqual([]);
  });

  it("cancel a subscription at the end of its period", async () => {
    const { user_id } = await service.newUser();
    const subscription = of(user_id, "subscription");
    expect((await service.admin.request("DELETE", subscription)).status).toBe(404);
    await service.admin.post(subscription, { plan_id: "starter" });
    const cancelled = await service.admin.request("DELETE", `${subscription}?reason=moved`);
    expect(cancelled.body).toMatchObject({ plan_id: "starter", cancel_at_period_end: true });
    expect(await lastAct()).toMatchObject({ what: "subscription.cancel", user_id, reason: "moved" });
  });

  it("refund a purchase through its provider once, and take its tokens back", async () => {
    const buyer = await service.newUser({ trial: false });
    const { id } = (await buyer.post("/api/v1/billing/purchase", { amount_cents: 100 })).body;
    const refund = () => service.admin.post(`/api/v1/admin/purchases/${id}/refund`, { reason: "unhappy" });
    const refunded = await refund();
    expect([refunded.status, refunded.body]).toMatchObject([200, { status: "refunded", refunded_cents: 100 }]);
    expect(await lastAct()).toMatchObject({ what: "purchase.refund", user_id: buyer.user_id, reason: "unhappy" });
    expect(await balance(buyer)).toBe(0);
    expect((await refund()).body.error.code).toBe("purchase_not_refundable");
    expect(await audit()).toEqual([]);
  });

  it("a refund whose process dies after the provider's answer is in the log of acts, and its retry completes it", async () => {
    const buyer = await service.newUser({ trial: false });
    const { id } = (await buyer.post("/api/v1/billing/purchase", { amount_cents: 100 })).body;
    const refund = () => service.admin.post(`/api/v1/admin/purchases/${id}/refund`, { reason: "unhappy" });
    const db = await service.database.open();
    await db.query({
      text: `create function die() returns trigger language plpgsql as 'begin raise exception ''died''; end'`,
    });
    await db.query({ text: "create trigger dies before insert on payment_event execute function die()" });
    expect((await refund()).status).toBe(500);
    await db.query({ text: "drop trigger dies on payment_event" });
    await db.close();
    expect(await lastAct()).toMatchObject({ what: "purchase.refund", target: { id }, after: { state: "requested" } });
    expect((await refund()).body).toMatchObject({ status: "refunded", refunded_cents: 100 });
    expect(await lastAct()).toMatchObject({ what: "purchase.refund", target: { id }, after: { state: "refunded" } });
  });

  it("a refund that waits for an adjustment of the same bucket takes only the remaining tokens", async () => {
    const buyer = await service.newUser({ trial: false });
    const { id } = (await buyer.post("/api/v1/billing/purchase", { amount_cents: 100 })).body;
    const db = await service.database.open();
    const waiting = { text: "select count(*) as count from pg_locks where not granted" };
    const refunded = await db.transaction(async (tx) => {
      const text = "select ledger_adjust_down($1, 25000, null, 'double', now())";
      await tx.query({ text, values: [buyer.user_id] });
      const refunding = service.admin.post(`/api/v1/admin/purchases/${id}/refund`, { reason: "unhappy" });
      await expect.poll(async () => (await db.query<{ count: number }>(waiting))[0]?.count).toBeGreaterThan(0);
      return { refunding };
    });
    expect((await refunded.refunding).status).toBe(200);
    await db.close();
    const profile = (await buyer.get("/api/v1/users/me")).body;
    expect(profile.balance).toEqual({ posted: 0, held: 0, available: 0, debt: 0 });
    expect(await audit()).toEqual([]);
  });

  it("an adjustment and a refund of the same purchase take no token twice", async () => {
    const buyer = await service.newUser({ trial: false });
    const { id } = (await buyer.post("/api/v1/billing/purchase", { amount_cents: 100 })).body;
    await service.admin.post(of(buyer.user_id, "adjustments"), { amount_tokens: -25_000, reason: "double" });
    await service.admin.post(`/api/v1/admin/purchases/${id}/refund`, { reason: "unhappy" });
    const profile = (await buyer.get("/api/v1/users/me")).body;
    expect(profile.balance).toEqual({ posted: 0, held: 0, available: 0, debt: 0 });
    expect(await audit()).toEqual([]);
  });
});
