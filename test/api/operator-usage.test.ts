import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { archiveClosedMonths } from "../../src/account/ledger/archive.service.ts";
import { type Client, type Service, startService } from "../support/service.ts";

// Usage, revenue and margin over all users: contract 8.10.

const USAGE = "/api/v1/admin/usage";
let service: Service;
let buyer: Client;
let guest: Client;

beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T09:00:00Z", PURSER_PAYMENTS: "sandbox" } });
  buyer = await service.newUser({ trial: false });
  guest = await service.newUser();
  await buyer.post("/api/v1/billing/purchase", { amount_cents: 100 });
  for (const user of [buyer, buyer, guest]) await ask(user);
});
afterAll(() => service.stop());

const ask = (user: Client) =>
  user.post("/api/v1/chat/completions", {
    model: "purser/rehearsal",
    messages: [{ role: "user", content: "hello" }],
  });
const costOf = async (user: Client) => (await user.get("/api/v1/users/me/usage")).body.total_cost_tokens;

it("revenue is the price of the used tokens of each bucket, and bonus tokens have none", async () => {
  const { usage, total } = (await service.admin.get(`${USAGE}?group_by=user`)).body;
  const cost_tokens = await costOf(buyer);
  // 100 cents bought 625,000 tokens: 1.6 micro USD each.
  const revenue_micro_usd = Math.round(cost_tokens * 1.6);
  expect(usage[0]).toMatchObject({ user_id: buyer.user_id, requests: 2, cost_tokens, revenue_micro_usd });
  expect(usage[0].email).toMatch(/@example.com$/);
  expect(usage[1]).toMatchObject({ user_id: guest.user_id, requests: 1, revenue_micro_usd: 0 });
  expect(total).toMatchObject({ requests: 3, revenue_micro_usd });
});

it("each grouping has the same total, and the margin is the revenue minus the known upstream cost", async () => {
  const fields = { model: "model_name", user: "user_id", plan: "plan_id", day: "date" };
  const totals = new Set<string>();
  for (const [group_by, field] of Object.entries(fields)) {
    const { usage, total } = (await service.admin.get(`${USAGE}?group_by=${group_by}&days=7`)).body;
    totals.add(JSON.stringify(total));
    for (const row of [...usage, total]) {
      const { revenue_micro_usd: revenue, upstream_cost_micro_usd: upstream, margin_micro_usd } = row;
      expect(margin_micro_usd).toBe(upstream === null ? null : revenue - upstream);
    }
    expect(usage[0]).toHaveProperty(field);
  }
  expect(totals.size).toBe(1);
  const [day] = (await service.admin.get(`${USAGE}?group_by=day`)).body.usage;
  expect(day.date).toBe("2026-01-31");
  const [model] = (await service.admin.get(`${USAGE}?group_by=model`)).body.usage;
  expect(model.model_name).toBe("purser/rehearsal");
});

it("the groups are paged and streamed as CSV, and an unknown grouping is rejected", async () => {
  const first = (await service.admin.get(`${USAGE}?group_by=user&limit=1`)).body;
  const rest = (await service.admin.get(`${USAGE}?group_by=user&limit=1&cursor=${first.next_cursor}`)).body;
  expect([first.usage[0].user_id, rest.usage[0].user_id]).toEqual([buyer.user_id, guest.user_id]);
  expect(rest).toMatchObject({ next_cursor: null, total: first.total });
  const csv = (await service.admin.get(`${USAGE}?group_by=user&format=csv`)).body as string;
  expect(csv.split("\r\n")[0]).toBe(
    "user_id,requests,tokens,cost_tokens,revenue_micro_usd,upstream_cost_micro_usd,margin_micro_usd,requests_of_unknown_cost,revenue_in_other_currencies",
  );
  expect(csv.split("\r\n")).toHaveLength(4);
  expect((await service.admin.get(`${USAGE}?group_by=colour`)).status).toBe(400);
});

it("the users' own usage has the same tokens, and the ledger explains the revenue of each of them", async () => {
  const subscriber = await service.newUser({ trial: false });
  await subscriber.post("/api/v1/billing/subscription", { plan_id: "starter" });
  await ask(subscriber);
  await subscriber.post("/api/v1/billing/overage/enable");
  const { available } = (await subscriber.get("/api/v1/users/me")).body.balance;
  const taken = { amount_tokens: -available, reason: "test" };
  await service.admin.post(`/api/v1/admin/users/${subscriber.user_id}/adjustments`, taken);
  await ask(subscriber);
  expect((await subscriber.get("/api/v1/users/me/transactions?type=overage")).body.transactions).toHaveLength(1);

  const { plans } = (await subscriber.get("/api/v1/billing/plans")).body;
  const starter = plans.find(({ id }: { id: string }) => id === "starter");
  const subscription = (starter.price_cents * 10_000) / starter.included_tokens;
  // Micro USD a token. A cent is 6,250 tokens.
  const prices: Record<string, number> = { top_up: 1.6, subscription, bonus: 0 };
  const { usage, total } = (await service.admin.get(`${USAGE}?group_by=user`)).body;
  const of_users = new Map<string, number>();
  for (const user of [buyer, guest, subscriber]) {
    const row = usage.find(({ user_id }: { user_id: string }) => user_id === user.user_id);
    const { body } = await user.get("/api/v1/users/me/usage/breakdown?days=30&group_by=model");
    expect(row.cost_tokens).toBe(body.total.cost_tokens);
    for (const { keys, cost_tokens } of body.groups)
      of_users.set(keys[0].value, (of_users.get(keys[0].value) ?? 0) + cost_tokens);
    const { transactions } = (await user.get("/api/v1/users/me/transactions?limit=100")).body;
    const charges = transactions.filter(({ type }: { type: string }) => type === "usage" || type === "overage");
    const tokens = charges.reduce((sum: number, { amount }: { amount: number }) => sum - amount, 0);
    expect(row.cost_tokens, "each token of the cost has its entry").toBe(tokens);
    const revenue = charges.reduce(
      (sum: number, { type, source, amount }: { type: string; source: string; amount: number }) =>
        sum - amount * (type === "overage" ? 1.6 : (prices[source] ?? Number.NaN)),
      0,
    );
    expect(row.revenue_micro_usd).toBe(Math.round(revenue));
  }
  const of_models = (await service.admin.get(`${USAGE}?group_by=model`)).body.usage;
  for (const { model_name, cost_tokens } of of_models) expect(cost_tokens).toBe(of_users.get(model_name));
  const { money } = (await service.admin.get("/api/v1/admin/overview")).body;
  expect(money.today).toEqual(total);
});

it("revenue in another currency is not added to dollars, and has no margin", async () => {
  const yen = { id: "yen", name: "Yen", price_cents: 1_500, currency: "jpy", included_tokens: 1 };
  const abroad = await startService({ env: { PURSER_PAYMENTS: "sandbox" }, config: { plans: [yen] } });
  const both = await abroad.newUser({ trial: false });
  await both.post("/api/v1/billing/subscription", { plan_id: "yen" });
  await both.post("/api/v1/billing/purchase", { amount_cents: 100 });
  const dollars = await abroad.newUser({ trial: false });
  await dollars.post("/api/v1/billing/purchase", { amount_cents: 100 });
  await ask(dollars);
  await ask(both);
  // the plan's token first, then the bought ones
  const bought_tokens = (await costOf(both)) - 1;
  await both.post("/api/v1/billing/overage/enable");
  const capped = await both.request("PUT", "/api/v1/billing/overage", { cap_tokens: 100_000 });
  expect(capped.body.currency).toBe("jpy");
  const { available } = (await both.get("/api/v1/users/me")).body.balance;
  const taken = { amount_tokens: -available, reason: "test" };
  await abroad.admin.post(`/api/v1/admin/users/${both.user_id}/adjustments`, taken);
  await ask(both);
  const overage_tokens = (await both.get("/api/v1/billing/overage")).body.used_tokens;
  expect(overage_tokens).toBeGreaterThan(0);

  const jpy = 1_500_000_000 + Math.round((overage_tokens * 1_000_000) / 6_250);
  const revenue_micro_usd = Math.round(bought_tokens * 1.6);
  const mixed = { revenue_micro_usd, revenue_in_other_currencies: { jpy }, margin_micro_usd: null };
  const { usage, total } = (await abroad.admin.get(`${USAGE}?group_by=user`)).body;
  expect(usage[0]).toMatchObject({ user_id: both.user_id, ...mixed });
  const in_dollars = Math.round((await costOf(dollars)) * 1.6);
  expect(usage[1]).toMatchObject({ revenue_micro_usd: in_dollars, revenue_in_other_currencies: {} });
  expect(usage[1].margin_micro_usd).not.toBeNull();
  expect(total).toMatchObject({ ...mixed, revenue_micro_usd: revenue_micro_usd + in_dollars });
  const plans = (await abroad.admin.get(`${USAGE}?group_by=plan`)).body.usage;
  expect(plans).toMatchObject([
    { plan_id: "yen", ...mixed },
    { plan_id: null, revenue_micro_usd: in_dollars },
  ]);
  const csv = (await abroad.admin.get(`${USAGE}?group_by=user&format=csv`)).body as string;
  expect(csv).toContain(`,"{""jpy"":${jpy}}"\r\n`);
  await abroad.stop();
});

it("the operator API lists the models on offer", async () => {
  const { models } = (await service.admin.get("/api/v1/admin/models")).body;
  expect(models.map(({ id }: { id: string }) => id)).toContain("purser/rehearsal");
});

it("an archive changes no figure; lists, the CSV and explanations say since when rows are in the database (5.14)", async () => {
  const figures = async () =>
    Promise.all([
      ...["model", "user", "plan", "day"].map((by) => service.admin.get(`${USAGE}?group_by=${by}`)),
      ...["usage", "usage?group_by=user", "buckets"].map((path) => buyer.get(`/api/v1/users/me/${path}`)),
    ]).then((answers) => answers.map(({ body }) => body));
  const before = await figures();
  const [request] = (await buyer.get("/api/v1/users/me/requests")).body.requests;
  const folder = mkdtempSync(join(tmpdir(), "purser-archive-"));
  const db = await service.database.open();
  await archiveClosedMonths({ db, folder, report: () => {} }, "2026-02-01T00:00:00.000Z");
  await db.close();
  rmSync(folder, { recursive: true });

  expect(await figures()).toEqual(before);
  const archived_before = "2026-02-01T00:00:00.000Z";
  expect((await buyer.get("/api/v1/users/me/transactions")).body).toMatchObject({ transactions: [], archived_before });
  expect((await buyer.get("/api/v1/users/me/requests")).body).toMatchObject({ requests: [], archived_before });
  const csv = await buyer.get("/api/v1/users/me/transactions?format=csv");
  expect(csv.headers.get("purser-archived-before")).toBe(archived_before);
  const explained = await buyer.get(`/api/v1/billing/explain/${request.request_id}`);
  expect([explained.status, explained.body.error.message]).toEqual([404, expect.stringContaining(archived_before)]);
  expect((await service.admin.get("/api/v1/admin/audit")).body).toMatchObject({ ok: true });
});
