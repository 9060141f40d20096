import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Answer, Client } from "../support/service.ts";
import { completion, delta, hanging } from "../support/upstream.ts";

const SUBSCRIPTION = "/api/v1/billing/subscription";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2027-12-31T00:00:00Z", PURSER_PAYMENTS: "sandbox" } });
});
afterAll(() => lab.stop());

const setClock = async (now: string) => {
  const answer = await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
};
const newUser = () => lab.service.newUser({ trial: false });
const choose = (user: Client, plan_id: string) => user.post(SUBSCRIPTION, { plan_id });
const cancel = (user: Client) => user.request("DELETE", SUBSCRIPTION);
const planOf = async (user: Client) => (await user.get("/api/v1/users/me")).body.plan;
const subscriptionOf = async (user: Client) => (await user.get(SUBSCRIPTION)).body;
const bucketsOf = async (
  user: Client,
): Promise<{ original_amount: number; granted_at: string; expires_at: string }[]> =>
  (await user.get("/api/v1/users/me/buckets?include=closed&limit=100")).body.buckets;
const grantsOf = async (user: Client) => (await bucketsOf(user)).map((bucket) => bucket.original_amount);
/** A subscription of 31 December 2027, before a leap year, and its later periods. */
let lasting: Client;
const refusal = ({ status, body }: Answer) => [status, body.error?.code, body.error?.param];

describe("subscribing (contract 5)", () => {
  it("grants the plan's tokens at once and ends the trial; the record is marked as the sandbox's", async () => {
    const user = await lab.service.newUser();
    expect(await subscriptionOf(user)).toEqual({
      plan_id: null,
      status: "none",
      current_period_start: null,
      current_period_end: null,
      cancel_at_period_end: false,
      pending_plan_id: null,
    });
    const made = await choose(user, "starter");
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      plan_id: "starter",
      status: "active",
      current_period_start: "2027-12-31T00:00:00.000Z",
      current_period_end: "2028-01-31T00:00:00.000Z",
      cancel_at_period_end: false,
      pending_plan_id: null,
      sandbox: true,
    });
    expect(await subscriptionOf(user)).toEqual(made.body);
    expect((await user.get("/api/v1/users/me")).body).toMatchObject({ plan: "starter", is_trial: false });
    expect(await grantsOf(user)).toEqual([625_000, 18_000_000]);
    expect((await bucketsOf(user))[1]?.expires_at).toBe("2028-04-30T00:00:00.000Z");
    lasting = user;
  });

  it("to the current plan changes nothing and grants nothing", async () => {
    const user = await newUser();
    await choose(user, "starter");
    const again = await choose(user, "starter");
    expect([again.status, again.body.pending_plan_id]).toEqual([200, null]);
    expect(await grantsOf(user)).toEqual([18_000_000]);
  });

  it("twice at the same moment creates one subscription and one grant", async () => {
    const user = await newUser();
    const answers = await Promise.all([choose(user, "pro"), choose(user, "pro"), choose(user, "pro")]);
    for (const { status } of answers) expect([200, 201]).toContain(status);
    expect(await grantsOf(user)).toEqual([55_000_000]);
  });

  it("rejects an unknown plan, and needs billing:write", async () => {
    const user = await newUser();
    expect(refusal(await choose(user, "gold"))).toEqual([400, "invalid_value", "plan_id"]);
    expect(refusal(await cancel(user))).toEqual([404, "not_found", null]);
    const { body } = await user.post("/api/v1/api-keys", { name: "reader", scopes: ["billing:read"] });
    const reader = lab.service.as(body.key);
    expect((await reader.get(SUBSCRIPTION)).status).toBe(200);
    expect(refusal(await reader.post(SUBSCRIPTION, { plan_id: "pro" }))).toEqual([403, "insufficient_scope", null]);
    expect((await subscriptionOf(user)).status).toBe("none");
  });

  it("by the operator counts as paid, renews, and can change plans like the user's own", async () => {
    const user = await newUser();
    const path = `/api/v1/admin/users/${user.user_id}/subscription`;
    const given = await lab.service.admin.post(path, { plan_id: "starter" });
    expect([given.status, given.body.plan_id, given.body.sandbox]).toEqual([201, "starter", undefined]);
    const raised = await lab.service.admin.post(path, { plan_id: "pro" });
    expect([raised.status, raised.body.plan_id]).toEqual([200, "pro"]);
    const lowered = await lab.service.admin.post(path, { plan_id: "starter" });
    expect([lowered.status, lowered.body.plan_id, lowered.body.pending_plan_id]).toEqual([200, "pro", "starter"]);
    expect(await grantsOf(user)).toEqual([18_000_000, 37_000_000]);
    expect((await cancel(user)).body.cancel_at_period_end).toBe(true);
  });
});

describe("changing plans (contract 5)", () => {
  it("up at the first instant grants the whole difference, in the last second almost nothing, and keeps the period", async () => {
    await setClock("2028-01-01T00:00:00Z");
    const [first, middle, last] = [await newUser(), await newUser(), await newUser()];
    for (const user of [first, middle, last]) await choose(user, "starter");
    const raised = await choose(first, "professional");
    expect([raised.status, raised.body.plan_id]).toEqual([200, "professional"]);
    expect(raised.body.current_period_end).toBe("2028-02-01T00:00:00.000Z");
    expect(await grantsOf(first)).toEqual([18_000_000, 12_000_000]);
    await setClock("2028-01-16T12:00:00Z");
    await choose(middle, "professional");
    expect(await grantsOf(middle)).toEqual([18_000_000, 6_000_000]);
    await setClock("2028-01-31T23:59:59Z");
    await choose(last, "professional");
    expect(await grantsOf(last)).toEqual([18_000_000, 4]);
    const buckets = await bucketsOf(last);
    expect(buckets.map((bucket) => bucket.expires_at)).toEqual([
      "2028-05-01T00:00:00.000Z",
      "2028-05-01T00:00:00.000Z",
    ]);
    await setClock("2028-02-01T00:00:00Z");
    expect(await grantsOf(last)).toEqual([18_000_000, 4, 30_000_000]);
    for (const user of [first, middle, last]) expect(await planOf(user)).toBe("professional");
  });

  it("up twice in a period grants each difference once", async () => {
    const user = await newUser();
    for (const plan of ["starter", "professional", "enterprise"]) await choose(user, plan);
    expect(await grantsOf(user)).toEqual([18_000_000, 12_000_000, 63_000_000]);
  });

  it("down waits for the period's end and takes back nothing", async () => {
    await setClock("2028-02-02T00:00:00Z");
    const user = await newUser();
    await choose(user, "pro");
    const lowered = await choose(user, "starter");
    expect(lowered.body).toMatchObject({ plan_id: "pro", pending_plan_id: "starter", status: "active" });
    expect(await grantsOf(user)).toEqual([55_000_000]);
    await setClock("2028-03-02T00:00:00Z");
    expect(await subscriptionOf(user)).toMatchObject({ plan_id: "starter", pending_plan_id: null });
    expect(await grantsOf(user)).toEqual([55_000_000, 18_000_000]);
  });

  it("down and then up cancels the downgrade, and charges the difference to the paid plan", async () => {
    const user = await newUser();
    await choose(user, "pro");
    await choose(user, "starter");
    const raised = await choose(user, "enterprise");
    expect(raised.body).toMatchObject({ plan_id: "enterprise", pending_plan_id: null });
    expect(await grantsOf(user)).toEqual([55_000_000, 38_000_000]);
    await choose(user, "starter");
    expect((await choose(user, "professional")).body.pending_plan_id).toBe("professional");
    expect((await choose(user, "enterprise")).body.pending_plan_id).toBeNull();
    await setClock("2028-04-02T00:00:00Z");
    expect(await grantsOf(user)).toEqual([55_000_000, 38_000_000, 93_000_000]);
  });

  it("up at the exact instant of a period's end applies to the new period", async () => {
    const user = await newUser();
    await choose(user, "starter");
    const { current_period_end } = await subscriptionOf(user);
    await setClock(current_period_end);
    await choose(user, "professional");
    expect(await grantsOf(user)).toEqual([18_000_000, 18_000_000, 12_000_000]);
  });
});

describe("cancelling (contract 5)", () => {
  it("keeps the paid period and ends with it, and unused tokens still roll over", async () => {
    await setClock("2028-06-01T00:00:00Z");
    const user = await newUser();
    await choose(user, "starter");
    const cancelled = await cancel(user);
    expect([cancelled.status, cancelled.body.cancel_at_period_end, cancelled.body.status]).toEqual([
      200,
      true,
      "active",
    ]);
    expect((await cancel(user)).body).toEqual(cancelled.body);
    await setClock("2028-06-30T23:59:59.999Z");
    expect(await planOf(user)).toBe("starter");
    await setClock("2028-07-01T00:00:00Z");
    expect((await subscriptionOf(user)).status).toBe("none");
    expect((await user.get("/api/v1/users/me")).body).toMatchObject({ plan: null, token_balance: 18_000_000 });
    expect(refusal(await cancel(user))).toEqual([404, "not_found", null]);
    await setClock("2028-10-01T00:00:00Z");
    expect((await user.get("/api/v1/users/me")).body.token_balance).toBe(0);
  });

  it("is undone at no cost by choosing the same plan again, and also by an upgrade", async () => {
    const [same, up, down] = [await newUser(), await newUser(), await newUser()];
    for (const user of [same, up, down]) {
      await choose(user, "professional");
      await cancel(user);
    }
    expect((await choose(same, "professional")).body.cancel_at_period_end).toBe(false);
    expect((await choose(up, "pro")).body.cancel_at_period_end).toBe(false);
    expect((await choose(down, "starter")).body).toMatchObject({
      cancel_at_period_end: false,
      pending_plan_id: "starter",
    });
    expect(await grantsOf(same)).toEqual([30_000_000]);
    expect(await grantsOf(up)).toEqual([30_000_000, 25_000_000]);
    await setClock("2028-11-01T00:00:00Z");
    expect(await grantsOf(same)).toEqual([30_000_000, 30_000_000]);
    expect(await grantsOf(down)).toEqual([30_000_000, 18_000_000]);
  });

  it("and subscribing again after the end starts a new period", async () => {
    const user = await newUser();
    await choose(user, "starter");
    await cancel(user);
    await setClock("2028-12-15T06:00:00Z");
    expect((await subscriptionOf(user)).status).toBe("none");
    const again = await choose(user, "starter");
    expect([again.status, again.body.current_period_start]).toEqual([201, "2028-12-15T06:00:00.000Z"]);
    expect(await grantsOf(user)).toEqual([18_000_000, 18_000_000]);
  });

  it("by erasing the user ends the subscription: no later period is granted", async () => {
    const user = await newUser();
    await choose(user, "starter");
    expect((await lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`)).status).toBe(204);
    await setClock("2029-01-20T00:00:00Z");
    await expectCleanAudit(lab.service);
  });
});

describe("renewing (contract 5)", () => {
  it("uses the last day of short months and then the former day again, over a leap day, with one grant per period", async () => {
    const periods = (await bucketsOf(lasting)).filter(({ original_amount }) => original_amount === 18_000_000);
    expect(
      periods.slice(0, 5).map((bucket) => [bucket.granted_at.slice(0, 10), bucket.expires_at.slice(0, 10)]),
    ).toEqual([
      ["2027-12-31", "2028-04-30"],
      ["2028-01-31", "2028-05-29"],
      ["2028-02-29", "2028-06-30"],
      ["2028-03-31", "2028-07-30"],
      ["2028-04-30", "2028-08-31"],
    ]);
    expect(periods.at(-1)?.granted_at).toBe((await subscriptionOf(lasting)).current_period_start);
  });

  it("of several users happens in the order of their instants after a downtime", async () => {
    await setClock("2029-02-01T00:00:00Z");
    const early = await newUser();
    await choose(early, "starter");
    await setClock("2029-02-11T00:00:00Z");
    const late = await newUser();
    await choose(late, "professional");
    await choose(late, "starter");
    await lab.service.restart({ PURSER_TEST_CLOCK: "2029-04-20T00:00:00Z" });
    await expect.poll(() => grantsOf(late)).toEqual([30_000_000, 18_000_000, 18_000_000]);
    expect(await grantsOf(early)).toEqual([18_000_000, 18_000_000, 18_000_000]);
    const dates = async (user: Client) => (await bucketsOf(user)).map((bucket) => bucket.granted_at.slice(0, 10));
    expect(await dates(early)).toEqual(["2029-02-01", "2029-03-01", "2029-04-01"]);
    expect(await dates(late)).toEqual(["2029-02-11", "2029-03-11", "2029-04-11"]);
    expect(await subscriptionOf(late)).toMatchObject({ plan_id: "starter", pending_plan_id: null });
    await expectCleanAudit(lab.service);
  });

  it("during a call does not change its hold, and the call is charged to the held tokens", async () => {
    const user = await newUser();
    await choose(user, "starter");
    lab.upstream.answer(hanging(delta("word")));
    const running = await openStream(lab.service, user, ask("lab/plain", { max_tokens: 1000 }));
    await running.next();
    const { current_period_end } = await subscriptionOf(user);
    await setClock(current_period_end);
    const { balance } = (await user.get("/api/v1/users/me")).body;
    expect(balance.held).toBeGreaterThan(2000);
    expect(balance.posted).toBe(36_000_000);
    running.hangUp();
    lab.upstream.answer(completion());
    const left = await settledBalance(user);
    const [old, renewed] = (await user.get("/api/v1/users/me/buckets")).body.buckets;
    expect([old.remaining + renewed.remaining, renewed.remaining]).toEqual([left, 18_000_000]);
    expect(left).toBeLessThan(36_000_000);
    await expectCleanAudit(lab.service);
  });
});
