import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { sharedChromium, shows } from "../support/chromium.ts";
import { asPerson, choose, PASSWORD, pick, signUp, signUpOnPage, unfoldAll } from "../support/console.ts";
import { type Service, startService } from "../support/service.ts";
import { completion, ended, startUpstream, type Upstream, USAGE } from "../support/upstream.ts";

/** 4 of the prompt's tokens come from the provider's cache, 2 are written to it. */
const CACHED = { ...USAGE, prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 } };

let browser: Browser;
let upstream: Upstream;
let service: Service;
let context: BrowserContext;
let page: Page;
/** The errors that the page logged. Every journey must end without one. */
let complaints: string[] = [];

beforeAll(async () => {
  [browser, upstream] = await Promise.all([sharedChromium(), startUpstream()]);
  service = await startService({
    config: {
      cache_pricing: "provider",
      providers: [{ name: "lab", kind: "openai-compatible", base_url: upstream.url }],
      models: [
        {
          id: "lab/small",
          provider: "lab",
          provider_model: "small",
          name: "Lab small",
          input_rate: 1,
          cached_input_rate: 0.5,
          cache_write_rate: 1.5,
          output_rate: 2,
          trial_eligible: true,
          context_window: 32_000,
          max_output_tokens: 1000,
          supports: { tools: true, streaming: true },
        },
      ],
    },
  });
});

afterAll(async () => {
  await service?.stop();
  await upstream?.close();
});

beforeEach(async () => {
  complaints = [];
  upstream.answer(completion("hello from upstream", CACHED));
  context = await browser.newContext({ timezoneId: "Europe/Berlin", locale: "en-GB", reducedMotion: "reduce" });
  context.on("weberror", (error) => complaints.push(error.error().message));
  context.on("request", (request) => {
    if (!request.url().startsWith(service.url) && !request.url().startsWith("data:"))
      complaints.push(`left the service: ${request.url()}`);
  });
  context.on("console", (message) => {
    // The browser logs a rejected request as an error; some journeys expect it.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      complaints.push(message.text());
  });
  page = await context.newPage();
});

afterEach(async () => {
  await context.close();
  expect(complaints).toEqual([]);
});

const agent = (fields: Record<string, unknown> = {}) =>
  asPerson(context, service, "POST", "/agents", {
    name: "Reader",
    model_id: "lab/small",
    run_prompt: "Say hello",
    ...fields,
  });

it("a person can sign up, create a key, create an agent, follow its run live, schedule it, save a secret, buy tokens and see their use", async () => {
  await signUpOnPage(page, service, "ada@example.com");

  await page.getByRole("link", { name: "Developers" }).click();
  await page.getByRole("button", { name: "New key" }).first().click();
  await page.getByLabel("Name").fill("Website");
  await page.getByRole("button", { name: "Create API key" }).click();
  const key = await page.getByRole("textbox", { name: "API key" }).inputValue();
  expect((await service.as(key).get("/api/v1/users/me")).body.email).toBe("ada@example.com");
  await page.getByRole("button", { name: "I have copied it" }).click();

  await page.getByRole("link", { name: "Agents", exact: true }).click();
  await page.getByRole("link", { name: "New agent" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("Morning reader");
  await page.getByLabel("Task of each run").fill("Tell me what matters.");
  await pick(page.getByLabel("Model", { exact: true }), "lab/small");
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("heading", { name: "Morning reader", level: 1 }).waitFor();

  const gate = Promise.withResolvers<void>();
  upstream.answer(async (response, request) => {
    await gate.promise;
    await completion("Nothing much happened.", CACHED)(response, request);
  });
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("heading", { name: "Run of Morning reader" }).waitFor();
  await page.getByRole("listitem").getByText("running").waitFor();
  gate.resolve();
  await shows(page, "Nothing much happened.");
  await page.getByRole("heading", { name: "Output" }).waitFor();
  await page.getByRole("button", { name: "Run again" }).waitFor();
  await page.getByRole("link", { name: "Explain the cost of step 1" }).click();
  await page.getByRole("dialog").getByText("Estimate", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Close" }).click();

  await page.getByRole("link", { name: "← Morning reader" }).click();
  await page.getByRole("link", { name: "Schedules" }).click();
  await page.getByRole("button", { name: "Add schedule" }).click();
  await choose(page.getByLabel("How often"), "On days of the week");
  for (const day of ["Monday", "Tuesday", "Wednesday", "Thursday"]) await page.getByLabel(day).uncheck();
  await page.getByLabel("Time", { exact: true }).fill("07:30");
  await pick(page.getByLabel("Time zone"), "America/New York");
  await shows(page, "Every Friday at 07:30, New York time");
  const preview = await page
    .getByRole("listitem")
    .filter({ hasText: /^Fri .*07:30/ })
    .allTextContents();
  expect(preview).toHaveLength(5);
  await page.getByRole("dialog").getByRole("button", { name: "Add schedule" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await shows(page, "Every Friday at 07:30, New York time");

  await page.getByRole("link", { name: "Vault" }).click();
  await page.getByRole("button", { name: "New secret" }).first().click();
  await page.getByLabel("Name").fill("STRIPE_KEY");
  await page.getByLabel("Value").fill("sk_live_4eC39HqLyjWDarjtT1zdp7dc");
  await page.getByRole("button", { name: "Save secret" }).click();
  await page.getByRole("row", { name: /STRIPE_KEY/ }).waitFor();
  expect(await page.content()).not.toContain("4eC39HqLyjWDarjtT1");

  await page.getByRole("link", { name: "Billing" }).click();
  await page.getByRole("button", { name: "Buy tokens" }).click();
  await page.getByRole("button", { name: "$25" }).click();
  await shows(page, "15,625,000 tokens");
  await page.getByRole("dialog").getByRole("button", { name: "Buy tokens" }).click();
  await shows(page, "Payments are simulated: no money was moved.");
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("row", { name: /15,625,000/ }).waitFor();

  await page.getByRole("link", { name: "Ledger" }).click();
  await page.getByRole("link", { name: /^Explain the run/ }).click();
  const explanation = page.getByRole("dialog", { name: "Cost explained" });
  await explanation.getByRole("row", { name: /^Input \d/ }).waitFor();
  const rows = (await explanation.getByRole("row").allTextContents()).join(" ");
  expect(rows).toContain("Input from the provider's cache40.52 Input written to the provider's cache21.53");
  expect(rows).toMatch(/Output\d+2\d+ Billed\d+/);
  expect(page.url()).toContain("why=");
  await page.keyboard.press("Escape");
  await explanation.waitFor({ state: "detached" });
  await page.waitForURL((url) => !url.searchParams.has("why"));
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByRole("link", { name: "lab/small", exact: true }).waitFor();
});

it("a wrong password is reported with the request's id, and does not sign in", async () => {
  await signUp(context, service, "wrong@example.com");
  await context.clearCookies();
  await page.goto(`${service.url}/sign-in`);
  await page.getByLabel("E-mail").fill("wrong@example.com");
  await page.getByLabel("Password").fill("another password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page
    .getByRole("alert")
    .getByText(/password/i)
    .first()
    .waitFor();
  await shows(page, "Request id");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
});

it("after an expired session a person signs in and returns to the same page", async () => {
  await signUp(context, service, "expired@example.com");
  await page.goto(`${service.url}/billing?tab=plans`);
  await shows(page, "Professional");
  await context.clearCookies();
  await page.getByRole("link", { name: "Ledger" }).click();
  await page.getByRole("heading", { name: "Sign in to Purser" }).waitFor();
  await page.getByLabel("E-mail").fill("expired@example.com");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Billing" }).waitFor();
  expect(page.url()).toContain("tab=ledger");
});

it("without tokens a run fails with links to get tokens, and one of them works", async () => {
  const user = await service.newUser({ trial: false });
  await page.goto(`${service.url}/sign-in`);
  await page.getByRole("button", { name: "Use an API key" }).click();
  await page.getByLabel("API key").fill(user.key);
  await page.getByRole("button", { name: "Use this key" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
  await user.post("/api/v1/agents", { name: "Poor reader", model_id: "lab/small", run_prompt: "Say hello" });
  await page.getByRole("link", { name: "Agents", exact: true }).click();
  await page.getByRole("link", { name: "Poor reader", exact: true }).click();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("alert").getByRole("link", { name: "Buy tokens" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Buy tokens" }).click();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("link", { name: "Agents", exact: true }).click();
  await page.getByRole("link", { name: "Poor reader", exact: true }).click();
  await page.getByRole("button", { name: "Run now" }).click();
  await shows(page, "hello from upstream");
});

it("an output that was cut at the model's output limit says so, with its step", async () => {
  await signUp(context, service, "cut@example.com");
  upstream.answer(ended("Half of i", "length"));
  const { id } = await agent();
  const run = await asPerson(context, service, "POST", `/agents/${id}/runs`);
  await page.goto(`${service.url}/agents/${id}/runs/${run.id}`);
  await page.getByRole("heading", { name: "Output" }).waitFor();
  expect(await page.getByText("Cut off at the model's output limit.").count()).toBe(2);
});

it("a tab shows the changes of another tab when a person returns to it", async () => {
  await signUp(context, service, "tabs2@example.com");
  const { id } = await agent({ name: "Before" });
  await page.goto(`${service.url}/agents/${id}`);
  const other = await context.newPage();
  await other.goto(`${service.url}/agents/${id}/edit`);
  await other.getByLabel("Name", { exact: true }).fill("After");
  await other.getByRole("button", { name: "Save agent" }).click();
  await other.getByRole("heading", { name: "After", level: 1 }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "After", level: 1 }).waitFor();
});

it("an answer streams into the chat, can be stopped, and stays in its conversation", async () => {
  await signUp(context, service, "chat@example.com");
  const { id } = await agent({ name: "Companion" });
  await page.goto(`${service.url}/agents/${id}/chat`);
  upstream.answer(completion("It turns at noon."));
  await page.getByLabel("Your message").fill("When does the tide turn?");
  await page.keyboard.press("Enter");
  await page.getByRole("log").getByText("It turns at noon.").waitFor();
  await page.waitForURL(/thread=/);
  await page.reload();
  await page.getByRole("log").getByText("It turns at noon.").waitFor();

  const answered = Promise.withResolvers<void>();
  upstream.answer(async (response, request) => {
    await answered.promise;
    await completion("too late")(response, request);
  });
  await page.getByLabel("Your message").fill("And then?");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Stop" }).click();
  await shows(page, "Stopped.");
  answered.resolve();
});

it("deleting an agent asks first, and Escape keeps it", async () => {
  await signUp(context, service, "delete@example.com");
  const { id } = await agent({ name: "Ephemeral" });
  await page.goto(`${service.url}/agents/${id}`);
  await page.getByRole("button", { name: "Delete agent" }).click();
  await page.getByRole("dialog", { name: "Delete Ephemeral?" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete agent" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete agent" }).click();
  await shows(page, "No agents yet");
});

it("the chart's days are the ledger's UTC days in every time zone", async () => {
  await signUp(context, service, "newyork@example.com");
  const { id } = await agent();
  const { id: run_id } = await asPerson(context, service, "POST", `/agents/${id}/runs`);
  await page.goto(`${service.url}/agents/${id}/runs/${run_id}`);
  await page.getByRole("button", { name: "Run again" }).waitFor();
  const { daily_usage } = await asPerson(context, service, "GET", "/users/me/usage?days=7");
  const today = new Date(daily_usage.at(-1).date);
  const other_zone = await browser.newContext({
    timezoneId: "America/New_York",
    locale: "en-GB",
    storageState: await context.storageState(),
  });
  const there = await other_zone.newPage();
  await there.goto(`${service.url}/usage?days=7`);
  await there.getByRole("navigation", { name: "Days (UTC)" }).getByRole("link").last().hover();
  const named = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }).format(today);
  await there.getByText(named, { exact: true }).nth(1).waitFor(); // below the bar, and at the pointer
  await there.getByText("1 request", { exact: false }).last().waitFor();
  await other_zone.close();
});

it("a model's Markdown is formatted, and a link shows its target", async () => {
  await signUp(context, service, "markdown@example.com");
  const { id } = await agent();
  upstream.answer(
    completion("**Mind** this:\n\n- [your bank](https://evil.example/?d=1)\n- ![x](https://evil.example/p.png)"),
  );
  await page.goto(`${service.url}/agents/${id}`);
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("heading", { name: "Output" }).waitFor();
  await page.getByRole("listitem").getByText("your bank").first().waitFor();
  expect(
    await page
      .getByText("Mind", { exact: true })
      .first()
      .evaluate(({ tagName }) => tagName),
  ).toBe("STRONG");
  const link = page.getByRole("link", { name: "https://evil.example/?d=1" }).first();
  expect(await link.getAttribute("rel")).toContain("noreferrer");
  expect(await page.locator("main img").count()).toBe(0);
});

it("while the service is away a page says so, keeps typed text, and works again once the service is back", async () => {
  await signUp(context, service, "away@example.com");
  await page.goto(service.url);
  const { id } = await agent({ name: "Patient" });
  const gate = Promise.withResolvers<void>();
  upstream.answer(async (response, request) => {
    await gate.promise;
    await completion("Here at last.")(response, request);
  });
  const { id: run_id } = await asPerson(context, service, "POST", `/agents/${id}/runs`);
  const editing = await context.newPage();
  await editing.goto(`${service.url}/agents/${id}/edit`);
  await unfoldAll(editing);
  await editing.getByLabel("Description").fill("typed before");

  await context.route(/\/(api|livez|assets\/vault)/, (route) => route.abort());
  await page.getByRole("link", { name: "Vault" }).click();
  await shows(page, "The service cannot be reached.");
  await page.getByRole("navigation", { name: "Main" }).waitFor();
  await editing.getByRole("button", { name: "Save agent" }).click();
  const said = editing.getByRole("alert").getByText("The service cannot be reached.");
  await said.waitFor();
  const { y = -1 } = (await said.boundingBox()) ?? {};
  expect(y > 0 && y < (editing.viewportSize()?.height ?? 0)).toBe(true);

  await context.unroute(/\/(api|livez|assets\/vault)/);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor();
  await editing.getByRole("button", { name: "Save agent" }).click();
  await shows(editing, "typed before");

  await context.route(/\/events$/, (route) => route.abort());
  await page.goto(`${service.url}/agents/${id}/runs/${run_id}`);
  await shows(page, "The service cannot be reached, so this page may be out of date.");
  await context.unroute(/\/events$/);
  await page
    .getByText("The service cannot be reached, so this page may be out of date.")
    .waitFor({ state: "detached" });
  gate.resolve();
  await shows(page, "Here at last.");
  complaints = complaints.filter((complaint) => !complaint.includes("cannot be reached"));
});

it("deleting an account requires the password, which then no longer signs in", async () => {
  await signUp(context, service, "gone@example.com");
  await page.goto(service.url);
  await page.getByRole("link", { name: "gone@example.com" }).click();
  await page.getByRole("button", { name: "Delete account" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete gone@example.com?" });
  await dialog.getByLabel("Your password").fill("not my password");
  await dialog.getByRole("button", { name: "Delete account" }).click();
  await dialog.getByText("This is not your present password.").first().waitFor();
  await dialog.getByLabel("Your password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Delete account" }).click();
  await page.getByRole("heading", { name: "Sign in to Purser" }).waitFor();
  await page.getByLabel("E-mail").fill("gone@example.com");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
});
