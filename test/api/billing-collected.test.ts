import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask, expectCleanAudit, type Lab, startLab, WIDE_MODELS } from "../support/lab.ts";
import type { Answer, Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// Overage on plans that the operator gave: it is always invoiced, and the operator can collect it.

const OVERAGE = "/api/v1/billing/overage";
const INVOICES = "/api/v1/billing/invoices";
const CHAT = "/api/v1/chat/completions";
const STARTER = 18_000_000;
const START = "2026-01-31T00:00:00Z";
const NEXT_PERIOD = "2026-02-28T00:00:00Z";

let lab: Lab;
const startWith = (payments: "sandbox" | "none") => async () => {
  lab = await startLab(WIDE_MODELS, { env: { PURSER_TEST_CLOCK: START, PURSER_PAYMENTS: payments } });
};
const refusal = ({ status, body }: Answer) => [status, body.error?.code];
const overageOf = async (user: Client) => (await user.get(OVERAGE)).body;
const invoicesOf = async (user: Client) => (await user.get(INVOICES)).body.invoices;
const setClock = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });
const settle = (id: string, status: string) =>
  lab.service.admin.request("PUT", `/api/v1/admin/invoices/${id}`, { status });
/** A user to whom the operator gave Starter, with overage on. */
const guest = async (plan_id = "starter") => {
  const user = await lab.service.newUser({ trial: false });
  const given = await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/subscription`, { plan_id });
  expect(given.status).toBe(201);
  expect((await user.post(`${OVERAGE}/enable`)).body).toMatchObject({ enabled: true, eligible: true });
  return user;
};
/** One call that costs exactly `tokens`. */
const spend = async (user: Client, tokens: number) => {
  lab.upstream.answer(completion("ok", { prompt_tokens: tokens, completion_tokens: 0 }));
  const answer = await user.post(CHAT, ask("lab/plain", { max_tokens: 1 }));
  expect([answer.status, answer.body.usage?.cost_tokens]).toEqual([200, tokens]);
};

describe.each(["sandbox", "none"] as const)("overage on a given plan, payments: %s", (payments) => {
  beforeAll(startWith(payments));
  afterAll(() => lab.stop());
  beforeEach(() => lab.upstream.answer(completion()));

  it("works like any overage: within its cap, invoiced in whole cents, with the rest carried over", async () => {
    const user = await guest();
    expect(await overageOf(user)).toMatchObject({ cap_tokens: STARTER, remaining_tokens: STARTER });
    await user.request("PUT", OVERAGE, { cap_tokens: 20_000 });
    await spend(user, STARTER);
    await spend(user, 12_600);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 12_600, remaining_tokens: 7400, amount_due_cents: 2 });
    await spend(user, 7400);
    expect(refusal(await user.post(CHAT, ask("lab/plain", { max_tokens: 1 })))).toEqual([402, "overage_cap_reached"]);
    expect(await invoicesOf(user)).toEqual([]);
    await setClock(NEXT_PERIOD);
    expect(await overageOf(user)).toMatchObject({ used_tokens: 1250, amount_due_cents: 0 });
    await expect.poll(async () => (await invoicesOf(user))[0]?.status).toBe(payments === "sandbox" ? "paid" : "open");
    expect(await invoicesOf(user)).toEqual([
      {
        id: expect.any(String),
        status: payments === "sandbox" ? "paid" : "open",
        amount_cents: 3,
        refunded_cents: 0,
        currency: "usd",
        tokens: 18_750,
        collected_by: payments === "sandbox" ? "sandbox" : "operator",
        checkout_url: null,
        created_at: "2026-02-28T00:00:00.000Z",
        ...(payments === "sandbox" ? { sandbox: true } : {}),
      },
    ]);
    await expectCleanAudit(lab.service);
  });

  it("has a cap that can be charged", async () => {
    const user = await guest();
    const put = async (cap_tokens: number) => {
      const { status, body } = await user.request("PUT", OVERAGE, { cap_tokens });
      return [status, body.cap_tokens ?? body.error.param];
    };
    // Without a means of payment the cap is at most ten times the plan.
    const highest = payments === "sandbox" ? 624_999_993_750 : 10 * STARTER;
    expect(await put(highest)).toEqual([200, highest]);
    expect(await put(highest + 1)).toEqual([400, "cap_tokens"]);
    expect((await overageOf(user)).cap_tokens).toBe(highest);
  });
});

describe("an invoice that the operator collects", () => {
  beforeAll(startWith("none"));
  afterAll(() => lab.stop());

  const invoiced = async () => {
    const user = await guest("enterprise");
    for (const tokens of [93_000_000, 62_500_000]) await spend(user, tokens);
    await expect.poll(async () => (await invoicesOf(user)).length).toBe(1);
    return { user, id: (await invoicesOf(user))[0].id as string };
  };

  it("is issued within the period at $100, does not stop overage, and can be marked as paid or void", async () => {
    const [first, second] = [await invoiced(), await invoiced()];
    expect(await overageOf(first.user)).toMatchObject({
      eligible: true,
      amount_due_cents: 10_000,
      invoiced_cents: 10_000,
      remaining_tokens: 30_500_000,
    });
    const { body } = await lab.service.admin.get("/api/v1/admin/invoices?status=open");
    const open = (body.invoices as { id: string; user_id: string }[]).map(({ id, user_id }) => [id, user_id]);
    expect(open).toEqual([
      [second.id, second.user.user_id],
      [first.id, first.user.user_id],
    ]);
    expect((await settle(first.id, "paid")).body).toMatchObject({ id: first.id, status: "paid" });
    expect((await settle(second.id, "void")).body).toMatchObject({ id: second.id, status: "void" });
    expect(await invoicesOf(first.user)).toMatchObject([{ status: "paid" }]);
    expect((await lab.service.admin.get("/api/v1/admin/invoices?status=open")).body.invoices).toEqual([]);
  });

  it("stops overage while it is unpaid", async () => {
    for (const cleared of ["paid", "void"]) {
      const { user, id } = await invoiced();
      await settle(id, "unpaid");
      expect(await overageOf(user)).toMatchObject({ enabled: true, eligible: false, remaining_tokens: 0 });
      expect(refusal(await user.post(CHAT, ask("lab/plain")))).toEqual([402, "out_of_tokens"]);
      expect(refusal(await user.post(`${OVERAGE}/enable`))).toEqual([409, "overage_unpaid"]);
      expect((await settle(id, cleared)).status).toBe(200);
      expect(await overageOf(user)).toMatchObject({ eligible: true, remaining_tokens: 30_500_000 });
    }
  });

  it("is closed once: a paid or void one does not become unpaid, and another user's does not exist", async () => {
    const { user, id } = await invoiced();
    expect((await settle(id, "paid")).status).toBe(200);
    expect((await settle(id, "paid")).status).toBe(200);
    expect(refusal(await settle(id, "void"))).toEqual([409, "invoice_closed"]);
    expect(refusal(await settle(user.user_id, "paid"))).toEqual([404, "not_found"]);
    const other = await lab.service.newUser();
    expect(await invoicesOf(other)).toEqual([]);
    await expectCleanAudit(lab.service);
  });

  it("is not subtracted from the next period's overage", async () => {
    const { user } = await invoiced();
    await setClock(NEXT_PERIOD);
    expect(await overageOf(user)).toMatchObject({ period_start: expect.stringContaining("02-28"), invoiced_cents: 0 });
  });
});
