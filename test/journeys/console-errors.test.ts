import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, choose, signUp, unfoldAll, useConsole } from "../support/console.ts";
import { type OAuthServer, startOAuthServer } from "../support/oauth-server.ts";

// What a person reads after a mistake: the present error, in the console's words, with a way on.

const site = useConsole();
let oauth: OAuthServer;
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  oauth = await startOAuthServer();
  await site.service.restart({ PURSER_EGRESS_ALLOW: oauth.site.host });
});
afterAll(() => oauth.site.close());
beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "Europe/Berlin", locale: "en-GB" }));
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const labelOfFocus = () => page.evaluate(() => document.activeElement?.closest("div:has(label)")?.textContent ?? "");

it("the error of an earlier attempt is not shown beside the browser's error about another field", async () => {
  await signUp(context, site.service, "stale@example.com");
  await page.goto(`${site.service.url}/agents/new`);
  await unfoldAll(page);
  await page.getByLabel("Name", { exact: true }).fill("   ");
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("alert").getByText("Name must be text").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("Corrected");
  await page.getByLabel("Steps per run").fill("0");
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  expect(await page.getByText("Name must be text").count()).toBe(0);
});

it("a list in which nothing was chosen says so, and gets the focus", async () => {
  await signUp(context, site.service, "choice@example.com");
  await person("POST", "/secrets", { name: "KEY", value: "v" });
  await page.goto(`${site.service.url}/agents/new`);
  await page.getByLabel("Name", { exact: true }).fill("No secret");
  await unfoldAll(page);
  await page.getByRole("switch", { name: "Read the web" }).click();
  await page.getByRole("button", { name: "Add secret" }).click();
  await page.getByLabel("Only to these hosts").fill("api.example.com");
  await page.getByText("Tools", { exact: true }).click(); // A fault unfolds its part again.
  await page.getByRole("button", { name: "Create agent" }).click();
  await shows(page, "This field is required.");
  const secret = page.getByRole("combobox", { name: "Secret", exact: true });
  expect(await secret.getAttribute("aria-invalid")).toBe("true");
  expect(await secret.evaluate((button) => button === document.activeElement)).toBe(true);
  await choose(secret, "KEY");
  await page.getByText("This field is required.").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("heading", { name: "No secret", level: 1 }).waitFor();
});

it("errors about secrets are in the console's words, without names of the API", async () => {
  await signUp(context, site.service, "words@example.com");
  const secret = await person("POST", "/secrets", { name: "PORT", value: "v", allowed_hosts: ["a.example"] });
  const auth = [{ secret: "PORT", inject: { type: "bearer" }, hosts: ["a.example"] }];
  const tools_config = { web_fetch: { enabled: true, auth } };
  const { id } = await person("POST", "/agents", { name: "A", model_id: "lab/small", tools_config });
  await page.goto(`${site.service.url}/vault`);
  await page.getByRole("button", { name: "Edit PORT" }).click();
  await page.getByLabel("Allowed hosts").fill("a.example, b.example");
  await page.getByRole("button", { name: "Save secret" }).click();
  await page.getByRole("alert").getByText("To confirm that, enter its value.").waitFor();
  expect(await page.getByRole("alert").textContent()).not.toContain("_");

  await person("DELETE", `/secrets/${secret.id}`);
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByRole("group", { name: "Secret" }).getByLabel("Paths", { exact: true }).fill("/v1");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("alert").getByText("Secret: You have no secret named PORT.", { exact: true }).waitFor();
  expect(await labelOfFocus()).toContain("This secret does not exist. New secret");
});

it("a connected sign-in is not disconnected by a save without changes, and its form says what a change does", async () => {
  await signUp(context, site.service, "connected@example.com");
  await page.goto(`${site.service.url}/vault`);
  await page.getByRole("button", { name: "New sign-in" }).click();
  await page.getByLabel("Name").fill("CALENDAR");
  await page.getByLabel("Address of the MCP server").fill(oauth.mcp);
  await page.getByRole("button", { name: "Save sign-in" }).click();
  await page.getByRole("button", { name: "Connect" }).click();
  await shows(page, "CALENDAR is connected.");

  await page.getByRole("button", { name: "Edit CALENDAR" }).click();
  await shows(page, "A change ends the present connection.");
  expect(await page.getByRole("button", { name: "Save sign-in" }).isDisabled()).toBe(true);
  await page.getByLabel("Scope").fill("berths tides");
  await page.getByRole("button", { name: "Save sign-in" }).click();
  await page.getByRole("button", { name: "Connect", exact: true }).waitFor();
  expect(await page.getByText("CALENDAR is connected.").count()).toBe(0);
});

it("after a sign-in that could not begin, the focus returns to its button", async () => {
  await signUp(context, site.service, "nowhere@example.com");
  await person("POST", "/secrets", { name: "GONE", type: "oauth", oauth: { server: "https://gone.invalid/mcp" } });
  await page.goto(`${site.service.url}/vault`);
  await page.getByRole("button", { name: "Connect" }).press("Enter");
  await page.getByRole("dialog", { name: "GONE could not be connected" }).waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Connect");
});

it("a typed address is still there on the pages for a forgotten password and a new account, also to send another link", async () => {
  await page.goto(`${site.service.url}/sign-in`);
  await page.getByLabel("E-mail").fill("forgotten@example.com");
  await page.getByRole("link", { name: "Create an account" }).click();
  await page.getByRole("heading", { name: "Create your account" }).waitFor();
  expect(await page.getByLabel("E-mail").inputValue()).toBe("forgotten@example.com");
  await page.getByRole("link", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "Forgot the password?" }).click();
  await page.getByRole("button", { name: "Send me a link" }).click();
  await page.getByRole("button", { name: "send another link" }).click();
  expect(await page.getByLabel("E-mail").inputValue()).toBe("forgotten@example.com");
});

it("dollars that are typed with a comma are those dollars, and an amount that reads two ways is not bought", async () => {
  await signUp(context, site.service, "comma@example.com");
  await page.goto(`${site.service.url}/billing?top_up=true`);
  const amount = page.getByLabel("Amount in US dollars");
  const buy = page.getByRole("dialog").getByRole("button", { name: "Buy tokens" });
  await amount.fill("");
  await amount.pressSequentially("1,250");
  await shows(page, "Enter an amount such as 1250 or 12.50.");
  expect(await buy.isDisabled()).toBe(true);
  await amount.fill("");
  await amount.pressSequentially("12,50");
  await shows(page, "for $12.50, valid for 12 months");
  await buy.click();
  await shows(page, "Your account has 7,812,500 more tokens.");

  await page.goto(`${site.service.url}/billing?tab=purchases`);
  await page.getByLabel("Threshold in tokens").fill("1000");
  await page.getByLabel("Dollars per top-up").pressSequentially("12,50");
  await page.getByLabel("Most dollars per month").pressSequentially("30,5");
  await page.getByRole("button", { name: "Enable automatic top-ups" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Enable automatic top-ups" }).click();
  await shows(page, "Automatic top-ups enabled");
  const { amount_cents, monthly_cap_cents } = await person("GET", "/billing/auto-topup");
  expect({ amount_cents, monthly_cap_cents }).toEqual({ amount_cents: 1250, monthly_cap_cents: 3050 });
});
