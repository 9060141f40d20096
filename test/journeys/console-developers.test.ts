import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { asPerson, pick, signUp, useConsole, violations } from "../support/console.ts";
import { countClicks, inClicks } from "../support/console-tasks.ts";

// The tasks of people with programs in docs/guides/console-tasks.md, each within its clicks.

const site = useConsole();
let context: BrowserContext;
let page: Page;
let people = 0;

beforeEach(async () => {
  ({ context, page } = await site.open({
    bypassCSP: true,
    permissions: ["clipboard-read", "clipboard-write"],
    viewport: { width: 1280, height: 850 },
  }));
  await countClicks(context);
  people += 1;
  await signUp(context, site.service, `developer-${people}@example.com`);
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
});
afterEach(() => context.close());

const developers = () =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Developers" }).click();
const part = (name: string) =>
  page.getByRole("navigation", { name: "Parts of the developers' pages" }).getByRole("link", { name }).click();

async function looksRight(name: string): Promise<void> {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 850 });
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${width}.png`, fullPage: true });
  }
}

it("the page of models shows the price of each in dollars, and leads to the playground", async () => {
  await inClicks(page, "see the price of a model", async () => {
    await developers();
    await part("Models");
    await page
      .getByRole("row", { name: /lab\/small/ })
      .getByText("$")
      .first()
      .waitFor();
  });
  await looksRight("models");
  await page.getByLabel("Search by name").fill("no such model");
  await page.getByText("No models match this name.").waitFor();
  await page.getByLabel("Search by name").fill("small");
  await page.getByRole("link", { name: "Try lab/small" }).click();
  await page.waitForURL(/playground\?model=lab%2Fsmall/);
});

it("a message is sent to a model, and the copied call sends the same message", async () => {
  const message = `It's "quoted" \\n, $HOME and ünïcode`;
  await page.goto(`${site.service.url}/developers/playground`);
  await pick(page.getByLabel("Model", { exact: true }), "lab/small");
  await page.waitForURL(/model=lab%2Fsmall/);
  await page.getByLabel("Instructions").fill("Don't\nshout.");
  await page.getByLabel("Message").fill(message);
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("Hello.", { exact: true }).waitFor();
  await looksRight("playground");
  const sent = () => site.upstream.requests.at(-1)?.body.messages;
  const by_page = sent();
  expect(by_page.map(({ content }: { content: string }) => content)).toEqual(["Don't\nshout.", message]);

  const { key } = await asPerson(context, site.service, "POST", "/api-keys", { name: "Copy", scopes: ["chat:write"] });
  await page.getByRole("button", { name: "Copy curl" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const { stdout } = await promisify(execFile)("sh", ["-c", copied.replace("YOUR_API_KEY", key)]);
  expect(JSON.parse(stdout).choices[0].message.content).toBe("Hello.");
  expect(sent()).toEqual(by_page);
});

it("a model is tried and the call is copied within four clicks", async () => {
  await inClicks(page, "try a model, and copy the call", async () => {
    await developers();
    await part("Playground");
    await page.getByRole("button", { name: "Send message" }).click();
    await page.getByText(/^hello\.?$/i).waitFor();
    await page.getByRole("button", { name: "Copy curl" }).click();
    await page.getByText("curl copied.").waitFor();
  });
});

it("the cost of one API request is found by its id", async () => {
  await asPerson(context, site.service, "POST", "/chat/completions", {
    model: "lab/small",
    messages: [{ role: "user", content: "Say: hello" }],
  });
  const [{ request_id }] = (await asPerson(context, site.service, "GET", "/users/me/requests")).requests;
  await inClicks(page, "find one API request", async () => {
    await page.getByRole("button", { name: /^Find/ }).first().click();
    await page.getByRole("dialog", { name: "Find" }).getByRole("combobox").waitFor();
    await page.keyboard.type(request_id);
    await page.getByRole("option", { name: `Cost of the request ${request_id}` }).click();
    await page.getByRole("dialog").getByText("lab/small").first().waitFor();
  });
});
