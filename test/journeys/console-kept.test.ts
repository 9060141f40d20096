import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, PASSWORD, signUp, unfoldAll, useConsole } from "../support/console.ts";
import { completion } from "../support/upstream.ts";

// Typed text and the scroll position stay while other tabs change the same records, and the page shows the new state.

/** More conversations than the API lists at once. */
const CONVERSATIONS = 27;

const site = useConsole();
let context: BrowserContext;
let page: Page;

beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "Europe/Berlin", locale: "en-GB" }));
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const create = async (name: string): Promise<string> =>
  (await person("POST", "/agents", { name, model_id: "lab/small", run_prompt: "Say hello" })).id;
/** Makes the API fail at these paths from now on. */
const fail = (path: RegExp) =>
  context.route(path, (route) =>
    route.fulfill({ status: 500, json: { error: { code: "internal", message: "Something went wrong here." } } }),
  );

/** An answer that waits until the test releases it. */
function laterAnswer(): () => void {
  const gate = Promise.withResolvers<void>();
  site.upstream.answer(async (response, request) => {
    await gate.promise;
    await completion("Here at last.")(response, request);
  });
  return gate.resolve;
}

it("typed changes of an agent stay when the session ends, and can be saved after a sign-in in another tab", async () => {
  await signUp(context, site.service, "typed@example.com");
  const id = await create("Typed");
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Description").fill("typed for ten minutes");
  await context.clearCookies();
  const save = page.getByRole("button", { name: "Save agent" });
  await save.click();
  await shows(page, "You are signed out. Sign in again.");
  expect(await page.getByRole("dialog").count()).toBe(0);

  const opened = context.waitForEvent("page");
  await page.getByRole("link", { name: "Sign in in a new tab" }).click();
  const other = await opened;
  await other.getByLabel("E-mail").fill("typed@example.com");
  await other.getByLabel("Password").fill(PASSWORD);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { name: "Home" }).waitFor();
  await save.click();
  await expect.poll(async () => (await person("GET", `/agents/${id}`)).description).toBe("typed for ten minutes");
  await other.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Purser" }).waitFor();
});

it("typed changes of an agent stay when another tab saves the agent, and the page says so; an untouched form is updated", async () => {
  await signUp(context, site.service, "two-editors@example.com");
  const id = await create("Shared");
  /** Returns to the tab again and again, until it shows `said`. */
  const looksUntil = (said: () => Promise<unknown>, expected: unknown) =>
    expect
      .poll(async () => {
        await page.evaluate(() => dispatchEvent(new Event("visibilitychange")));
        return said();
      })
      .toBe(expected);
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Name", { exact: true }).waitFor();
  await person("PUT", `/agents/${id}`, { name: "Renamed once" });
  await looksUntil(() => page.getByLabel("Name", { exact: true }).inputValue(), "Renamed once");

  await unfoldAll(page);
  await page.getByLabel("Description").fill("typed for ten minutes");
  await person("PUT", `/agents/${id}`, { name: "Renamed twice" });
  const said = page.getByText("This agent was changed after you opened it");
  await looksUntil(() => said.isVisible(), true);
  expect(await page.getByLabel("Description").inputValue()).toBe("typed for ten minutes");
  await page.getByRole("button", { name: "Discard my changes" }).click();
  await said.waitFor({ state: "detached" });
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("Renamed twice");
  expect(await page.getByLabel("Description").inputValue()).toBe("");
});

it("a person who has left a new conversation is not moved back by its answer, and finds it in the list", async () => {
  await signUp(context, site.service, "left@example.com");
  const id = await create("Slow");
  const answerNow = laterAnswer();
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await page.getByLabel("Your message").fill("Hello?");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await page.getByRole("link", { name: "Vault" }).click();
  await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor();
  // The balance is read again after the answer.
  const ended = page.waitForResponse(/\/users\/me$/);
  answerNow();
  await ended;
  await page.waitForLoadState("networkidle");
  expect(new URL(page.url()).pathname).toBe("/vault");
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await page.getByRole("link", { name: /just now/ }).click();
  await page.getByRole("log").getByText("Here at last.").waitFor();
});

it("text that is typed during the first answer of a conversation stays, and so does the focus", async () => {
  await signUp(context, site.service, "next@example.com");
  const id = await create("Slow");
  const answerNow = laterAnswer();
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  const message = page.getByLabel("Your message");
  await message.fill("Hello?");
  await page.keyboard.press("Enter");
  await message.fill("And then?");
  answerNow();
  await page.waitForURL(/thread=/);
  await page.getByRole("log").getByText("Here at last.").waitFor();
  await page.getByRole("link", { name: "View run" }).waitFor();
  expect(await message.inputValue()).toBe("And then?");
  expect(await message.evaluate((field) => field === document.activeElement)).toBe(true);
  await page.keyboard.press("Enter");
  await page.getByRole("log").getByText("And then?").waitFor();
  await page.getByRole("link", { name: "New conversation" }).click();
  await shows(page, "Write a message");
  expect(await page.getByRole("log").getByText("Hello?").count()).toBe(0);
});

it("every conversation can be opened, and a list that failed to load is not shown as empty", async () => {
  await signUp(context, site.service, "talks@example.com");
  const id = await create("Talkative");
  await person("POST", "/billing/purchase", { amount_cents: 500 });
  for (let nth = 1; nth <= CONVERSATIONS; nth += 1) {
    await person("POST", `/agents/${id}/chat`, {
      messages: [{ role: "user", content: `Talk ${nth}` }],
      thread_id: `t-${nth}`,
    });
  }
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await page.getByRole("link", { name: `Talk ${CONVERSATIONS} `, exact: false }).waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByRole("link", { name: /^Talk 1 / }).click();
  await page.getByRole("log").getByText("Talk 1", { exact: true }).waitFor();

  await fail(/\/threads\?|\/agents\?/);
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await shows(page, "Something went wrong here.");
  expect(await page.getByText("No conversations yet.").count()).toBe(0);
  await page.goto(site.service.url);
  await page.getByRole("alert").first().waitFor();
  expect(await page.getByText("Nothing: no agent fails").count()).toBe(0);
});

it("an interrupted answer says so in plain words, and can be requested again", async () => {
  await signUp(context, site.service, "broken@example.com");
  const id = await create("Fragile");
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  // A test cannot cut a loopback connection at a chosen byte. This is the browser's error for it.
  await page.evaluate(() => {
    const real = fetch;
    globalThis.fetch = async (...given: Parameters<typeof fetch>) => {
      if (!String(given[0]).endsWith("/chat")) return real(...given);
      globalThis.fetch = real;
      const part = new TextEncoder().encode('data: {"choices":[{"delta":{"content":"Half an"}}]}\n\n');
      const pull = (stream: ReadableStreamDefaultController) => stream.error(new TypeError("network error"));
      return new Response(new ReadableStream({ start: (stream) => stream.enqueue(part), pull }, { highWaterMark: 0 }));
    };
  });
  await page.getByLabel("Your message").fill("Hello?");
  await page.keyboard.press("Enter");
  await shows(page, "The connection to the service was lost before the answer was complete.");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("log").getByText("Hello.", { exact: true }).waitFor();
});

it("the page of a run whose agent was deleted during an outage says so, and sends no more requests", async () => {
  await signUp(context, site.service, "gone-agent@example.com");
  const id = await create("Gone");
  laterAnswer();
  const { id: run_id } = await person("POST", `/agents/${id}/runs`);
  await context.route(/\/events$/, (route) => route.abort());
  await page.goto(`${site.service.url}/agents/${id}/runs/${run_id}`);
  await shows(page, "The service cannot be reached, so this page may be out of date.");
  await person("DELETE", `/agents/${id}`);
  await context.unroute(/\/events$/);
  await page.getByRole("heading", { name: "Not found" }).waitFor();
});

it("the list of agents shows the progress and the end of a run", async () => {
  await signUp(context, site.service, "follows@example.com");
  const id = await create("Working");
  const answerNow = laterAnswer();
  await person("POST", `/agents/${id}/runs`);
  await page.goto(`${site.service.url}/agents`);
  const row = page.getByRole("row", { name: /Working/ });
  await row.getByText(/queued|running/).waitFor();
  answerNow();
  await row.getByText("succeeded").waitFor();
});

it("an agent can be saved when the models failed to load, and keeps its model", async () => {
  await signUp(context, site.service, "models@example.com");
  const id = await create("Modelled");
  await fail(/\/api\/v1\/models/);
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByRole("alert").getByText("Something went wrong here.").waitFor();
  expect(await page.getByLabel("Model", { exact: true }).textContent()).toContain("lab/small");
  await page.getByLabel("Description").fill("saved all the same");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("heading", { name: "Modelled", exact: true, level: 1 }).waitFor();
  expect(await person("GET", `/agents/${id}`)).toMatchObject({
    model_id: "lab/small",
    description: "saved all the same",
  });
});

it("a sign-out while the service is away shows that it failed", async () => {
  await signUp(context, site.service, "staying@example.com");
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Next runs" }).waitFor();
  await context.route(/\/api\//, (route) => route.abort());
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("complementary").getByRole("alert").getByText("The service cannot be reached.").waitFor();
  await context.unroute(/\/api\//);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Purser" }).waitFor();
});

it("the rows of the usage of agents add up to the total, which is the account's", async () => {
  await signUp(context, site.service, "shares@example.com");
  const ids = await Promise.all(Array.from({ length: 10 }, (_, nth) => create(`Agent ${nth}`)));
  const messages = [{ role: "user", content: "Hello" }];
  await Promise.all(ids.map((id) => person("POST", `/agents/${id}/chat`, { messages })));
  const { total_cost_tokens } = await person("GET", "/users/me/usage");
  await page.goto(`${site.service.url}/usage?by=agent`);
  const rows = page.getByRole("region", { name: "Usage" }).locator("tbody tr");
  await rows.getByText("Total").waitFor();
  const tokens = (await rows.locator("td:nth-child(4)").allTextContents()).map(Number);
  expect(tokens).toHaveLength(11);
  expect(tokens.at(-1)).toBe(total_cost_tokens);
  expect(tokens.slice(0, -1).reduce((sum, figure) => sum + figure, 0)).toBe(total_cost_tokens);
});

it("a save does not replace changes from elsewhere before the person has seen that there are any", async () => {
  await signUp(context, site.service, "unseen-changes@example.com");
  const id = await create("Shared");
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Description").fill("mine");
  await person("PUT", `/agents/${id}`, { description: "theirs" });
  const save = page.getByRole("button", { name: "Save agent" });
  await save.click();
  await shows(page, "Nothing was saved yet. To replace the other changes, save again.");
  await shows(page, "This agent was changed after you opened it.");
  expect((await person("GET", `/agents/${id}`)).description).toBe("theirs");
  expect(await page.getByLabel("Description").inputValue()).toBe("mine");
  await save.click();
  await expect.poll(async () => (await person("GET", `/agents/${id}`)).description).toBe("mine");
});

it("a save whose answer was lost is no change from elsewhere: the next save succeeds", async () => {
  await signUp(context, site.service, "lost-answer@example.com");
  const id = await create("Lost");
  await page.goto(`${site.service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Description").fill("mine");
  await context.route(/\/api\/v1\/agents\/[^/]+$/, async (route) => {
    if (route.request().method() !== "PUT") return route.fallback();
    await route.fetch();
    await route.abort();
  });
  const save = page.getByRole("button", { name: "Save agent" });
  await save.click();
  await shows(page, "The service cannot be reached.");
  expect((await person("GET", `/agents/${id}`)).description).toBe("mine");
  await context.unroute(/\/api\/v1\/agents\/[^/]+$/);
  await save.click();
  await page.getByRole("heading", { name: "Lost", exact: true, level: 1 }).waitFor();
});
