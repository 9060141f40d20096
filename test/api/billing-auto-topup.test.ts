import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AutoTopupPaused } from "../../src/account/billing/auto-topup.service.ts";
import { billingErrors } from "../../src/account/billing/errors.ts";
import { createStripePayments, type StripePayments } from "../../src/account/billing/stripe.adapter.ts";
import { errors } from "../../src/kernel/errors.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createBillingFixture, forgetPayments } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ask, expectCleanAudit, type Lab, startLab, WIDE_MODELS } from "../support/lab.ts";
import { waitingForLocks } from "../support/postgres-server.ts";
import type { Answer, Client } from "../support/service.ts";
import { startStripe, WEBHOOK_SECRET } from "../support/stripe.ts";
import { STRIPE_KEY } from "../support/stripe-server.ts";
import { completion } from "../support/upstream.ts";

// contract 5.9.1: an automatic purchase when the balance is below a threshold.

const AUTO = "/api/v1/billing/auto-topup";
const SETTINGS = { threshold_tokens: 100_000, amount_cents: 100, monthly_cap_cents: 250 };
const BOUGHT = 625_000;

describe("automatic top-ups by the API", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab(WIDE_MODELS, {
      env: { PURSER_TEST_CLOCK: "2028-02-10T12:00:00Z", PURSER_PAYMENTS: "sandbox" },
    });
  });
  afterAll(() => lab.stop());
  let now = "2028-02-10T12:00:00Z";
  /** Does all work that is due. */
  const sweep = (at = now) => {
    now = at;
    return lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
  };
  const newUser = (tokens: number) => lab.service.newUser({ trial: false, tokens });
  const put = (user: Client, body: object) => user.request("PUT", AUTO, body);
  const refusal = ({ status, body }: Answer) => [status, body.error?.code, body.error?.param];
  const balanceOf = async (user: Client) => (await user.get("/api/v1/users/me")).body.balance.posted;
  const purchasesOf = async (user: Client) => (await user.get("/api/v1/billing/purchases")).body.purchases;
  const spend = async (user: Client, tokens: number) => {
    lab.upstream.answer(completion("ok", { prompt_tokens: tokens, completion_tokens: 0 }));
    expect((await user.post("/api/v1/chat/completions", ask("lab/plain", { max_tokens: 1 }))).status).toBe(200);
  };

  it("are off until they are set, keep omitted fields, and are separate for each user", async () => {
    const [user, other] = [await newUser(1_000_000), await newUser(1_000_000)];
    const unset = { enabled: false, threshold_tokens: null, amount_cents: null, monthly_cap_cents: null };
    const idle = { status: "off", paused_reason: null, paused_at: null, ordered_this_month_cents: 0 };
    expect((await user.get(AUTO)).body).toEqual({ ...unset, ...idle });
    expect((await put(user, { enabled: false })).body).toEqual({ ...unset, ...idle });
    const stored = { ...idle, enabled: true, ...SETTINGS, status: "active" };
    expect(await put(user, SETTINGS)).toMatchObject({ status: 200, body: stored });
    expect((await put(user, { enabled: false })).body).toEqual({ ...stored, enabled: false, status: "off" });
    expect((await put(user, { threshold_tokens: 7 })).body).toEqual({ ...stored, threshold_tokens: 7 });
    expect((await user.get(AUTO)).body).toEqual({ ...stored, threshold_tokens: 7 });
    expect((await other.get(AUTO)).body).toEqual({ ...unset, ...idle });
    const edited = { ...stored, monthly_cap_cents: 300 };
    expect(await put(user, { ...edited, ordered_this_month_cents: 7 })).toMatchObject({ status: 200, body: edited });
    expect(refusal(await put(user, { ...edited, status: "paused" }))).toEqual([400, "invalid_value", "status"]);
  });

  it.each([
    [{}, "missing_field", "threshold_tokens"],
    [{ ...SETTINGS, amount_cents: undefined }, "missing_field", "amount_cents"],
    [{ ...SETTINGS, threshold_tokens: 0 }, "invalid_value", "threshold_tokens"],
    [{ ...SETTINGS, amount_cents: 99 }, "invalid_value", "amount_cents"],
    [{ ...SETTINGS, monthly_cap_cents: 99 }, "invalid_value", "monthly_cap_cents"],
    [{ ...SETTINGS, amount_cents: 300 }, "invalid_value", "monthly_cap_cents"],
    [{ ...SETTINGS, card: "4242" }, "unknown_field", "card"],
  ])("reject %j and store nothing", async (body, code, param) => {
    const user = await newUser(1_000_000);
    expect(refusal(await put(user, body))).toEqual([400, code, param]);
    expect((await user.get(AUTO)).body).toMatchObject({ enabled: false, amount_cents: null });
  });

  it("need the scope to pay: a read-only key gets 403", async () => {
    const user = await newUser(1_000_000);
    const { body } = await user.post("/api/v1/api-keys", { name: "reader", scopes: ["billing:read"] });
    const headers = { Authorization: `Bearer ${body.key}`, "Content-Type": "application/json" };
    const asked = await fetch(`${lab.service.url}${AUTO}`, { method: "PUT", headers, body: JSON.stringify(SETTINGS) });
    expect(asked.status).toBe(403);
    expect((await fetch(`${lab.service.url}${AUTO}`, { headers })).status).toBe(200);
  });

  it("buy once when a charge takes the balance below the threshold, never above the month's cap", async () => {
    const user = await newUser(150_000);
    await put(user, SETTINGS);
    await sweep();
    expect(await purchasesOf(user)).toEqual([]);
    await spend(user, 60_000);
    await sweep();
    await expect.poll(() => balanceOf(user)).toBe(90_000 + BOUGHT);
    await sweep();
    expect(await purchasesOf(user)).toMatchObject([{ status: "succeeded", amount_cents: 100, automatic: true }]);
    await spend(user, 650_000);
    await sweep();
    await expect.poll(() => balanceOf(user)).toBe(65_000 + BOUGHT);
    await spend(user, 650_000);
    await sweep();
    await sweep();
    expect(await balanceOf(user)).toBe(40_000);
    expect((await user.get(AUTO)).body).toMatchObject({ status: "cap_reached", ordered_this_month_cents: 200 });
    await sweep("2028-02-29T23:59:59.999Z");
    expect(await balanceOf(user)).toBe(40_000);
    await sweep("2028-03-01T00:00:00Z");
    await sweep();
    await expect.poll(() => balanceOf(user)).toBe(40_000 + BOUGHT);
    expect((await user.get(AUTO)).body).toMatchObject({ status: "active", ordered_this_month_cents: 100 });
  });

  it("buy nothing while they are off or the user is suspended", async () => {
    const [off, suspended] = [await newUser(10), await newUser(10)];
    await put(off, { ...SETTINGS, enabled: false });
    await lab.service.admin.post(`/api/v1/admin/users/${suspended.user_id}/suspend`, {});
    const db = await lab.service.database.open();
    await db.query({
      text: "insert into auto_topup (user_id, enabled, threshold_tokens, amount_cents, monthly_cap_cents) values ($1, true, 100, 100, 100)",
      values: [suspended.user_id],
    });
    await sweep();
    const [{ count } = { count: -1 }] = await db.query<{ count: number }>({
      text: "select count(*)::integer as count from payment where user_id in ($1, $2)",
      values: [off.user_id, suspended.user_id],
    });
    expect(count).toBe(0);
    await db.close();
  });

  it("stop after a refund, because a new purchase would replace it; the user's erasure deletes the settings", async () => {
    const user = await newUser(10);
    await put(user, SETTINGS);
    await sweep();
    await expect.poll(() => balanceOf(user)).toBe(10 + BOUGHT);
    const [{ id }] = await purchasesOf(user);
    await lab.service.admin.post(`/api/v1/admin/purchases/${id}/refund`, { reason: "by mistake" });
    await sweep();
    expect(await balanceOf(user)).toBe(10);
    expect((await user.get(AUTO)).body).toMatchObject({ status: "paused", paused_reason: "payment_returned" });
    const { notices } = (await user.get("/api/v1/notices?event=auto_topup.paused")).body;
    expect(notices).toMatchObject([{ data: { reason: "payment_returned", payment_id: id, amount_cents: 100 } }]);
    await lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`);
    const db = await lab.service.database.open();
    expect(await db.query({ text: "select from auto_topup where user_id = $1", values: [user.user_id] })).toEqual([]);
    await db.close();
  });

  it("leave a clean audit", () => expectCleanAudit(lab.service));
});

describe("automatic top-ups over nodes, crashes and declines", () => {
  let database: TestDatabase;
  let db: Db;
  let node: ReturnType<typeof createBillingFixture>;
  let paused: AutoTopupPaused[];
  beforeAll(async () => {
    database = await createTestDatabase();
    db = await database.open();
  });
  afterAll(async () => {
    await db.close();
    await database.drop();
  });
  beforeEach(async () => {
    await forgetPayments(db);
    node = createBillingFixture(db);
    paused = [];
    node.calls.onAutoTopupPaused = async (pause) => void paused.push(pause);
  });
  const onlyPayment = async () => {
    const rows = await db.query<{ id: string; status: string }>({ text: "select id, status from payment" });
    expect(rows).toHaveLength(1);
    return rows[0] ?? { id: "", status: "" };
  };
  const resend = () => db.query({ text: "update payment set send_at = now() where send_at is not null" });
  const paidEvent = (payment_id: string, amount_cents = 100) => ({
    provider: "stripe" as const,
    event_id: `paid:${payment_id}`,
    kind: "paid" as const,
    payment_id,
    reference: `money:${payment_id}`,
    amount_cents,
    billed: { amount_cents: 100, currency: "usd" },
  });
  const low = async () => {
    const user_id = await node.account(50_000);
    await node.billing.auto_topups.set(user_id, SETTINGS);
    return user_id;
  };

  it("order once if several nodes sweep at the same moment, and not again while the order is open", async () => {
    const user_id = await low();
    const nodes = [node, createBillingFixture(db), createBillingFixture(db)];
    const url = database.database_url ?? "";
    const blocker = new pg.Client(url);
    await blocker.connect();
    // No order can be stored until all nodes want one.
    await blocker.query("begin; lock table payment in share mode");
    const swept = Promise.all(nodes.map((each) => each.sweep()));
    await expect.poll(async () => (await waitingForLocks(url)).length, { interval: 10 }).toBe(nodes.length);
    await blocker.query("commit");
    await Promise.all([swept, blocker.end()]);
    await Promise.all(nodes.map((each) => each.sweep()));
    const asked = nodes.flatMap(({ payments }) => payments.asked.filter(({ what }) => what === "chargeTopUp"));
    const { id } = await onlyPayment();
    expect(asked).toMatchObject([{ order: { payment_id: id, amount_cents: 100, payer: { user_id } } }]);
    await Promise.all(nodes.map((each) => each.billing.applyPaymentEvent(paidEvent(id))));
    await Promise.all(nodes.map((each) => each.sweep()));
    expect([(await onlyPayment()).status, (await node.balance(user_id)).posted]).toEqual(["succeeded", 675_000]);
  });

  it("survive kill -9 before and after the charge: the same order is sent again and paid once", async () => {
    const user_id = await low();
    node.payments.answers.chargeTopUp = errors.upstream("lost", new Error("the answer was lost"));
    await expect(node.sweep()).rejects.toThrow("1 orders failed");
    const { id, status } = await onlyPayment();
    expect(status).toBe("pending");
    // The provider accepts the order, but its event is not applied: the insert fails, as if the process had died.
    node.payments.answers.chargeTopUp = [{ ...paidEvent(id), amount_cents: 0.5 }];
    await resend();
    await expect(node.sweep()).rejects.toThrow("1 orders failed");
    expect(await onlyPayment()).toMatchObject({ id, status: "pending" });
    node.payments.answers.chargeTopUp = [paidEvent(id)];
    await resend();
    await node.sweep();
    expect(new Set(node.payments.asked.map(({ order }) => (order as { payment_id: string }).payment_id)).size).toBe(1);
    await node.sweep();
    expect([(await onlyPayment()).status, (await node.balance(user_id)).posted]).toEqual(["succeeded", 675_000]);
  });

  it("pause with a notice when the payment is declined; only the user resumes them", async () => {
    const user_id = await low();
    node.payments.answers.chargeTopUp = billingErrors.paymentFailed();
    await expect(node.sweep()).rejects.toThrow("1 orders failed");
    await node.sweep();
    const { id, status } = await onlyPayment();
    expect(status).toBe("failed");
    const reason = "payment_declined";
    expect(paused).toEqual([{ user_id, payment_id: id, amount_cents: 100, reason }]);
    const settings = await node.billing.auto_topups.get(user_id);
    expect(settings).toMatchObject({ status: "paused", paused_reason: reason, ordered_this_month_cents: 0 });
    node.payments.answers.chargeTopUp = [];
    expect(await node.billing.auto_topups.set(user_id, {})).toMatchObject({ status: "active", paused_at: null });
    await node.sweep();
    expect(await node.billing.auto_topups.get(user_id)).toMatchObject({ ordered_this_month_cents: 100 });
  });

  it("go on when a purchase that the user made is declined", async () => {
    const user_id = await low();
    const { purchase } = await node.orderTopUp(user_id, 500);
    await node.billing.applyPaymentEvent({ ...node.named(), kind: "failed", payment_id: purchase.id });
    expect(await node.billing.auto_topups.get(user_id)).toMatchObject({ status: "active" });
    expect(paused).toEqual([]);
  });

  it("pause when the bill differs from the order", async () => {
    const user_id = await low();
    await node.sweep();
    const { id } = await onlyPayment();
    const wrong = { amount_cents: 900, currency: "usd" };
    await node.billing.applyPaymentEvent({ ...paidEvent(id), amount_cents: 900, billed: wrong });
    await node.sweep();
    expect((await onlyPayment()).status).toBe("mismatch");
    expect(await node.billing.auto_topups.get(user_id)).toMatchObject({ paused_reason: "payment_mismatch" });
  });

  describe("through Stripe", () => {
    const NOW = "2026-01-31T00:00:00.000Z";
    let stripe: Awaited<ReturnType<typeof startStripe>>;
    let provider: StripePayments;
    beforeAll(async () => {
      stripe = await startStripe({ now: () => NOW });
      const keys = { secret_key: STRIPE_KEY, webhook_secret: WEBHOOK_SECRET };
      provider = createStripePayments({ ...keys, api_base: stripe.url, public_url: "https://purser.example" });
    });
    afterAll(() => stripe.stop());
    beforeEach(() => {
      node = createBillingFixture(db, { provider });
    });
    const deliverAll = async () => {
      for (const event of stripe.takeEvents()) {
        const { payload, signature } = stripe.signed(event);
        for (const event of await provider.eventsOf(payload, signature)) await node.billing.applyPaymentEvent(event);
      }
    };
    const settingsOf = (user_id: string) => node.billing.auto_topups.get(user_id);

    it("charge the card that a purchase saved once, also if answers are lost and Stripe has forgotten the keys", async () => {
      const user_id = await node.account(150_000);
      await node.billing.auto_topups.set(user_id, SETTINGS);
      const urls = { success_url: null, cancel_url: null };
      const bought = await node.billing.purchases.purchase(user_id, { amount_cents: 100, ...urls });
      const { customer } = stripe.pay(bought.checkout_url ?? "");
      await deliverAll();
      const held = await node.hold(user_id, 700_000);
      if (held.status !== "held") throw new Error("not held");
      await node.settle(user_id, held.hold_id, 700_000);
      stripe.loseAnswers(/POST .*\/pay$/);
      await expect(node.sweep()).rejects.toThrow("1 orders failed");
      stripe.loseAnswers(null);
      stripe.forgetKeys();
      await resend();
      await node.sweep();
      await deliverAll();
      await node.sweep();
      const bills = stripe.invoices().filter((each) => each.customer === customer);
      expect(bills).toMatchObject([{ status: "paid", amount_paid: 100, auto_advance: false }]);
      expect((await node.balance(user_id)).posted).toBe(75_000 + BOUGHT);
    });

    it("pause without a saved card or when it is declined, and leave no open invoice", async () => {
      const user_id = await low();
      await node.sweep();
      expect(await settingsOf(user_id)).toMatchObject({ status: "paused", paused_reason: "payment_declined" });
      const { subscription } = await node.billing.subscribe(user_id, "starter");
      const { customer } = stripe.pay(subscription.checkout_url ?? "");
      await deliverAll();
      await node.billing.auto_topups.set(user_id, { threshold_tokens: 20_000_000 });
      stripe.declineCards(true);
      await node.sweep();
      stripe.declineCards(false);
      await deliverAll();
      expect(await settingsOf(user_id)).toMatchObject({ status: "paused", paused_reason: "payment_declined" });
      const bills = stripe.invoices().filter((each) => each.customer === customer && each.parent === null);
      expect(bills.map(({ status }) => status)).toEqual(["void", "void"]);
      await node.billing.auto_topups.set(user_id, {});
      await node.sweep();
      expect((await node.balance(user_id)).posted).toBe(18_050_000 + BOUGHT);
    });
  });
});
