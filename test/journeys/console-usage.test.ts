import { readFileSync } from "node:fs";
import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { asPerson, choose, signUp, useConsole, violations } from "../support/console.ts";
import { countClicks, inClicks, seedUsage } from "../support/console-tasks.ts";

// The page Usage with 4,000 requests of three agents, two models and 1,000 end users.

const site = useConsole();
let state: Awaited<ReturnType<BrowserContext["storageState"]>>;
let agents: string[];
let context: BrowserContext;
let page: Page;

const person = (method: string, path: string) => asPerson(context, site.service, method, path);
const breakdown = async (query: string) => person("GET", `/users/me/usage/breakdown?${query}`);

beforeAll(async () => {
  ({ context } = await site.open({}));
  await signUp(context, site.service, "usage@example.com");
  const create = (name: string) =>
    asPerson(context, site.service, "POST", "/agents", { name, model_id: "lab/small", run_prompt: "Go." });
  agents = [(await create("Harbour")).id, (await create("Ferry desk")).id, (await create("Lighthouse")).id];
  const { id: user_id } = await person("GET", "/users/me");
  await site.service.changeDatabase((db) => seedUsage(db, { user_id, agent_ids: agents, calls: 4000 }));
  state = await context.storageState();
  await context.close();
});
beforeEach(async () => {
  // A zone whose days differ from those of the figures.
  const options = { timezoneId: "America/New_York", bypassCSP: true, storageState: state };
  ({ context, page } = await site.open({ ...options, viewport: { width: 1280, height: 850 } }));
  await countClicks(context);
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
});
afterEach(() => context.close());

const openUsage = () => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Usage" }).click();
const groupBy = (name: string) =>
  page.getByRole("navigation", { name: "Group by" }).getByRole("link", { name, exact: true }).click();
const table = () => page.getByRole("region", { name: "Usage" });
const row = (name: string) => table().getByRole("row").filter({ hasText: name });
const days = () => page.getByRole("navigation", { name: "Days (UTC)" }).getByRole("link");
const dollars = (usd: string) => `$${Number(usd).toFixed(2)}`;

it("the usage of one end user is found and narrows to its models, down to its requests", async () => {
  const { groups, other } = await breakdown("group_by=user&limit=100");
  const name = groups[1].keys[0].value;
  await inClicks(page, "see the usage of one end user", async () => {
    await openUsage();
    await groupBy("End user");
    await row(`${other.groups} others`).waitFor();
    await table().getByRole("link", { name, exact: true }).click();
    await page.getByRole("list", { name: "Filters" }).getByText(`End user: ${name}`).waitFor();
    const [cheapest] = (await breakdown(`group_by=model&user=${encodeURIComponent(name)}`)).groups.slice(-1);
    await row(cheapest.keys[0].value).getByText(String(cheapest.requests), { exact: true }).waitFor();
  });
  expect(await violations(page)).toEqual([]);
  await table().getByRole("link", { name: "Requests of" }).first().click();
  await page.getByRole("heading", { name: "Requests", level: 1 }).waitFor();
  const { searchParams } = new URL(page.url());
  expect(searchParams.get("user")).toBe(name);
  expect(searchParams.get("from")).toMatch(/T00:00:00.000Z$/);
  const { total } = await breakdown(
    `group_by=model&user=${encodeURIComponent(name)}&model=${searchParams.get("model")}`,
  );
  await page
    .getByRole("link", { name: /request of/ })
    .first()
    .waitFor();
  expect(await page.getByRole("link", { name: /request of/ }).count()).toBe(total.requests);
});

it("the cost of two models for one agent is compared on the page Usage, down to the agent's runs", async () => {
  await inClicks(page, "compare two models for one agent", async () => {
    await openUsage();
    await groupBy("Agent");
    await table().getByRole("link", { name: "Harbour", exact: true }).click();
    for (const { keys, cost_usd } of (await breakdown(`group_by=model&agent_id=${agents[0]}`)).groups)
      await row(keys[0].value).getByText(dollars(cost_usd)).waitFor();
  });
  await row("lab/large").getByRole("link", { name: "Runs of lab/large" }).click();
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  const { searchParams } = new URL(page.url());
  expect(Object.fromEntries(searchParams)).toMatchObject({ agent_id: agents[0], model_id: "lab/large" });
  expect(searchParams.get("from")).toMatch(/T00:00:00.000Z$/);
  await page.getByText("No runs match these filters").waitFor();
});

it("a day of the chart is chosen by the keyboard; its rows and its CSV have the figures of that UTC day", async () => {
  await page.goto(`${site.service.url}/usage?days=7`);
  await days().last().focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForURL(/day=/);
  const day = new URL(page.url()).searchParams.get("day") ?? "";
  const next = new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
  await choose(page.getByLabel("Then by"), "Agent");
  const { groups, total } = await breakdown(`from=${day}&to=${next}&group_by=model&then_by=agent`);
  await row("Total").getByText(String(total.requests), { exact: true }).waitFor();
  expect(await table().locator("tbody tr").count()).toBe(groups.length + 1);
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download CSV" }).click();
  const file = await downloading;
  expect(file.suggestedFilename()).toBe(`purser-usage-by-model-by-agent-${day}.csv`);
  const lines = readFileSync(await file.path(), "utf8")
    .trim()
    .split("\r\n");
  expect(lines[0]).toBe("date,model,agent_id,agent_name,cost_usd,cost_tokens,tokens,requests");
  const cells = lines.slice(1).map((line) => line.split(","));
  expect(new Set(cells.map(([date]) => date))).toEqual(new Set([day]));
  expect(cells.reduce((sum, line) => sum + Number(line[5]), 0)).toBe(total.cost_tokens);
  await page.getByRole("link", { name: "Day:" }).click();
  await page.waitForURL((url) => !url.searchParams.has("day"));
});

it("names of metadata are offered, and 1,000 end users fit on a phone", async () => {
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(`${site.service.url}/usage`);
  const lines = await row("lab/small")
    .getByRole("link", { name: "lab/small", exact: true })
    .evaluate((link) => {
      link.style.cssText = "display: block; width: 5ch";
      return [...link.childNodes].map((part) => {
        const range = document.createRange();
        range.selectNodeContents(part);
        return range.getClientRects().length;
      });
    });
  expect(lines, "a model's name breaks at its separator").toEqual([1, 0, 1]);
  await page.goto(`${site.service.url}/usage?by=user`);
  await choose(page.getByLabel("Then by"), "team");
  await row("customer").first().waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
  await choose(page.getByLabel("Metadata"), "team");
  await row("team 6").first().waitFor();
  await row("Without team").waitFor();
});
