import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, PASSWORD, signUp, useConsole, violations } from "../support/console.ts";
import { ADMIN_KEY } from "../support/service.ts";
import { completion, delta } from "../support/upstream.ts";

// Several tabs, a lost session, the keyboard, and the words of a form's errors.

const site = useConsole();
let context: BrowserContext;
let page: Page;

beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "Asia/Kathmandu", locale: "en-GB" }));
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

it("the cost of a whole run is explained, also by its address", async () => {
  await signUp(context, site.service, "explained@example.com");
  await openRun(await create("Explained"));
  await page.getByRole("link", { name: "Explain the cost of the run" }).click();
  await page.getByRole("dialog").getByText("1 call, 18 tokens in total.").waitFor();
  await page.reload();
  await page.getByRole("dialog").getByText("1 call, 18 tokens in total.").waitFor();
});

it("the last line of a form names a faulty field as the page does", async () => {
  await signUp(context, site.service, "words@example.com");
  await page.goto(`${site.service.url}/agents/${await create("Words")}/edit`);
  await page.getByLabel("Temperature").fill("9");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("alert").getByText("Temperature must be a number from 0 to 2.", { exact: true }).waitFor();
  await page.getByLabel("Temperature").fill("1");
  await page.getByLabel("Task of each run").fill("");
  await page.getByRole("switch", { name: "Run by schedule" }).click();
  await page.getByLabel("Task of each run").fill(" ");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("alert").getByText("Task of each run: This field is required.", { exact: true }).waitFor();
});
