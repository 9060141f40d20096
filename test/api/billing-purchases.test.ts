import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { type Answer, type Client, startService } from "../support/service.ts";

const PURCHASE = "/api/v1/billing/purchase";
const PURCHASES = "/api/v1/billing/purchases";
const CHAT = "/api/v1/chat/completions";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2028-02-29T12:00:00Z", PURSER_PAYMENTS: "sandbox" } });
});
afterAll(() => lab.stop());

const newUser = () => lab.service.newUser({ trial: false });
const balanceOf = async (user: Client) => (await user.get("/api/v1/users/me")).body.token_balance;
const refusal = ({ status, body }: Answer) => [status, body.error?.code, body.error?.param];

describe("top-ups (contract 5)", () => {
  it("grant 6,250 tokens a cent for 12 months, at once in the sandbox, which says so", async () => {
    const user = await newUser();
    const made = await user.post(PURCHASE, { amount_cents: 100 });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: expect.any(String),
      status: "succeeded",
      amount_cents: 100,
      refunded_cents: 0,
      currency: "usd",
      tokens: 625_000,
      checkout_url: null,
      bucket_id: expect.any(String),
      created_at: "2028-02-29T12:00:00.000Z",
      sandbox: true,
    });
    expect((await user.get("/api/v1/users/me/buckets")).body.buckets).toMatchObject([
      {
        id: made.body.bucket_id,
        source: "top_up",
        original_amount: 625_000,
        granted_at: "2028-02-29T12:00:00.000Z",
        expires_at: "2029-02-28T12:00:00.000Z",
      },
    ]);
    expect((await user.get(`${PURCHASES}/${made.body.id}`)).body).toEqual(made.body);
    expect((await user.get("/api/v1/users/me/transactions")).body.transactions[0]).toMatchObject({
      type: "grant",
      amount: 625_000,
      source: "top_up",
    });
  });

  it("in tokens cost the price rounded up to a cent, and grant exactly the requested tokens", async () => {
    const user = await newUser();
    const { body } = await user.post(PURCHASE, { tokens: 1_000_001 });
    expect(body).toMatchObject({ amount_cents: 161, tokens: 1_000_001 });
    expect(await balanceOf(user)).toBe(1_000_001);
  });

  it.each([
    [{}, "missing_field", "amount_cents"],
    [{ amount_cents: 99 }, "invalid_value", "amount_cents"],
    [{ amount_cents: 1.5 }, "invalid_value", "amount_cents"],
    [{ tokens: 618_750 }, "invalid_value", "tokens"],
    [{ amount_cents: 100, tokens: 625_000 }, "invalid_value", "tokens"],
    [{ amount_cents: 100, success_url: "javascript:alert(1)" }, "invalid_value", "success_url"],
    [{ amount_cents: 100, cancel_url: "/back" }, "invalid_value", "cancel_url"],
    [{ amount_cents: 100, coupon: "free" }, "unknown_field", "coupon"],
  ])("reject %j and store nothing", async (wanted, code, param) => {
    const user = await newUser();
    expect(refusal(await user.post(PURCHASE, wanted))).toEqual([400, code, param]);
    expect((await user.get(PURCHASES)).body.purchases).toEqual([]);
  });

  it("with one Idempotency-Key are one purchase, also if they arrive at the same moment", async () => {
    const user = await newUser();
    const headers = { "Idempotency-Key": "order-1" };
    const buy = () => user.post(PURCHASE, { amount_cents: 200 }, headers);
    const answers = await Promise.all([buy(), buy(), buy()]);
    // A request during the first one gets 409; a later request gets the first one's answer.
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses[0]).toBe(201);
    for (const status of statuses) expect([201, 409]).toContain(status);
    const replayed = await buy();
    expect([replayed.status, replayed.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
    expect(refusal(await user.post(PURCHASE, { amount_cents: 300 }, headers))).toEqual([
      422,
      "idempotency_mismatch",
      null,
    ]);
    const { purchases } = (await user.get(PURCHASES)).body;
    expect(purchases).toEqual([replayed.body]);
    expect(await balanceOf(user)).toBe(1_250_000);
  });

  it("are listed newest first in pages, and only to their user", async () => {
    const [user, other] = [await newUser(), await newUser()];
    const ids: string[] = [];
    for (const amount_cents of [100, 200, 300]) ids.unshift((await user.post(PURCHASE, { amount_cents })).body.id);
    const first = (await user.get(`${PURCHASES}?limit=2`)).body;
    const second = (await user.get(`${PURCHASES}?limit=2&cursor=${first.next_cursor}`)).body;
    expect([...first.purchases, ...second.purchases].map(({ id }) => id)).toEqual(ids);
    expect(second.next_cursor).toBeNull();
    expect((await other.get(PURCHASES)).body).toEqual({ purchases: [], next_cursor: null });
    expect(refusal(await other.get(`${PURCHASES}/${ids[0]}`))).toEqual([404, "not_found", null]);
  });

  it("end a trial, end a 402, and keep the trial's tokens until the trial's last day", async () => {
    const user = await lab.service.newUser();
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2028-03-10T00:00:00Z" });
    await user.post(PURCHASE, { amount_cents: 100 });
    expect((await user.get("/api/v1/users/me")).body).toMatchObject({ is_trial: false, token_balance: 1_250_000 });
    const late = await lab.service.newUser();
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2028-04-10T00:00:00Z" });
    expect(refusal(await late.post(CHAT, ask("lab/plain"))).slice(0, 2)).toEqual([402, "trial_ended"]);
    await late.post(PURCHASE, { amount_cents: 100 });
    expect((await late.post(CHAT, ask("lab/vendor/deep:v1"))).status).toBe(200);
    expect(await balanceOf(user)).toBe(625_000);
  });

  it("leave a clean audit", () => expectCleanAudit(lab.service));
});

describe("PURSER_PAYMENTS=none (contract 1)", () => {
  it("sells nothing (503) and stores nothing; a plan that the operator gave can still be lowered, cancelled and used", async () => {
    const service = await startService({ env: { PURSER_PAYMENTS: "none" } });
    const user = await service.newUser({ trial: false });
    const subscription = "/api/v1/billing/subscription";
    const unconfigured = [503, "payments_not_configured", null];
    expect(refusal(await user.post(PURCHASE, { amount_cents: 100 }))).toEqual(unconfigured);
    expect(refusal(await user.post(PURCHASE, { amount_cents: 1 }))).toEqual([400, "invalid_value", "amount_cents"]);
    expect(refusal(await user.post(subscription, { plan_id: "pro" }))).toEqual(unconfigured);
    expect((await user.get(PURCHASES)).body.purchases).toEqual([]);
    expect((await user.get(subscription)).body.status).toBe("none");
    await service.admin.post(`/api/v1/admin/users/${user.user_id}/subscription`, { plan_id: "pro" });
    expect(refusal(await user.post(subscription, { plan_id: "enterprise" }))).toEqual(unconfigured);
    expect((await user.post(subscription, { plan_id: "starter" })).body.pending_plan_id).toBe("starter");
    expect((await user.request("DELETE", subscription)).body.cancel_at_period_end).toBe(true);
    expect((await user.post("/api/v1/billing/overage/enable")).body.enabled).toBe(true);
    await expectCleanAudit(service);
    await service.stop();
  });
});
