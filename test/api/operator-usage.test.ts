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
  const messages = [{ role: "user", content: "hello" }];
  for (const user of [buyer, buyer, guest]) {
    await user.post("/api/v1/chat/completions", { model: "purser/rehearsal", messages });
  }
});
afterAll(() => service.stop());

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
    "user_id,requests,tokens,cost_tokens,revenue_micro_usd,upstream_cost_micro_usd,margin_micro_usd,requests_of_unknown_cost",
  );
  expect(csv.split("\r\n")).toHaveLength(4);
  expect((await service.admin.get(`${USAGE}?group_by=colour`)).status).toBe(400);
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
