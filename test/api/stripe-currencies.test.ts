import { expect, it } from "vitest";
import { expectCleanAudit } from "../support/lab.ts";
import { startService } from "../support/service.ts";
import { startStripe, stripeSettings } from "../support/stripe.ts";

// Prices in currencies whose smallest unit is no hundredth, and in those of which Stripe takes whole amounts only.

const START = "2026-01-31T10:00:00.000Z";
/** Not a round share of the period. */
const LATER = "2026-02-11T03:07:11.000Z";

it.each([
  { currency: "jpy", prices: [1_500, 4_999], step: 1 },
  { currency: "kwd", prices: [1_500, 4_990], step: 10 },
  { currency: "isk", prices: [150_000, 499_900], step: 100 },
])("a plan in $currency is asked for at its price, and its upgrade at an amount that cards can pay", async (row) => {
  const { currency, prices, step } = row;
  let now = START;
  const stripe = await startStripe({ now: () => now });
  const plans = prices.map((price_cents, at) => ({
    id: `p${at}`,
    name: `P${at}`,
    price_cents,
    currency,
    included_tokens: 1_000_000 * (at + 1),
  }));
  const service = await startService({ config: { plans }, env: stripeSettings(stripe, now) });
  const deliverAll = async () => {
    for (const event of stripe.takeEvents()) expect((await stripe.deliver(service.url, event)).status).toBe(200);
  };
  const user = await service.newUser({ trial: false });
  const subscribe = (plan_id: string) => user.post("/api/v1/billing/subscription", { plan_id });
  const { body } = await subscribe("p0");
  expect(stripe.sessionAt(body.checkout_url)).toMatchObject({ amount_total: prices[0], currency });
  stripe.pay(body.checkout_url);
  await deliverAll();
  expect((await user.get("/api/v1/users/me")).body.balance.posted).toBe(1_000_000);

  now = LATER;
  await service.admin.request("PUT", "/api/v1/admin/clock", { now });
  await subscribe("p1");
  await deliverAll();
  const invoices = stripe.invoices().filter(({ parent }) => parent === null);
  expect(invoices).toMatchObject([{ currency, status: "paid" }]);
  const [invoice] = invoices;
  const difference = (prices[1] ?? 0) - (prices[0] ?? 0);
  expect(invoice?.total).toBeGreaterThan(difference / 2);
  expect(invoice?.total).toBeLessThan(difference);
  expect((invoice?.total ?? 1) % step).toBe(0);
  await expectCleanAudit(service);
  await service.stop();
  stripe.stop();
});
