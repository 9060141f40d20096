import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Plan } from "../../src/account/billing/plan.ts";
import type { Preview } from "../../src/account/billing/preview.ts";
import { createSimulatedPayments } from "../../src/account/billing/simulated-payments.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { instantOf } from "../../src/platform/lib/instant.ts";
import { createBillingFixture, forgetPayments } from "../support/billing.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const plan = fc.record({
  price_cents: fc.integer({ min: 0, max: 20_000 }),
  included_tokens: fc.integer({ min: 1, max: 90_000_000 }),
});
const story = fc.record({
  plans: fc.array(plan, { minLength: 2, maxLength: 2 }),
  /** How far the period is, of a million. */
  at: fc.nat({ max: 999_999 }),
  topup_cents: fc.integer({ min: 100, max: 5_000 }),
  threshold_tokens: fc.integer({ min: 1, max: 200_000_000 }),
  cap_tokens: fc.integer({ min: 0, max: 3_000_000 }),
  overage_tokens: fc.integer({ min: 0, max: 4_000_000 }),
});

test("a preview changes nothing, and names exactly what the change then costs, grants and costs later", async () => {
  await fc.assert(
    fc.asyncProperty(story, async (given) => {
      await forgetPayments(db);
      const plans = given.plans.map(
        (each, place): Plan => ({
          id: `plan-${place}`,
          name: `Plan ${place}`,
          currency: "usd",
          interval: "month",
          rollover_months: 2,
          ...each,
        }),
      );
      const provider = createSimulatedPayments("sandbox");
      const { account, billing, clock, ledger, settle, sweep } = createBillingFixture(db, { provider, plans });
      const user_id = await account(1_000);
      const { payment_list, purchases, auto_topups, overage } = billing;
      const all = () => payment_list.list(user_id, { limit: 100, before_id: null });
      const state = async () => ({
        payments: await all(),
        account: await ledger.accountStatus(user_id),
        subscription: await billing.subscription(user_id),
        settings: [await auto_topups.get(user_id), await overage.status(user_id)],
      });

      /** Makes the change after its preview, and compares the two. */
      const compare = async (preview: () => Promise<Preview> | Preview, change: () => Promise<unknown>) => {
        const before = await state();
        const seen = await preview();
        expect(await state()).toEqual(before);
        await change();
        const after = await state();
        const made = after.payments.filter(({ id }) => before.payments.every((known) => known.id !== id));
        const cents = made.reduce((sum, { amount_cents }) => sum + amount_cents, 0);
        const granted = after.account.posted - before.account.posted;
        expect({ cents, granted }).toEqual({ cents: seen.due_now_cents, granted: seen.tokens });
        return seen;
      };
      const choose = (id: string) =>
        compare(
          () => billing.previewPlan(user_id, id),
          () => billing.subscribe(user_id, id),
        );

      const { next: first } = await choose("plan-0");
      const start = Date.parse(clock.now());
      const end = Date.parse(first?.at ?? "");
      clock.put(instantOf(start + Math.floor(((end - start) / 1_000_000) * given.at)));
      await choose("plan-1");
      const { next } = await choose("plan-1");

      await compare(
        () => purchases.preview(user_id, { amount_cents: given.topup_cents }),
        () => purchases.purchase(user_id, { amount_cents: given.topup_cents, success_url: null, cancel_url: null }),
      );
      const cap = given.topup_cents * 2;
      const { threshold_tokens, topup_cents: amount_cents } = given;
      const wanted = { threshold_tokens, amount_cents, monthly_cap_cents: cap };
      const { most_cents } = await compare(
        () => auto_topups.preview(user_id, wanted),
        async () => {
          await auto_topups.set(user_id, wanted);
          for (const name of ["automatic top-ups", "orders"])
            await billing.sources.find((source) => source.name === name)?.carryOut();
        },
      );
      const automatic = (await all()).filter(({ purpose }) => purpose === "automatic_top_up");
      expect(automatic.reduce((sum, { amount_cents: cents }) => sum + cents, 0)).toBeLessThanOrEqual(most_cents ?? 0);
      await auto_topups.set(user_id, { enabled: false });

      const enabled = await compare(
        () => overage.preview(user_id, { overage_enabled: true, overage_cap_tokens: given.cap_tokens }),
        async () => {
          await overage.enable(user_id);
          await overage.setCap(user_id, given.cap_tokens);
        },
      );
      const { available } = await ledger.accountStatus(user_id);
      await settle(user_id, newId(), available + given.overage_tokens);
      const used = await overage.preview(user_id, {});

      const known = new Set((await all()).map(({ id }) => id));
      expect(next?.at).toBe(enabled.next?.at);
      clock.put(next?.at ?? "");
      await sweep();
      const due = (await all()).filter(({ id }) => !known.has(id));
      const period = due.find(({ purpose }) => purpose === "plan");
      expect({ at: period?.period_start, amount_cents: period?.amount_cents }).toEqual(next);
      const invoiced = due.find(({ purpose }) => purpose === "overage")?.amount_cents ?? 0;
      expect(invoiced).toBe(used.next?.amount_cents);
      expect(invoiced).toBeLessThanOrEqual(enabled.most_cents ?? 0);
      expect((await ledger.audit()).violations).toEqual([]);
    }),
    { numRuns: 12 },
  );
});
