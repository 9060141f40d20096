import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, expectCleanAudit, type Lab, settledBalance, startLab, WIDE_MODELS } from "../support/lab.ts";
import type { Answer, Client } from "../support/service.ts";
import { completion, delta, hanging } from "../support/upstream.ts";

const OVERAGE = "/api/v1/billing/overage";
const SUBSCRIPTION = "/api/v1/billing/subscription";
const CHAT = "/api/v1/chat/completions";
const STARTER = 18_000_000;

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(WIDE_MODELS, { env: { PURSER_TEST_CLOCK: "2026-01-31T00:00:00Z", PURSER_PAYMENTS: "sandbox" } });
});
afterAll(() => lab.stop());
beforeEach(() => lab.upstream.answer(completion()));

const setClock = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
const refusal = ({ status, body }: Answer) => [status, body.error?.code];
const overageOf = async (user: Client) => (await user.get(OVERAGE)).body;
/** A subscriber to Starter with overage on. */
const subscriber = async () => {
  const user = await lab.service.newUser({ trial: false });
  await user.post(SUBSCRIPTION, { plan_id: "starter" });
  expect((await user.post(`${OVERAGE}/enable`)).status).toBe(200);
  return user;
};
/** One call that costs exactly `tokens`. */
const spend = async (user: Client, tokens: number) => {
  lab.upstream.answer(completion("ok", { prompt_tokens: tokens, completion_tokens: 0 }));
  const answer = await user.post(CHAT, ask("lab/plain", { max_tokens: 1 }));
  expect([answer.status, answer.body.usage?.cost_tokens]).toEqual([200, tokens]);
};
const entriesOf = async (user: Client, type: string): Promise<{ amount: number; balance_after: number }[]> =>
  (await user.get(`/api/v1/users/me/transactions?type=${type}`)).body.transactions;

describe("overage (contract 5)", () => {
  it("is for subscribers: other users get an error that says so", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1000 });
    const refused = [403, "overage_requires_subscription"];
    expect(refusal(await user.post(`${OVERAGE}/enable`))).toEqual(refused);
    expect(refusal(await user.request("PUT", OVERAGE, { cap_tokens: 5 }))).toEqual(refused);
    expect((await user.post(`${OVERAGE}/disable`)).status).toBe(200);
    expect(await overageOf(user)).toEqual({
      enabled: false,
      eligible: false,
      cap_tokens: null,
      used_tokens: 0,
      held_tokens: 0,
      remaining_tokens: 0,
      amount_due_cents: 0,
      invoiced_cents: 0,
      currency: "usd",
      period_start: null,
      period_end: null,
    });
  });

  it("takes its record back with another cap, and says that it is turned on and off elsewhere", async () => {
    const user = await subscriber();
    const record = await overageOf(user);
    const edited = { ...record, cap_tokens: 3_000 };
    expect(await user.request("PUT", OVERAGE, { ...edited, used_tokens: 7 })).toMatchObject({
      status: 200,
      body: { cap_tokens: 3_000 },
    });
    const refused = await user.request("PUT", OVERAGE, { ...edited, enabled: false });
    expect([refused.status, refused.body.error.param]).toEqual([400, "enabled"]);
  });

  it("counts in the available tokens of a 402, so the named cap is affordable, also within a key's budget", async () => {
    const user = await subscriber();
    await user.request("PUT", OVERAGE, { cap_tokens: 3_000 });
    const taken = { amount_tokens: -STARTER, reason: "used up" };
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/adjustments`, taken);
    const { body: key } = await user.post("/api/v1/api-keys", { name: "small", budget_tokens: 500 });
    const callers = [
      { caller: lab.service.as(key.key), code: "key_budget_exceeded", available: 500 },
      { caller: user, code: "overage_cap_reached", available: 3_000 - 18 },
    ];
    for (const { caller, code, available } of callers) {
      const request = (max_tokens: number) => caller.post(CHAT, ask("lab/plain", { max_tokens }));
      const denied = await request(4_000);
      expect(refusal(denied)).toEqual([402, code]);
      const { required, shortfall, max_affordable_output_tokens, ...rest } = denied.body.error.metadata;
      expect([rest.available, shortfall]).toEqual([available, required - available]);
      expect(refusal(await request(max_affordable_output_tokens + 2))).toEqual([402, code]);
      expect((await request(max_affordable_output_tokens)).status).toBe(200);
    }
  });

  it("starts with the plan's included tokens as its cap, which can be set and reset", async () => {
    const user = await subscriber();
    const status = {
      enabled: true,
      eligible: true,
      cap_tokens: STARTER,
      used_tokens: 0,
      held_tokens: 0,
      remaining_tokens: STARTER,
      amount_due_cents: 0,
      invoiced_cents: 0,
      currency: "usd",
      period_start: "2026-01-31T00:00:00.000Z",
      period_end: "2026-02-28T00:00:00.000Z",
    };
    expect(await overageOf(user)).toEqual(status);
    const capped = await user.request("PUT", OVERAGE, { cap_tokens: 5000 });
    expect(capped.body).toEqual({ ...status, cap_tokens: 5000, remaining_tokens: 5000 });
    expect((await user.request("PUT", OVERAGE, { cap_tokens: null })).body).toEqual(status);
    const off = await user.post(`${OVERAGE}/disable`);
    expect(off.body).toEqual({ ...status, enabled: false, remaining_tokens: 0 });
  });

  it("pays calls beyond the plan's tokens, counts exact tokens, and stops at the cap", async () => {
    const user = await subscriber();
    await user.request("PUT", OVERAGE, { cap_tokens: 20_000 });
    await spend(user, STARTER - 100);
    await spend(user, 12_600);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 12_500, remaining_tokens: 7500, amount_due_cents: 2 });
    expect((await entriesOf(user, "overage"))[0]).toMatchObject({ amount: -12_500, balance_after: 0 });
    expect((await user.get("/api/v1/users/me")).body.token_balance).toBe(0);
    expect(refusal(await user.post(CHAT, ask("lab/plain", { max_tokens: 4000 })))).toEqual([
      402,
      "overage_cap_reached",
    ]);
    await spend(user, 7500);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 20_000, remaining_tokens: 0, amount_due_cents: 3 });
    expect(refusal(await user.post(CHAT, ask("lab/plain", { max_tokens: 1 })))).toEqual([402, "overage_cap_reached"]);
    await user.request("PUT", OVERAGE, { cap_tokens: 50_000 });
    await spend(user, 1);
    await user.post(`${OVERAGE}/disable`);
    expect(refusal(await user.post(CHAT, ask("lab/plain", { max_tokens: 1 })))).toEqual([402, "out_of_tokens"]);
    await expectCleanAudit(lab.service);
  });

  it("that a call in flight holds is shown, and is charged at the real cost", async () => {
    const user = await subscriber();
    await spend(user, STARTER);
    lab.upstream.answer(hanging(delta("word")));
    const running = await openStream(lab.service, user, ask("lab/plain", { max_tokens: 1000 }));
    await running.next();
    const { held_tokens, remaining_tokens, used_tokens } = await overageOf(user);
    expect(held_tokens).toBeGreaterThan(2000);
    expect([remaining_tokens, used_tokens]).toEqual([STARTER - held_tokens, 0]);
    running.hangUp();
    await expect.poll(async () => (await overageOf(user)).held_tokens).toBe(0);
    const after = await overageOf(user);
    expect(after.used_tokens).toBeGreaterThan(0);
    expect(after.used_tokens).toBeLessThan(held_tokens);
    await settledBalance(user);
  });

  it("beyond the cap, after a call that cost more than its hold, is absorbed by the operator and shown", async () => {
    const user = await subscriber();
    await user.request("PUT", OVERAGE, { cap_tokens: 1000 });
    await spend(user, STARTER - 1);
    await spend(user, 5001);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 1000, remaining_tokens: 0 });
    expect((await entriesOf(user, "absorbed"))[0]).toMatchObject({ amount: -4000 });
    await expectCleanAudit(lab.service);
  });
});

describe("the overage of a period (contract 5)", () => {
  it("is invoiced at its end in whole cents, the rest is carried over, and the next period has the full cap", async () => {
    const user = await subscriber();
    await spend(user, STARTER + 12_600);
    await setClock("2026-02-28T00:00:00Z");
    expect(await overageOf(user)).toMatchObject({
      used_tokens: 100,
      amount_due_cents: 0,
      remaining_tokens: STARTER - 100,
      period_start: "2026-02-28T00:00:00.000Z",
      period_end: "2026-03-31T00:00:00.000Z",
    });
    expect((await user.get("/api/v1/users/me")).body.token_balance).toBe(STARTER);
    await spend(user, STARTER + 6150);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 6250, amount_due_cents: 1 });
    await expectCleanAudit(lab.service);
  });

  it("ends with its subscription: the used tokens are invoiced, and no more can be used", async () => {
    const user = await subscriber();
    await spend(user, STARTER + 6250);
    await user.request("DELETE", SUBSCRIPTION);
    await setClock("2026-03-31T00:00:00Z");
    expect(await overageOf(user)).toMatchObject({ eligible: false, used_tokens: 0, amount_due_cents: 0 });
    expect(refusal(await user.post(CHAT, ask("lab/plain")))).toEqual([402, "out_of_tokens"]);
    await user.post(SUBSCRIPTION, { plan_id: "starter" });
    expect(await overageOf(user)).toMatchObject({ enabled: true, eligible: true, remaining_tokens: STARTER });
  });

  it("of a call that ends after the subscription is invoiced too", async () => {
    const user = await subscriber();
    await spend(user, STARTER);
    const words = "word ".repeat(10_000);
    lab.upstream.answer(hanging(delta(words)));
    const running = await openStream(lab.service, user, ask("lab/plain", { max_tokens: 4096 }));
    await running.next();
    await user.request("DELETE", SUBSCRIPTION);
    await setClock((await overageOf(user)).period_end);
    running.hangUp();
    await expect.poll(async () => (await overageOf(user)).held_tokens).toBe(0);
    const [{ amount } = { amount: 0 }] = await entriesOf(user, "overage");
    await setClock("2026-06-30T00:00:00Z");
    const { invoices } = (await user.get("/api/v1/billing/invoices")).body;
    expect(invoices).toMatchObject([{ amount_cents: Math.floor(-amount / 6250), status: "paid" }]);
    expect((await overageOf(user)).used_tokens).toBe(-amount % 6250);
    await expectCleanAudit(lab.service);
  });

  it("follows an upgrade with its default cap", async () => {
    const user = await subscriber();
    await user.post(SUBSCRIPTION, { plan_id: "professional" });
    expect((await overageOf(user)).cap_tokens).toBe(30_000_000);
    await spend(user, 30_000_000 + 25_000_000);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 25_000_000, remaining_tokens: 5_000_000 });
  });

  it("that is held across a renewal counts in the period in which it is settled", async () => {
    const user = await subscriber();
    await spend(user, STARTER);
    lab.upstream.answer(hanging(delta("word")));
    const running = await openStream(lab.service, user, ask("lab/plain", { max_tokens: 1000 }));
    await running.next();
    const { held_tokens, period_end } = await overageOf(user);
    await setClock(period_end);
    expect(await overageOf(user)).toMatchObject({
      held_tokens,
      used_tokens: 0,
      remaining_tokens: STARTER - held_tokens,
    });
    running.hangUp();
    await expect.poll(async () => (await overageOf(user)).held_tokens).toBe(0);
    expect((await overageOf(user)).used_tokens).toBeGreaterThan(0);
    await expectCleanAudit(lab.service);
  });
});
