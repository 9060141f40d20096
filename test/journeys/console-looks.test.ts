import type { BrowserContext, Locator, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, becomeOperator, signUp, useConsole } from "../support/console.ts";
import { completion, json } from "../support/upstream.ts";

// Long names, long answers, a phone, and an account without tokens.

const LONG_NAME = "An agent whose name was typed by somebody who thought of no narrow screen at all";

const site = useConsole();
let context: BrowserContext;
let page: Page;

beforeEach(async () => {
  ({ context, page } = await site.open({ locale: "en-US", viewport: { width: 390, height: 844 } }));
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const create = async (name: string): Promise<string> =>
  (await person("POST", "/agents", { name, model_id: "lab/small", run_prompt: "Say hello" })).id;
/** Starts a run and opens its page at its end. */
async function openRun(id: string): Promise<void> {
  const run = await person("POST", `/agents/${id}/runs`);
  await page.goto(`${site.service.url}/agents/${id}/runs/${run.id}`);
  await page.getByRole("button", { name: "Run again" }).waitFor();
}
const heightOf = async (text: Locator) => (await text.boundingBox())?.height;

it("of the tabs of a page one is the current one, and a phone shows it", async () => {
  await signUp(context, site.service, "tabs@example.com");
  for (const [path, name] of [
    ["/billing?tab=end_users", "End users"],
    ["/billing?closed=true", "Overview"],
    [`/agents/${await create("Tabs")}?tab=schedule`, "Schedules"],
  ] as const) {
    await page.goto(site.service.url + path);
    const tabs = page.getByRole("main").getByRole("navigation").locator("[aria-current]");
    await tabs.getByText(name).waitFor();
    expect(await tabs.allTextContents()).toEqual([name]);
    const box = await tabs.boundingBox();
    expect((box?.x ?? 0) + (box?.width ?? 999), name).toBeLessThanOrEqual(390);
  }
});

it("more than ten agents are found by a part of their name, and a few need no search", async () => {
  await signUp(context, site.service, "found@example.com");
  await create("Reader of news");
  const search = page.getByRole("searchbox", { name: "Find agents by name" });
  await page.goto(`${site.service.url}/agents`);
  await page.getByRole("link", { name: "Reader of news", exact: true }).waitFor();
  expect(await search.count()).toBe(0);
  await Promise.all(Array.from({ length: 30 }, (_, index) => create(`Other ${index}`)));
  await page.reload();
  await search.pressSequentially("of ne");
  await page.getByRole("link", { name: "Reader of news", exact: true }).waitFor();
  await page
    .getByRole("link", { name: /^Other/ })
    .first()
    .waitFor({ state: "detached" });
  await page.reload();
  await page.getByRole("link", { name: "Reader of news", exact: true }).waitFor();
  await search.fill("nobody");
  await shows(page, "No agents match this name");
  await search.fill("");
  await page.getByRole("link", { name: "Other 29", exact: true }).waitFor();
  expect(new URL(page.url()).search).toBe("");

  await search.fill("nobody");
  await shows(page, "No agents match this name");
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Agents" }).click();
  await page.getByRole("link", { name: "Other 29", exact: true }).waitFor();
  expect(await search.inputValue()).toBe("");
});

it("figures and times beside a long name are not broken into letters", async () => {
  await signUp(context, site.service, "long@example.com");
  await openRun(await create(LONG_NAME));
  await page.goto(`${site.service.url}/usage?by=agent`);
  const usage = page.getByRole("region", { name: "Usage" });
  expect(await heightOf(usage.getByText("$0.000029", { exact: true }))).toBeLessThan(25);
  await page.goto(`${site.service.url}/billing?tab=ledger`);
  await page.getByRole("link", { name: LONG_NAME }).waitFor();
  expect(await heightOf(page.getByRole("row", { name: LONG_NAME }).getByText(/[AP]M$/))).toBeLessThan(50);
});

it("the answer of a run is on its page once", async () => {
  await signUp(context, site.service, "answered@example.com");
  site.upstream.answer(completion("A very long answer."));
  await openRun(await create("Talker"));
  await shows(page, "The answer is the output above.");
  expect(await page.getByText("A very long answer.").count()).toBe(1);
});

it("an account without tokens says so on each page, with a way to buy some", async () => {
  await signUp(context, site.service, "broke@example.com");
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home" }).waitFor();
  expect(await page.getByText("No tokens are left.").count()).toBe(0);
  const { id, token_balance } = await person("GET", "/users/me");
  const taken = { amount_tokens: -token_balance, reason: "a test" };
  expect((await site.service.admin.post(`/api/v1/admin/users/${id}/adjustments`, taken)).status).toBe(201);
  await page.goto(`${site.service.url}/agents`);
  await shows(page, "No tokens are left.");
  await page.getByRole("link", { name: "Buy tokens" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Buy tokens" }).click();
  await page.getByText("No tokens are left.").waitFor({ state: "detached" });
});

it("the operator reads in words why runs failed", async () => {
  await signUp(context, site.service, "failed@example.com");
  site.upstream.answer(json({ error: { message: "bad" } }, 400));
  await openRun(await create("Failing"));
  await openRun(await create(LONG_NAME));
  await page.setViewportSize({ width: 1280, height: 800 });
  await becomeOperator(context, site.service);
  await page.goto(`${site.service.url}/operator/runs`);
  const groups = page.getByRole("region", { name: "Whose runs fail" });
  const failing = groups.getByRole("row", { name: /Failing/ });
  await failing.getByText("The model was unavailable").waitFor();
  await failing.getByRole("link", { name: "failed@example.com" }).click();
  const runs = page.getByRole("region", { name: "Runs" });
  await runs.getByRole("row", { name: /Failing User Failed The model was unavailable/i }).waitFor();
  expect(await heightOf(runs.getByRole("row", { name: LONG_NAME }).getByText(/[AP]M$/))).toBeLessThan(25);
});

it("the runs of a day are found by its date", async () => {
  await signUp(context, site.service, "day@example.com");
  const id = await create("Daily");
  await person("POST", `/agents/${id}/runs`);
  await page.goto(`${site.service.url}/agents/${id}?from=2020-01-01&to=2020-01-31`);
  await shows(page, "No runs match these filters");
  await page.getByLabel("To").fill(new Date(Date.now() + 86_400_000).toISOString().slice(0, 10));
  await page
    .getByRole("row")
    .getByText(/queued|running|succeeded/)
    .first()
    .waitFor();
  await page.getByLabel("From").fill("2999-01-01");
  await shows(page, "No runs match these filters");
});
