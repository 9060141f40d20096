import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { createLedger } from "../../src/account/ledger/ledger.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { asPerson, choose, PASSWORD, signUp, useConsole, violations } from "../support/console.ts";
import { countClicks, inClicks } from "../support/console-tasks.ts";
import { delta, hanging } from "../support/upstream.ts";

// The page Billing: the ledger by run, held tokens, payments with receipts, and what a change costs before it is made.

const EMAIL = "billing@example.com";
const site = useConsole();
let context: BrowserContext;
let page: Page;
let agent_id: string;

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);

/** Two runs of three calls each and two other calls, charged as the ledger charges them. */
async function charge(db: Db, user_id: string): Promise<void> {
  const ledger = createLedger({ db, clock: createSystemClock() });
  const one = (run_id: string | null) =>
    ledger.settle({
      hold_id: newId(),
      request_id: run_id ?? newId(),
      user_id,
      api_key_id: null,
      agent_id: run_id === null ? null : agent_id,
      run_id,
      model: "lab/small",
      input_tokens: 20,
      cached_input_tokens: 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: 0,
      output_tokens: 5,
      cost_tokens: 4,
      input_rate_micro: 100_000,
      output_rate_micro: 400_000,
      upstream_cost_micro_usd: null,
    });
  for (let n = 0; n < 2; n += 1) {
    const run_id = newId();
    await Promise.all([run_id, run_id, run_id, null].map(one));
  }
}

beforeAll(async () => {
  ({ context } = await site.open({}));
  await signUp(context, site.service, EMAIL);
  const agent = { name: "Harbour", model_id: "lab/small", run_prompt: "Read the berths." };
  agent_id = (await person("POST", "/agents", agent)).id;
  const { id: user_id } = await person("GET", "/users/me");
  await context.close();
  await site.service.changeDatabase((db) => charge(db, user_id));
});

beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "UTC", bypassCSP: true, viewport: { width: 1280, height: 850 } }));
  await countClicks(context);
  const signed = await context.request.post(`${site.service.url}/api/v1/auth/sign-in/email`, {
    data: { email: EMAIL, password: PASSWORD },
    headers: { Origin: site.service.url },
  });
  expect(signed.status()).toBe(200);
});
afterEach(() => context.close());

const ledger = () => page.getByRole("table", { name: "Ledger" });
const rowsOf = () => ledger().locator("tbody tr");

it("a run is one line of the ledger with its sum, and unfolds to its lines, each with its price; filters stay in the address", async () => {
  await page.goto(`${site.service.url}/billing`);
  await page.getByRole("link", { name: "Ledger" }).click();
  await choose(page.getByLabel("Type"), "Usage");
  await page.waitForURL(/type=usage/);
  await page.reload();
  const run = rowsOf().filter({ hasText: "Run of Harbour" }).first();
  await run.getByText("−12", { exact: true }).waitFor();
  await page.getByRole("button", { name: "3 lines of the run of Harbour" }).first().click();
  const lines = rowsOf().filter({ hasText: /line [\d,]+/ });
  await expect.poll(() => lines.count()).toBe(3);
  for (const text of await lines.allTextContents()) expect(text).toContain("−4");
  expect(await violations(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 850 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  await page.setViewportSize({ width: 1280, height: 850 });
  await lines
    .first()
    .getByRole("link", { name: /^Explain line/ })
    .click();
  await page.getByRole("dialog").getByText("4 tokens").first().waitFor();
  await page.keyboard.press("Escape");
  await run.getByRole("link", { name: /^Explain the run/ }).click();
  await page.getByRole("dialog").getByText("3 calls, 12 tokens in total").waitFor();
});

const main = (name: string) => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true });
const dialog = () => page.getByRole("dialog");
const tab = (name: string) =>
  page.getByRole("navigation", { name: "Parts of billing" }).getByRole("link", { name, exact: true });

it("tokens are bought in four clicks, for the price that the service says", async () => {
  await page.goto(site.service.url);
  const { balance } = await person("GET", "/users/me");
  await inClicks(page, "buy tokens", async () => {
    await main("Billing").click();
    await page.getByRole("button", { name: "Buy tokens" }).click();
    await dialog().getByRole("button", { name: "$25" }).click();
    await dialog().getByText("15,625,000 tokens").waitFor();
    await dialog().getByRole("button", { name: "Buy tokens" }).click();
    await dialog().getByText("Your account has 15,625,000 more tokens.").waitFor();
  });
  expect((await person("GET", "/users/me")).balance.posted).toBe(balance.posted + 15_625_000);
});

it("what an end user may spend is limited in four clicks", async () => {
  await page.goto(site.service.url);
  await inClicks(page, "limit what an end user may spend", async () => {
    await main("Billing").click();
    await tab("End users").click();
    await page.getByRole("button", { name: "Set budget" }).click();
    await dialog().getByLabel("End user").focus();
    await page.keyboard.type("guest-7");
    await page.keyboard.press("Tab");
    await page.keyboard.type("5000");
    await dialog().getByRole("button", { name: "Save budget" }).click();
    await page.getByRole("row", { name: /guest-7/ }).waitFor();
  });
  await tab("Overview").click();
  await page.getByRole("meter", { name: "Budget of guest-7" }).waitFor();
});

it("tokens that a running call holds are shown apart, with the run that holds them", async () => {
  site.upstream.answer(hanging(delta("Be")));
  const { id: run_id } = await person("POST", `/agents/${agent_id}/runs`);
  await expect.poll(async () => (await person("GET", "/users/me")).balance.held).toBeGreaterThan(0);
  await page.goto(`${site.service.url}/billing`);
  const held = page.getByRole("region", { name: "Held now" });
  await held.getByRole("link", { name: "Harbour" }).waitFor();
  const { holds } = await person("GET", "/users/me/holds");
  expect(holds).toMatchObject([{ run_id, agent_name: "Harbour" }]);
  await held.getByText(holds[0].held_tokens.toLocaleString("en-US"), { exact: true }).waitFor();
  await person("POST", `/agents/${agent_id}/runs/${run_id}/cancel`);
  await held.waitFor({ state: "detached" });
});

it("a change of plan says before it is made what is due now and later; each payment is in one list with its receipt", async () => {
  await page.goto(`${site.service.url}/billing?tab=plans`);
  await page.getByRole("button", { name: "Subscribe: Starter" }).click();
  await dialog().getByText("Due now: $29.00, for 18,000,000 tokens.").waitFor();
  await dialog().getByRole("button", { name: "Subscribe" }).click();
  await page.getByText("renews on").waitFor();
  const body = { plan_id: "pro" };
  const { due_now_cents } = await person("POST", "/billing/subscription/preview", body);
  await page.getByRole("button", { name: "Upgrade now: Pro", exact: true }).click();
  await dialog()
    .getByText(/^Due now: \$\d+\.\d\d for the rest of this period, for [\d,]+ tokens\.$/)
    .waitFor();
  await dialog()
    .getByText(/From \w+ \d+, \d+: \$\d+\.\d\d per month/)
    .waitFor();
  await dialog().getByRole("button", { name: "Upgrade now" }).click();
  await expect.poll(async () => (await person("GET", "/billing/subscription")).plan_id).toBe("pro");
  const { payments } = await person("GET", "/billing/payments");
  expect(payments.map(({ purpose }: { purpose: string }) => purpose)).toEqual(["plan_change", "plan", "top_up"]);
  expect(payments[0].amount_cents).toBeGreaterThan(due_now_cents - 5);
  expect(payments[0].amount_cents).toBeLessThanOrEqual(due_now_cents);

  await tab("Overage").click();
  await page.getByRole("switch", { name: "Continue beyond the plan's tokens" }).click();
  await dialog().getByText("Due now: nothing.").waitFor();
  await dialog().getByText("The overage of this period can cost at most").waitFor();
  await dialog().getByRole("button", { name: "Enable overage" }).click();
  await page.getByText("Overage enabled").waitFor();

  await tab("Payments").click();
  const list = page.getByRole("region", { name: "Payments" });
  await expect.poll(() => list.getByRole("row").count()).toBe(4);
  await list
    .getByRole("row")
    .filter({ hasText: "period from" })
    .getByRole("link", { name: /^Receipt/ })
    .click();
  await page.getByRole("heading", { name: "Receipt" }).waitFor();
  await page.getByText("Plan: Starter").waitFor();
  await page.getByRole("main").getByText(EMAIL, { exact: true }).waitFor();
  await page.getByText("Payments are simulated here: no money was moved.").waitFor();
});
