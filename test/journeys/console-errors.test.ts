import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, choose, signUp, useConsole } from "../support/console.ts";
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
  await page.getByLabel("Name", { exact: true }).fill("   ");
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("alert").getByText("Name must be text").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("Corrected");
  await page.getByRole("switch", { name: "Run by schedule" }).click();
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  expect(await page.getByText("Name must be text").count()).toBe(0);
});

it("a list in which nothing was chosen says so, and gets the focus", async () => {
  await signUp(context, site.service, "choice@example.com");
  await page.goto(`${site.service.url}/agents/new`);
  await page.getByLabel("Name", { exact: true }).fill("No model");
  await page.getByRole("switch", { name: "Choose the model for each run" }).click();
  await page.getByRole("button", { name: "Create agent" }).click();
  await shows(page, "This field is required.");
  const model = page.getByRole("combobox", { name: "Model", exact: true });
  expect(await model.getAttribute("aria-invalid")).toBe("true");
  expect(await model.evaluate((button) => button === document.activeElement)).toBe(true);
  await choose(model, "Lab · 1 in, 2 out");
  await page.getByText("This field is required.").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("heading", { name: "No model", level: 1 }).waitFor();
});
