import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, choose, signUp, useConsole, violations } from "../support/console.ts";

// Budgets of API keys and of end users.

const site = useConsole();
let context: BrowserContext;
let page: Page;

beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "Asia/Kathmandu", locale: "en-GB", bypassCSP: true }));
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const keys = async () => (await person("GET", "/api-keys")).api_keys;
const dialog = () => page.getByRole("dialog");
const save = async () => {
  await dialog().getByRole("button", { name: "Save API key" }).click();
  await dialog().waitFor({ state: "detached" });
};

it("a key's name, end, budget, models and limits are changed where it was made, and what is not changed is not sent", async () => {
  await signUp(context, site.service, "edits@example.com");
  await person("POST", "/api-keys", {
    name: "Website",
    expires_at: "2099-01-31T12:34:56.000Z",
    budget_tokens: 5000,
    budget_interval: "month",
    allowed_models: ["lab/small"],
    limits: { tokens_per_minute: 9000 },
  });
  await page.goto(`${site.service.url}/developers/keys`);
  await page.getByRole("button", { name: "Edit Website" }).click();
  const field = (name: string) => dialog().getByLabel(name, { exact: true });
  expect(await field("Valid until").inputValue()).toBe("2099-01-31");
  expect(await field("Tokens per minute").inputValue()).toBe("9000");
  expect(await field("Allowed models").inputValue()).toBe("lab/small");
  expect(await violations(page)).toEqual([]);
  const sent = page.waitForRequest((request) => request.method() === "PATCH");
  const { id } = (await keys())[0];
  await person("PATCH", `/api-keys/${id}`, { limits: { tokens_per_minute: 8000 } });
  await field("Budget in tokens").fill("7000");
  await choose(field("Budget starts again"), "Each day (UTC)");
  await field("Runs at the same time").fill("2");
  await save();
  await page.getByText("API key saved").waitFor();
  const limits = { requests_per_minute: null, tokens_per_minute: 8000, concurrent_runs: 2 };
  const budget = { budget_tokens: 7000, budget_interval: "day" };
  expect((await sent).postDataJSON()).toEqual({ ...budget, limits: { concurrent_runs: 2 } });
  expect((await keys())[0]).toMatchObject({
    name: "Website",
    expires_at: "2099-01-31T12:34:56.000Z",
    ...budget,
    allowed_models: ["lab/small"],
    limits,
  });

  await page.getByRole("button", { name: "Edit Website" }).click();
  for (const name of ["Valid until", "Budget in tokens", "Allowed models", "Tokens per minute"])
    await field(name).fill("");
  await field("Name").fill("Shop");
  await save();
  await page.getByRole("button", { name: "Edit Shop" }).waitFor();
  const none = { expires_at: null, budget_tokens: null, budget_interval: null, allowed_models: null };
  expect((await keys())[0]).toMatchObject({ name: "Shop", ...none, limits: { ...limits, tokens_per_minute: null } });

  await page.getByRole("button", { name: "Edit Shop" }).click();
  await field("Allowed models").fill("none");
  await save();
  expect((await keys())[0].allowed_models).toEqual([]);
});

it("the use of a key's budget and its next start are in the list and in the form, and errors are at their fields", async () => {
  await signUp(context, site.service, "used@example.com");
  const { key, id } = await person("POST", "/api-keys", { name: "Program", budget_tokens: 500 });
  const { status } = await site.service.as(key).post("/api/v1/chat/completions", {
    model: "lab/small",
    max_tokens: 100,
    messages: [{ role: "user", content: "Hi" }],
  });
  expect(status).toBe(200);
  await person("PATCH", `/api-keys/${id}`, { budget_interval: "week" });
  await page.goto(`${site.service.url}/developers/keys`);
  const row = page.getByRole("row", { name: /Program/ });
  for (const text of ["18 of 500 tokens", /^starts again (in|tomorrow)/])
    await row.getByText(text).filter({ visible: true }).waitFor();
  await page.getByRole("button", { name: "Edit Program" }).click();
  await dialog().getByText("Used: 18 tokens").waitFor();
  await dialog()
    .getByText(/^Next: (in|tomorrow)/)
    .waitFor();
  await dialog().getByLabel("Valid until").fill("2020-01-01");
  await dialog().getByRole("button", { name: "Save API key" }).click();
  await dialog().locator("p[id$=-error]").getByText("Valid until lies in the past. Choose a later day.").waitFor();
  await dialog().getByLabel("Valid until").fill("");
  await dialog().getByLabel("Allowed models").fill("x".repeat(129));
  await dialog().getByRole("button", { name: "Save API key" }).click();
  await expect.poll(() => dialog().getByLabel("Allowed models").getAttribute("aria-invalid")).toBe("true");
});

it("usage by user leads to the budgets of end users, which are set, changed and deleted", async () => {
  await signUp(context, site.service, "reseller@example.com");
  const { key } = await person("POST", "/api-keys", { name: "Shop" });
  const customer = "acme / 50% & Söhne?";
  const ask = () =>
    site.service.as(key).post("/api/v1/chat/completions", {
      model: "lab/small",
      max_tokens: 100,
      user: customer,
      messages: [{ role: "user", content: "Hi" }],
    });
  expect((await ask()).status).toBe(200);
  await page.goto(`${site.service.url}/usage?by=user`);
  await page.getByRole("meter", { name: `${customer}: share of the cost` }).waitFor();
  await page.getByRole("link", { name: "Budgets of end users" }).click();
  await shows(page, "No budgets yet");
  await page.getByRole("button", { name: "Set budget" }).click();
  await dialog().getByLabel("End user").fill("..");
  await dialog().getByRole("button", { name: "Save budget" }).click();
  expect(
    await dialog()
      .getByLabel("End user")
      .evaluate((field) => field.matches(":invalid")),
  ).toBe(true);
  await dialog().getByLabel("End user").fill(customer);
  await dialog().getByLabel("Budget in tokens").fill("20");
  await dialog().getByRole("button", { name: "Save budget" }).click();
  await shows(page, "18 of 20 tokens");
  await shows(page, /^starts again/);
  expect(await violations(page)).toEqual([]);
  expect((await ask()).body.error.code).toBe("end_user_budget_exceeded");

  await page.getByRole("button", { name: `Edit the budget of ${customer}` }).click();
  await dialog().getByText("Used: 18 tokens").waitFor();
  await dialog().getByLabel("Budget in tokens").fill("1000");
  await choose(dialog().getByLabel("Budget starts again"), "Never");
  await dialog().getByRole("button", { name: "Save budget" }).click();
  await shows(page, "18 of 1,000 tokens");
  expect((await ask()).status).toBe(200);
  await page.getByRole("button", { name: `Delete the budget of ${customer}` }).click();
  await dialog().getByRole("button", { name: "Delete budget" }).click();
  await shows(page, "No budgets yet");
  expect((await person("GET", "/end-user-budgets")).end_user_budgets).toEqual([]);
});
