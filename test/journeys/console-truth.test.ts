import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, sessionHeaders, signUp, unfoldAll, useConsole } from "../support/console.ts";
import { type Service, startService } from "../support/service.ts";
import { completion, delta, event, events } from "../support/upstream.ts";

/** More agents than the API lists at once. */
const MANY = 104;
/** More turns than two pages of a conversation. */
const TURNS = 51;

const site = useConsole();
let context: BrowserContext;
let page: Page;

beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "Europe/Berlin", locale: "de-DE" }));
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const create = async (fields: object): Promise<string> =>
  (await person("POST", "/agents", { model_id: "lab/small", run_prompt: "Say hello", ...fields })).id;
const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "07:30" };

/** Runs the agent and waits for the end. */
async function run(id: string): Promise<string> {
  const { id: run_id } = await person("POST", `/agents/${id}/runs`);
  await expect.poll(async () => (await person("GET", `/agents/${id}/runs/${run_id}`)).finished_at).not.toBeNull();
  return run_id;
}

it("with more than 100 agents the oldest keeps its name, its links and its next run, and only a deleted agent is called deleted", async () => {
  await signUp(context, site.service, "many@example.com");
  const oldest = await create({ name: "Oldest", ...daily });
  const deleted = await create({ name: "Former" });
  for (const id of [oldest, deleted]) {
    await run(id);
    await person("PUT", `/agents/${id}`, { limits: { max_cost_tokens_per_run: 1 } });
    await run(id);
  }
  await Promise.all(Array.from({ length: MANY }, (_, index) => create({ name: `Other ${index}` })));
  await person("DELETE", `/agents/${deleted}`);

  await page.goto(`${site.service.url}/usage?by=agent`);
  await page.getByRole("meter", { name: "Oldest: share of the cost" }).waitFor();
  await page.getByRole("meter", { name: "Former (deleted): share of the cost" }).waitFor();
  await page.goto(site.service.url);
  await shows(page, "Every day at 07:30");
  const needs = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "Oldest" }) });
  await needs.getByRole("link", { name: "See what to do" }).click();
  await page.getByRole("heading", { name: "Run of Oldest" }).waitFor();

  await page.goto(`${site.service.url}/notices`);
  await page.getByRole("link", { name: "Oldest", exact: true }).waitFor();
  await shows(page, "Former (deleted)");

  await page.goto(`${site.service.url}/billing?tab=ledger`);
  await page.getByRole("link", { name: "Oldest", exact: true }).waitFor();
  await shows(page, "Former (deleted)");
  await page.getByLabel("Agent", { exact: true }).click();
  await page.getByLabel("Search agents by name").fill("oldest");
  await page.getByRole("option", { name: "Oldest" }).click();
  await page.waitForURL(new RegExp(oldest));
  await page.getByText("Former (deleted)").waitFor({ state: "detached" });
});

it("a paused schedule shows no next run, and one button resumes it and says so", async () => {
  await signUp(context, site.service, "paused@example.com");
  const limits = { max_consecutive_failures: 1, max_cost_tokens_per_run: 1 };
  const id = await create({ name: "Failing", ...daily, limits });
  await run(id);
  await page.goto(`${site.service.url}/agents/${id}?tab=schedule`);
  await shows(page, "None while the schedule is paused.");
  await page.goto(site.service.url);
  await shows(page, "No scheduled runs");
  await page.goto(`${site.service.url}/agents/${id}?tab=schedule`);
  await page.getByRole("button", { name: "Resume schedule" }).click();
  await page.getByRole("status").getByText("Schedule resumed").waitFor();
  await page.getByRole("button", { name: "Resume schedule" }).waitFor({ state: "detached" });
  await page
    .getByText(/in \d+ (hours|minutes)|tomorrow/)
    .first()
    .waitFor();
});

it("a conversation of more turns than a page loads back to its beginning", async () => {
  await signUp(context, site.service, "long@example.com");
  await person("POST", "/billing/purchase", { amount_cents: 500 });
  const id = await create({ name: "Companion" });
  for (let turn = 1; turn <= TURNS; turn += 1) {
    const messages = [{ role: "user", content: `Question number ${turn}.` }];
    await person("POST", `/agents/${id}/chat`, { messages, thread_id: "long" });
  }
  await page.goto(`${site.service.url}/agents/${id}/chat?thread=long`);
  await shows(page, `Question number ${TURNS}.`);
  const earlier = page.getByRole("button", { name: "Load earlier messages" });
  expect(await page.getByRole("log").getByText("Question number 1.").count()).toBe(0);
  await earlier.click();
  await shows(page, "Question number 2.");
  await earlier.click();
  await shows(page, "Question number 1.");
  await earlier.waitFor({ state: "detached" });
  const questions = await page.getByText(/^You: ?Question number \d+\.$/).allTextContents();
  expect(questions.map((text) => Number(/\d+/.exec(text)?.[0]))).toEqual(
    Array.from({ length: TURNS }, (_, index) => index + 1),
  );
});

it("dates and numbers are English like the texts, also in a browser with another language", async () => {
  await signUp(context, site.service, "sprache@example.com");
  const id = await create({ name: "Reader" });
  await run(id);
  await page.goto(`${site.service.url}/agents/${id}?tab=settings`);
  await shows(page, /changed (just now|\d+ (second|minute)s? ago)/);
  await page.goto(`${site.service.url}/billing`);
  await page
    .getByText(/^\w{3} \d{1,2}, \d{4}$/)
    .first()
    .waitFor();
});

it("an attack by a costly text: the page stays usable and shows the text unformatted; a later text is formatted", async () => {
  await signUp(context, site.service, "costly@example.com");
  const id = await create({ name: "Target" });
  site.upstream.answer(completion("]".repeat(60_000)));
  await page.goto(`${site.service.url}/agents/${id}/runs/${await run(id)}`);
  await page.getByRole("heading", { name: "Output" }).waitFor();
  await page.getByRole("link", { name: "← Target" }).click();
  await page.getByRole("heading", { name: "Target", level: 1 }).waitFor({ timeout: 60_000 });
  site.upstream.answer(completion("[wiki](https://example.com/a_(b)) and **this**"));
  await page.goto(`${site.service.url}/agents/${id}/runs/${await run(id)}`);
  const link = page.getByRole("link", { name: "https://example.com/a_(b)" }).first();
  await link.waitFor();
  expect(await link.getAttribute("href")).toBe("https://example.com/a_(b)");
});

it("a copy button copies, and selects the text if the browser denies access to the clipboard", async () => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: site.service.url });
  await signUp(context, site.service, "copy@example.com");
  await page.goto(`${site.service.url}/developers/keys`);
  const newKey = async () => {
    await page.getByRole("button", { name: "New key" }).first().click();
    await page.getByLabel("Name").fill("Website");
    await page.getByRole("button", { name: "Create API key" }).click();
    return page.getByRole("textbox", { name: "API key" }).inputValue();
  };
  const key = await newKey();
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByText("API key copied.").waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(key);
  await page.getByRole("button", { name: "I have copied it" }).click();

  await page.evaluate(() => {
    navigator.clipboard.writeText = () => Promise.reject(new Error("denied"));
    document.execCommand = () => false;
  });
  await newKey();
  await page.getByRole("button", { name: "Copy" }).click();
  await shows(page, "The browser denied the copy.");
  expect(await page.evaluate(() => getSelection()?.toString())).toMatch(/^purser_live_/);
});

it("long words do not make any page wider than a phone", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await signUp(context, site.service, `${"long".repeat(12)}@${"example".repeat(8)}.com`);
  const word = "Donaudampfschifffahrtsgesellschaftskapitaen".repeat(4);
  const id = await create({ name: word, description: word, system_prompt: word, ...daily });
  site.upstream.answer(
    completion(`${word} [${word}](https://example.com/${word}) \`${word}\`\n\n| ${word} | b |\n|-|-|\n| ${word} | c |`),
  );
  const run_id = await run(id);
  await person("POST", `/agents/${id}/chat`, {
    messages: [{ role: "user", content: word }],
    thread_id: word.slice(0, 100),
  });
  await person("POST", "/secrets", { name: `N${"a".repeat(63)}`, value: "v", description: word });
  await person("POST", "/api-keys", { name: word.slice(0, 100) });
  await person("POST", "/webhook-endpoints", { url: `https://example.com/${word}`, events: ["run.failed"] });
  await person("PUT", `/agents/${id}`, { limits: { max_cost_tokens_per_run: 1 } });
  await run(id);
  const paths = [
    "/",
    "/usage?by=agent",
    "/agents",
    `/agents/${id}`,
    `/agents/${id}?tab=schedule`,
    `/agents/${id}?tab=settings`,
    `/agents/${id}/edit`,
    `/agents/${id}/runs/${run_id}`,
    `/agents/${id}/chat?thread=${word.slice(0, 100)}`,
    "/vault",
    "/developers/keys",
    "/notices",
    "/account",
    "/billing?tab=ledger",
    `/billing?tab=ledger&agent_id=${id}`,
  ];
  for (const path of paths) {
    await page.goto(site.service.url + path, { waitUntil: "networkidle" });
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    const widest = await page.evaluate(() =>
      Math.max(
        document.documentElement.scrollWidth,
        ...[...document.querySelectorAll("section[aria-label]")]
          .filter((part) => part.querySelector("table") !== null)
          .map(({ scrollWidth, clientWidth }) => innerWidth + scrollWidth - clientWidth),
      ),
    );
    expect(widest, path).toBeLessThanOrEqual(390);
  }
});

/** Uses up the person's rate limit, until the returned function is called. */
async function useUp(limited: Service): Promise<() => Promise<void>> {
  const headers = await sessionHeaders(context, limited);
  const ask = async () => (await fetch(`${limited.url}/api/v1/users/me`, { headers })).status;
  while ((await ask()) !== 429);
  let is_over = false;
  const taking = async () => {
    while (!is_over) await ask();
  };
  // If the test fails, the service ends before this loop.
  const ended = taking().catch(() => {});
  return async () => {
    is_over = true;
    await ended;
  };
}

describe("too many requests", () => {
  it("keep the navigation and the typed text, and show when to try again", async () => {
    const limited = await startService({ config: { limits: { session_requests_per_minute: 60 } } });
    try {
      await signUp(context, limited, "busy@example.com");
      await page.goto(limited.url);
      await shows(page, "No model provider is connected.");
      const { id } = await asPerson(context, limited, "POST", "/agents", { name: "Reader", auto_route: true });
      await page.goto(`${limited.url}/agents/${id}/edit`);
      await unfoldAll(page);
      await page.getByLabel("Description").fill("typed before");
      // The service allows a request now and then. This value makes it reject a save that passes the limit.
      await page.getByLabel("Temperature").fill("2.5");
      const stop = await useUp(limited);
      const refusal = page.getByRole("alert").getByText("You have sent too many requests");
      await expect
        .poll(async () => {
          await page.getByRole("button", { name: "Save agent" }).click();
          return refusal.isVisible();
        })
        .toBe(true);
      await page.getByText(/You can try again (in \d+ seconds?|now)\./).waitFor();
      expect(await page.getByLabel("Description").inputValue()).toBe("typed before");

      await page.reload();
      await page.getByRole("navigation", { name: "Main" }).waitFor();
      await page.getByRole("alert").getByText("You have sent too many requests").waitFor();
      await stop();
      // Each second allows one more request, and the page needs several.
      const [again, heading] = [
        page.getByRole("button", { name: "Try again" }),
        page.getByRole("heading", { level: 1, name: "Edit Reader" }),
      ];
      for (;;) {
        await again.or(heading).first().waitFor();
        if (await heading.isVisible()) break;
        // The page may load again by itself at this moment, and then the button is gone.
        await again.click({ timeout: 1_000 }).catch(() => {});
        await page.waitForLoadState("networkidle");
      }
    } finally {
      await limited.stop();
    }
  });
});

it("a model's reasoning is collapsed under its step, and can be opened", async () => {
  await signUp(context, site.service, "reasoning@example.com");
  const thought = { index: 0, delta: { reasoning_content: "The tide turns twice a day." } };
  const end = { index: 0, delta: {}, finish_reason: "stop" };
  site.upstream.answer(events(event({ choices: [thought] }), delta("At noon."), event({ choices: [end] })));
  const id = await create({ name: "Thinker" });
  const run_id = await run(id);
  await page.goto(`${site.service.url}/agents/${id}/runs/${run_id}`);
  await page.getByRole("heading", { name: "Output" }).waitFor();
  expect(await page.getByText("The tide turns twice a day.").isVisible()).toBe(false);
  await page.getByText("Reasoning", { exact: true }).click();
  await shows(page, "The tide turns twice a day.");
});
