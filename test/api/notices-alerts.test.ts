import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Notice } from "../../src/api/contract/notices.ts";
import { ask, type Lab, startLab, WIDE_MODELS } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab(WIDE_MODELS, { env: { PURSER_TEST_CLOCK: "2026-01-31T00:00:00Z" } });
});
afterAll(() => lab.stop());

/** One call with a cost of exactly `cost_tokens`: lab/plain costs one token for each of the prompt's. */
async function spend(user: Pick<Client, "post">, cost_tokens: number): Promise<void> {
  lab.upstream.answer(completion("hi", { prompt_tokens: cost_tokens - 2, completion_tokens: 1 }));
  const { status, body } = await user.post("/api/v1/chat/completions", ask("lab/plain", { max_tokens: 1 }));
  expect([status, body.usage?.cost_tokens]).toEqual([200, cost_tokens]);
}
const noticesOf = async (user: Client, event: string) =>
  (await user.get(`/api/v1/notices?event=${event}`)).body.notices.map(({ data }: Notice) => data).reverse();

describe("alerts (contract 5)", () => {
  it("of a balance are sent at 50, 80 and 100 % of the balance after the last grant, each once", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1000 });
    for (const cost_tokens of [400, 200, 50, 200, 150]) await spend(user, cost_tokens);
    await expect
      .poll(() => noticesOf(user, "balance.low"))
      .toEqual([
        { percent: 50, granted_tokens: 1000, remaining_tokens: 400 },
        { percent: 80, granted_tokens: 1000, remaining_tokens: 150 },
        { percent: 100, granted_tokens: 1000, remaining_tokens: 0 },
      ]);
  });

  it("of a key's budget name the key", async () => {
    const user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
    const { id, key } = (await user.post("/api/v1/api-keys", { name: "small", budget_tokens: 1000 })).body;
    await spend(lab.service.as(key), 600);
    const alert = { percent: 50, api_key_id: id, budget_tokens: 1000, spent_tokens: 600 };
    await expect.poll(() => noticesOf(user, "key_budget.near")).toEqual([alert]);
    expect(await noticesOf(user, "balance.low")).toEqual([]);
  });

  it("of overage are sent as its cap is used up", async () => {
    const user = await lab.service.newUser({ trial: false });
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/subscription`, { plan_id: "starter" });
    await user.post("/api/v1/billing/overage/enable");
    await user.request("PUT", "/api/v1/billing/overage", { cap_tokens: 1000 });
    await spend(user, 18_000_900);
    await expect
      .poll(() => noticesOf(user, "overage.cap_near"))
      .toContainEqual({
        percent: 80,
        cap_tokens: 1000,
        used_tokens: 900,
      });
  });
});

it("a renewal is reported once, for each period that begins", async () => {
  const user = await lab.service.newUser({ trial: false });
  await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/subscription`, { plan_id: "starter" });
  expect(await noticesOf(user, "subscription.renewed")).toEqual([]);
  await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-04-01T00:00:00Z" });
  const [start, ends] = ["2026-02-28T00:00:00.000Z", ["2026-03-31T00:00:00.000Z", "2026-04-30T00:00:00.000Z"]];
  expect(await noticesOf(user, "subscription.renewed")).toEqual([
    { plan_id: "starter", period_start: start, period_end: ends[0] },
    { plan_id: "starter", period_start: ends[0], period_end: ends[1] },
  ]);
});
