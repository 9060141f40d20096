import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { shows } from "../support/chromium.ts";
import { asPerson, becomeOperator, PASSWORD, signUp, unfoldAll, useConsole, violations } from "../support/console.ts";
import { completion, delta, fetching, hanging } from "../support/upstream.ts";

// Several tabs, a lost session, the keyboard, and the texts of a form's errors.

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

it("the page of a run explains the cost of the whole run, also when it is opened by its address", async () => {
  await signUp(context, site.service, "explained@example.com");
  await openRun(await create("Explained"));
  await page.getByRole("link", { name: "Explain the cost of the run" }).click();
  const sum = page.getByRole("dialog").getByText("1 call, 18 tokens in total, worth $0.000029 at the standard rate.");
  await sum.waitFor();
  await page.reload();
  await sum.waitFor();
});

it("a form's error summary names an invalid field by its label", async () => {
  await signUp(context, site.service, "words@example.com");
  await page.goto(`${site.service.url}/agents/${await create("Words")}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Temperature").fill("9");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("alert").getByText("Temperature must be a number from 0 to 2.", { exact: true }).waitFor();
});

it("after a sign-in in another tab the sign-in page opens the requested page", async () => {
  await signUp(context, site.service, "follows@example.com");
  await context.clearCookies();
  await page.goto(`${site.service.url}/agents`);
  await shows(page, "Sign in to continue.");
  const other = await context.newPage();
  await other.goto(`${site.service.url}/sign-in`);
  await other.getByLabel("E-mail").fill("follows@example.com");
  await other.getByLabel("Password").fill(PASSWORD);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { name: "Home" }).waitFor();
  await page.getByRole("heading", { name: "Agents" }).waitFor();
});

it("a sign-out in another tab does not change pages that need no session", async () => {
  await signUp(context, site.service, "elsewhere@example.com");
  const tabs = await Promise.all(["/sign-up", "/reset-password#token=x"].map(openTab));
  const [form, reset] = tabs as [Page, Page];
  await form.getByLabel("E-mail").fill("another@example.com");
  await reset.getByLabel("New password").fill("typed already");
  const signed_in = await openTab("/agents");
  await page.goto(site.service.url);
  await page.getByRole("button", { name: "Sign out" }).click();
  await signed_in.getByRole("heading", { name: "Sign in to Purser" }).waitFor();
  expect(await form.getByLabel("E-mail").inputValue()).toBe("another@example.com");
  expect(await reset.getByLabel("New password").inputValue()).toBe("typed already");
});

async function openTab(path: string): Promise<Page> {
  const tab = await context.newPage();
  await tab.goto(`${site.service.url}${path}`);
  await tab.getByRole("heading", { level: 1 }).waitFor();
  return tab;
}

it("a message and a dialog's fields stay when the session ends", async () => {
  await signUp(context, site.service, "typing@example.com");
  const id = await create("Listener");
  const dialog = await openTab("/vault");
  await dialog.getByRole("button", { name: "New secret" }).first().click();
  await dialog.getByLabel("Name").fill("TYPED");
  await dialog.getByLabel("Value").fill("a long value");
  await page.goto(`${site.service.url}/agents/${id}/chat`);
  await page.getByLabel("Your message").fill("typed for ten minutes");
  await context.clearCookies();
  await page.keyboard.press("Enter");
  await dialog.getByRole("button", { name: "Save secret" }).click();
  for (const tab of [page, dialog]) {
    await shows(tab, "You are signed out. Sign in again.");
    await tab.getByRole("link", { name: "Sign in in a new tab" }).first().waitFor();
  }
  await shows(page, "typed for ten minutes");
  expect(await dialog.getByLabel("Value").inputValue()).toBe("a long value");
});

it("a stopped answer shows its cost, and the balance is updated", async () => {
  await signUp(context, site.service, "stopped@example.com");
  await person("POST", "/billing/purchase", { amount_cents: 100 });
  const balance = async () => (await person("GET", "/users/me")).token_balance;
  const before = await balance();
  await page.goto(`${site.service.url}/agents/${await create("Stopped")}/chat`);
  site.upstream.answer((response) => void response.write(delta("The beginning of a long answer.")));
  await page.getByLabel("Your message").fill("Tell me more");
  await page.keyboard.press("Enter");
  await shows(page, "The beginning");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("link", { name: /^\$0\.0\d+ \([1-9]\d* tokens\), view run/ }).waitFor();
  const after = await balance();
  expect(after).toBeLessThan(before);
  await page.getByRole("link", { name: "Billing" }).first().click();
  await shows(page, `${new Intl.NumberFormat("en-GB").format(after)} tokens`);
});

it("the explanation of a stopped answer's cost says that its counts are estimates, and that of a whole answer does not", async () => {
  await signUp(context, site.service, "estimated@example.com");
  const id = await create("Estimated");
  const estimates = page.getByText("The provider's counts did not arrive, so the counts are estimates.");
  await openRun(id);
  await page.getByRole("link", { name: "Explain the cost of the run" }).click();
  await page.getByRole("dialog").getByText("1 call, 18 tokens").waitFor();
  expect(await estimates.count()).toBe(0);
  site.upstream.answer((response) => void response.write(delta("The beginning of a long answer.")));
  const run = await person("POST", `/agents/${id}/runs`);
  await page.goto(`${site.service.url}/agents/${id}/runs/${run.id}`);
  await shows(page, "The beginning");
  await person("POST", `/agents/${id}/runs/${run.id}/cancel`);
  await page.getByRole("link", { name: "Explain the cost of the run" }).click();
  await estimates.waitFor();
});

it("each answer of a conversation shows the cost of its run, also after the next one and after a reload", async () => {
  await signUp(context, site.service, "answers@example.com");
  await page.goto(`${site.service.url}/agents/${await create("Answers")}/chat`);
  const costs = page.getByRole("log").getByRole("link", { name: "(18 tokens), view run" });
  for (const count of [1, 2]) {
    await page.getByLabel("Your message").fill(`Question ${count}`);
    await page.keyboard.press("Enter");
    await expect.poll(() => costs.count()).toBe(count);
    await page.getByRole("button", { name: "Send" }).waitFor();
  }
  await page.reload();
  await expect.poll(() => costs.count()).toBe(2);
});

it("the page of a run shows its cost beside its status, so far while it runs", async () => {
  await signUp(context, site.service, "so-far@example.com");
  const tools_config = { web_fetch: { enabled: true, hosts: ["example.com"] } };
  const agent = { name: "Reader", model_id: "lab/small", run_prompt: "Read", tools_config };
  const { id } = await person("POST", "/agents", agent);
  site.upstream.answer(fetching("http://127.0.0.1:1/news"), hanging(delta("I read")));
  const asked = site.upstream.requests.length;
  await page.goto(`${site.service.url}/agents/${id}`);
  await page.getByRole("button", { name: "Run now" }).click();
  await site.upstream.until(() => site.upstream.requests.length === asked + 2);
  await shows(page, /, started by you · 30 tokens so far$/);
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel run" }).click();
  await shows(page, /, started by you · \d+ tokens$/);
});

it("a run that is opened in the middle of an answer shows the answer from its beginning", async () => {
  await signUp(context, site.service, "mid-answer@example.com");
  const id = await create("Talker");
  let say: (text: string) => void = () => {};
  site.upstream.answer((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    say = (text) => response.write(delta(text));
    say("Once upon ");
  });
  const asked = site.upstream.requests.length;
  const run = await person("POST", `/agents/${id}/runs`);
  await site.upstream.until(() => site.upstream.requests.length > asked);
  await page.goto(`${site.service.url}/agents/${id}/runs/${run.id}`);
  await shows(page, /^Once upon/);
  say("a time ");
  await shows(page, /^Once upon a time/);
  await page.reload();
  await shows(page, /^Once upon a time/);
  say("a dragon lived.");
  await shows(page, /^Once upon a time a dragon lived\.$/);
  await person("POST", `/agents/${id}/runs/${run.id}/cancel`);
});

it("the control with the focus is never behind the bars at the edges of a phone", async () => {
  await signUp(context, site.service, "covered@example.com");
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(`${site.service.url}/agents/${await create("Covered")}/edit`);
  await page.getByLabel("Name", { exact: true }).fill("");
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await page.getByRole("button", { name: "Save agent" }).click(); // The browser goes to the empty field.
  await page.waitForFunction(() => document.activeElement?.tagName === "INPUT");
  for (const key of ["Tab", "Shift+Tab"]) {
    for (let press = 0; press < 40; press++) {
      expect(await page.evaluate(coveredControl), key).toBeNull();
      await page.keyboard.press(key);
    }
  }
});

/** The focused control, if another element covers it. */
function coveredControl(): string | null {
  const control = document.activeElement;
  if (control === null || control === document.body) return null;
  const { x, y, width, height } = control.getBoundingClientRect();
  const front = document.elementFromPoint(x + Math.min(width, innerWidth) / 2, y + height / 2);
  return front !== null && (control.contains(front) || front.contains(control)) ? null : control.outerHTML;
}

it("the keyboard scrolls a wide block of code in an answer", async () => {
  await signUp(context, site.service, "wide-code@example.com");
  site.upstream.answer(completion(`\`\`\`js\nconst text = "${"a".repeat(500)}";\n\`\`\``));
  await openRun(await create("Coder"));
  expect(await violations(page, "all but contrast")).toEqual([]);
});

it("a wide table in an answer keeps its words whole, aligns its columns, and the keyboard scrolls it", async () => {
  await signUp(context, site.service, "wide-table@example.com");
  await page.setViewportSize({ width: 360, height: 740 });
  const columns = ["Port", "Price", "Tide", "Harbourmaster"];
  const rows = [columns, ["-", "-:", "-", "-"], ["Kiel", "12.50", "low", "Constantinople"]];
  site.upstream.answer(completion(rows.map((cells) => `| ${cells.join(" | ")} |`).join("\n")));
  await openRun(await create("Tables"));
  const heading = page.getByRole("columnheader", { name: "Harbourmaster" });
  await heading.waitFor();
  expect((await heading.boundingBox())?.height).toBeLessThan(40);
  const alignment = (name: string) =>
    page.getByRole("cell", { name }).evaluate((cell) => getComputedStyle(cell).textAlign);
  expect(await alignment("12.50")).toBe("right");
  expect(await violations(page, "all but contrast")).toEqual([]);
});

it("the account page, the list of plans and the operator use the same name for the plan", async () => {
  await signUp(context, site.service, "plan-name@example.com");
  await person("POST", "/billing/subscription", { plan_id: "starter" });
  await page.goto(`${site.service.url}/account`);
  await page.getByText("Starter", { exact: true }).waitFor();
  await becomeOperator(context, site.service);
  await page.goto(`${site.service.url}/operator/users?search=plan-name`);
  await page.getByRole("cell", { name: "Starter", exact: true }).waitFor();
});

it("next runs show a second time only if the zones' clocks differ, also if the browser has another name for the zone", async () => {
  await signUp(context, site.service, "zones@example.com");
  const id = await create("Daily");
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "07:30" };
  for (const [zone, times] of [
    ["Asia/Kathmandu", 1],
    ["Asia/Kolkata", 2],
  ] as const) {
    await person("PUT", `/agents/${id}`, { ...daily, schedule_timezone: zone });
    await page.goto(`${site.service.url}/agents/${id}?tab=schedule`);
    const next = page.getByRole("list", { name: "Next runs" }).getByRole("listitem").first();
    expect((await next.textContent())?.match(/\d\d:\d\d/g), zone).toHaveLength(times);
  }
});

it("the operator can type in the middle of a search", async () => {
  await signUp(context, site.service, "searches@example.com");
  await becomeOperator(context, site.service);
  const operator = await openTab("/operator/users");
  const search = operator.getByLabel("Find users");
  await search.fill("ad@example.com");
  await search.press("Home");
  await search.press("ArrowRight");
  for (const letter of "bcd") {
    await search.press(letter);
    await expect.poll(() => new URL(operator.url()).searchParams.get("search")).toContain(letter);
  }
  expect(await search.inputValue()).toBe("abcdd@example.com");
});

it("the forms for addresses and passwords name an invalid field by its label", async () => {
  const form = await openTab("/sign-up");
  await form.getByLabel("E-mail").fill("ada@example");
  await form.getByLabel("Password").fill(PASSWORD);
  await form.getByRole("button", { name: "Create account" }).click();
  await form.getByRole("alert").getByText("E-mail must be an e-mail address.", { exact: true }).waitFor();
  await signUp(context, site.service, "passwords@example.com");
  const account = await openTab("/account");
  await account.getByLabel("Current password").fill("not the password");
  await account.getByLabel("New password").fill(PASSWORD);
  await account.getByRole("button", { name: "Change password" }).click();
  await account.getByRole("alert").getByText("This is not your present password").waitFor();
  await account.getByLabel("New password").fill("x".repeat(300));
  expect(await account.getByLabel("New password").evaluate((field: HTMLInputElement) => field.maxLength)).toBe(200);
});
