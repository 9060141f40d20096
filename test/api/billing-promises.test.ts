import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream } from "../support/event-stream.ts";
import { ask, expectCleanAudit, type Lab, settledBalance, startLab, WIDE_MODELS } from "../support/lab.ts";
import type { Answer, Client } from "../support/service.ts";
import { completion, stream } from "../support/upstream.ts";

// The promises of the seed interface and of contract 5 about tokens and money, from a caller's view.

const CHAT = "/api/v1/chat/completions";
const BILLING = "/api/v1/billing";
const STARTER = 18_000_000;

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(WIDE_MODELS, { env: { PURSER_TEST_CLOCK: "2027-11-30T12:00:00Z", PURSER_PAYMENTS: "sandbox" } });
});
afterAll(() => lab.stop());
beforeEach(() => lab.upstream.answer(completion()));

const setClock = async (now: string) =>
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);
const refusal = ({ status, body }: Answer) => [status, body.error?.code];
const profileOf = async (user: Client) => (await user.get("/api/v1/users/me")).body;
const call = (user: Client) => user.post(CHAT, ask("lab/plain", { max_tokens: 1 }));
/** One call that costs exactly `tokens`. */
const spend = async (user: Client, tokens: number) => {
  lab.upstream.answer(completion("ok", { prompt_tokens: tokens, completion_tokens: 0 }));
  const answer = await call(user);
  expect([answer.status, answer.body.usage?.cost_tokens]).toEqual([200, tokens]);
};
const operator = (user: Client, what: "grants" | "subscription", body: object) =>
  lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/${what}`, body);

describe("the table of plans (seed)", () => {
  it("is that of the seed interface: monthly, in dollars, with three months of rollover", async () => {
    const user = await lab.service.newUser();
    const { plans } = (await user.get(`${BILLING}/plans`)).body;
    const row = (id: string, name: string, price_cents: number, included_tokens: number) => ({
      id,
      name,
      price_cents,
      included_tokens,
      currency: "usd",
      interval: "month",
      rollover_months: 3,
    });
    expect(plans).toEqual([
      row("starter", "Starter", 2900, 18_000_000),
      row("professional", "Professional", 4900, 30_000_000),
      row("pro", "Pro", 8900, 55_000_000),
      row("enterprise", "Enterprise", 14_900, 93_000_000),
    ]);
  });
});

describe("a trial (seed: states)", () => {
  it("lasts exactly 14 days, and its end stays visible", async () => {
    await setClock("2027-12-01T12:00:00Z");
    const user = await lab.service.newUser();
    const trial = { is_trial: true, trial_ends_at: "2027-12-15T12:00:00.000Z", token_balance: 625_000, plan: null };
    expect(await profileOf(user)).toMatchObject(trial);
    await setClock("2027-12-15T11:59:59.999Z");
    expect(await profileOf(user)).toMatchObject(trial);
    expect((await call(user)).status).toBe(200);
    await setClock("2027-12-15T12:00:00Z");
    expect(await profileOf(user)).toMatchObject({ ...trial, is_trial: false, token_balance: 0 });
    expect(refusal(await call(user))).toEqual([402, "trial_ended"]);
  });

  it("without tokens stays out_of_tokens until a purchase", async () => {
    const [subscriber, buyer] = [await lab.service.newUser(), await lab.service.newUser()];
    for (const user of [subscriber, buyer]) {
      await spend(user, 625_000);
      expect(refusal(await call(user))).toEqual([402, "out_of_tokens"]);
    }
    await subscriber.post(`${BILLING}/subscription`, { plan_id: "starter" });
    await buyer.post(`${BILLING}/purchase`, { amount_cents: 100 });
    for (const user of [subscriber, buyer]) {
      expect((await call(user)).status).toBe(200);
      expect((await profileOf(user)).is_trial).toBe(false);
    }
  });

  it.each([
    ["a purchase", (user: Client) => user.post(`${BILLING}/purchase`, { amount_cents: 100 })],
    ["a subscription", (user: Client) => user.post(`${BILLING}/subscription`, { plan_id: "starter" })],
    ["the operator's subscription", (user: Client) => operator(user, "subscription", { plan_id: "starter" })],
    ["the operator's top-up", (user: Client) => operator(user, "grants", { amount_tokens: 1000, source: "top_up" })],
  ])("ends with %s, before and after its last day, and keeps its date", async (_, buy) => {
    const [early, late] = [await lab.service.newUser(), await lab.service.newUser()];
    const { trial_ends_at } = await profileOf(early);
    expect((await buy(early)).status).toBe(201);
    expect(await profileOf(early)).toMatchObject({ is_trial: false, trial_ends_at });
    await setClock(trial_ends_at);
    expect(refusal(await call(late))).toEqual([402, "trial_ended"]);
    expect((await buy(late)).status).toBe(201);
    expect(await profileOf(late)).toMatchObject({ is_trial: false, trial_ends_at });
    for (const user of [early, late]) expect((await call(user)).status).toBe(200);
  });

  it("does not end with a bonus, and is not created by one", async () => {
    const [user, none] = [await lab.service.newUser(), await lab.service.newUser({ trial: false })];
    await operator(user, "grants", { amount_tokens: 1000, source: "bonus" });
    expect(await profileOf(user)).toMatchObject({ is_trial: true, token_balance: 626_000 });
    expect(await profileOf(none)).toMatchObject({ is_trial: false, trial_ends_at: null, token_balance: 0 });
  });
});

describe("buckets (contract 5)", () => {
  it("are spent oldest first, independent of source and expiry", async () => {
    await setClock("2028-02-29T00:00:00Z");
    const user = await lab.service.newUser({ trial: false });
    const grant = (source: string, expires_at: string) =>
      operator(user, "grants", { amount_tokens: 100_000, source, expires_at });
    await grant("bonus", "2028-06-01T00:00:00Z");
    await setClock("2028-03-01T00:00:00Z");
    await grant("top_up", "2028-04-01T00:00:00Z");
    await setClock("2028-03-02T00:00:00Z");
    await operator(user, "subscription", { plan_id: "starter" });
    await spend(user, 150_000);
    const { buckets, total_remaining } = (await user.get("/api/v1/users/me/buckets?include=closed")).body;
    const left = (buckets as { source: string; remaining: number; closed_reason: string | null }[]).map(
      ({ source, remaining, closed_reason }) => [source, remaining, closed_reason],
    );
    expect(left).toEqual([
      ["bonus", 0, "spent"],
      ["top_up", 50_000, null],
      ["subscription", STARTER, null],
    ]);
    expect(total_remaining).toBe(STARTER + 50_000);
    expect((await profileOf(user)).token_balance).toBe(total_remaining);
  });

  it("of a purchase last exactly 12 months, also from a leap day", async () => {
    const user = await lab.service.newUser({ trial: false });
    await setClock("2028-03-03T00:00:00Z");
    await user.post(`${BILLING}/purchase`, { amount_cents: 100 });
    await setClock("2029-03-02T23:59:59.999Z");
    expect((await call(user)).status).toBe(200);
    await setClock("2029-03-03T00:00:00Z");
    expect((await profileOf(user)).token_balance).toBe(0);
    expect((await user.get("/api/v1/users/me/buckets")).body).toMatchObject({ buckets: [], total_remaining: 0 });
    expect(refusal(await call(user))).toEqual([402, "out_of_tokens"]);
  });

  it("of a plan roll over for exactly three months after their period", async () => {
    await setClock("2029-11-30T00:00:00Z");
    const user = await lab.service.newUser({ trial: false });
    await user.post(`${BILLING}/subscription`, { plan_id: "starter" });
    await user.request("DELETE", `${BILLING}/subscription`);
    await setClock("2030-03-29T23:59:59.999Z");
    expect(await profileOf(user)).toMatchObject({ plan: null, token_balance: STARTER });
    await setClock("2030-03-30T00:00:00Z");
    expect((await profileOf(user)).token_balance).toBe(0);
    const { transactions } = (await user.get("/api/v1/users/me/transactions?type=expiry")).body;
    expect(transactions).toMatchObject([{ amount: -STARTER, created_at: "2030-03-30T00:00:00.000Z" }]);
  });
});

describe("overage (seed: states)", () => {
  it("ends a subscriber's 402, which returns when overage is disabled", async () => {
    const user = await lab.service.newUser({ trial: false });
    await user.post(`${BILLING}/subscription`, { plan_id: "starter" });
    await spend(user, STARTER);
    const refused = await call(user);
    expect(refusal(refused)).toEqual([402, "out_of_tokens"]);
    expect(refused.body.error.metadata.remedies).toEqual(["top_up", "enable_overage"]);
    expect((await user.post(`${BILLING}/overage/enable`)).body.enabled).toBe(true);
    lab.upstream.answer(completion());
    expect((await call(user)).status).toBe(200);
    expect((await user.post(`${BILLING}/overage/disable`)).body.enabled).toBe(false);
    expect(refusal(await call(user))).toEqual([402, "out_of_tokens"]);
  });

  it("whose cap a stream reaches: the stream gets a lower cap, is never overcharged, and is the last call", async () => {
    const user = await lab.service.newUser({ trial: false });
    await user.post(`${BILLING}/subscription`, { plan_id: "starter" });
    await user.post(`${BILLING}/overage/enable`);
    await user.request("PUT", `${BILLING}/overage`, { cap_tokens: 500 });
    await spend(user, STARTER);
    // A provider that ignores its cap.
    lab.upstream.answer(stream(Array(50).fill("word "), { prompt_tokens: 10, completion_tokens: 400 }));
    const running = await openStream(lab.service, user, ask("lab/plain"));
    expect((await running.rest()).at(-1)).toBe("[DONE]");
    expect(lab.upstream.requests.at(-1)?.body.max_tokens).toBeLessThan(250);
    await settledBalance(user);
    const overage = (await user.get(`${BILLING}/overage`)).body;
    expect(overage).toMatchObject({ used_tokens: 500, held_tokens: 0, remaining_tokens: 0, amount_due_cents: 0 });
    const { transactions } = (await user.get("/api/v1/users/me/transactions?limit=2")).body;
    const lines = (transactions as { type: string; amount: number }[]).map(({ type, amount }) => [type, amount]);
    expect(lines.sort()).toEqual([
      ["absorbed", -310],
      ["overage", -500],
    ]);
    lab.upstream.answer(completion());
    expect(refusal(await call(user))).toEqual([402, "overage_cap_reached"]);
    await expectCleanAudit(lab.service);
  });
});
