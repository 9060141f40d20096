import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { asPerson, PASSWORD, signUp, useConsole } from "../support/console.ts";
import { byKeyboard, countClicks, insertRuns } from "../support/console-tasks.ts";
import { completion, delta, fetching, hanging } from "../support/upstream.ts";

// The ten most frequent tasks of docs/guides/console-tasks.md by keyboard alone.

const EMAIL = "keyboard@example.com";
const RUNS = 28;

const site = useConsole();
let context: BrowserContext;
let page: Page;
let harbour: string;

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
async function start(agent: string, status: string): Promise<string> {
  const { id } = await person("POST", `/agents/${agent}/runs`);
  await expect.poll(async () => (await person("GET", `/runs/${id}`)).status).toBe(status);
  return id;
}

beforeAll(async () => {
  ({ context } = await site.open({}));
  await signUp(context, site.service, EMAIL);
  const fields = { name: "Harbour", model_id: "lab/small", run_prompt: "Read the berths." };
  harbour = (await person("POST", "/agents", fields)).id;
  const { id: user_id } = await person("GET", "/users/me");
  await context.close();
  await site.service.changeDatabase((db) => insertRuns(db, { user_id, agent_ids: [harbour], runs: RUNS }));
});

beforeEach(async () => {
  ({ context, page } = await site.open({ viewport: { width: 1280, height: 850 } }));
  await countClicks(context);
  await context.request.post(`${site.service.url}/api/v1/auth/sign-in/email`, {
    data: { email: EMAIL, password: PASSWORD },
    headers: { Origin: site.service.url },
  });
});
afterEach(() => context.close());

const press = (...keys: string[]) =>
  keys.reduce((done, key) => done.then(() => page.keyboard.press(key)), Promise.resolve());
const type = (text: string) => page.keyboard.type(text);

/** Presses Tab until the focus is on what has this name. */
async function tabTo(name: string | RegExp): Promise<void> {
  const focused = page
    .locator("*:focus")
    .and(page.getByLabel(name).or(page.getByRole("link", { name })).or(page.getByRole("button", { name })));
  for (let times = 0; times < 80; times += 1) {
    if ((await focused.count()) > 0) return;
    await press("Tab");
  }
  throw new Error(`the Tab key does not reach “${name}”`);
}

/** Opens a result of the search over everything. */
async function find(text: string, option: string | RegExp): Promise<void> {
  await press("Control+k");
  const dialog = page.getByRole("dialog", { name: "Find" });
  await dialog.getByRole("combobox").waitFor();
  await type(text);
  const found = dialog.getByRole("option", { name: option }).first();
  await found.waitFor();
  for (let times = 0; (await found.getAttribute("aria-selected")) !== "true"; times += 1) {
    if (times === 20) throw new Error(`the arrow keys do not reach “${option}”`);
    await press("ArrowDown");
  }
  await press("Enter");
  await dialog.waitFor({ state: "detached" });
}

const panel = () => page.getByRole("complementary", { name: /^Run of/ });
async function openPanel(text: string): Promise<void> {
  await find("runs", "Runs");
  await page.getByRole("table", { name: "Runs" }).locator("tbody tr").first().waitFor();
  await press("/");
  await type(text);
  await page.waitForURL(/q=/);
  await page.getByRole("table", { name: "Runs" }).getByText("Albatross").first().waitFor();
  await tabTo("Harbour");
  await press("ArrowDown", "Enter");
  await panel().waitFor();
}

/** Opens the panel of Harbour's newest run, which the service made itself. */
async function openNewest(): Promise<void> {
  const run_id = await start(harbour, "succeeded");
  await find("runs", "Runs");
  await page.locator(`tbody tr a[href*="${run_id}"]`).waitFor();
  await tabTo("Harbour");
  await press("Enter");
  await panel().waitFor();
}

const TASKS: Readonly<Record<string, () => Promise<unknown>>> = {
  "see what needs you": async () => {
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await page.getByText("Nothing: no agent fails, and no schedule is paused.").waitFor();
  },
  "find a run of last Tuesday by its text, among 2,000": async () => {
    await openPanel("albatross");
    await panel()
      .getByText(/The Albatross left on day/)
      .waitFor();
  },
  "see what the model was sent": async () => {
    await openNewest();
    await tabTo("Open run");
    await press("Enter");
    await page.getByText("Read the berths.").waitFor();
  },
  "run an agent again with the same input": async () => {
    await openNewest();
    site.upstream.answer(completion("Hi again."));
    await tabTo("Run again");
    await press("Enter");
    await panel().getByText("Hi again.").waitFor();
  },
  "stop a run": async () => {
    site.upstream.answer(hanging(delta("Be")));
    const run_id = await start(harbour, "running");
    await find(run_id, /^Run of/);
    await tabTo("Cancel run");
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    await tabTo("Cancel run");
    await press("Enter");
    await expect.poll(async () => (await person("GET", `/runs/${run_id}`)).status).toBe("cancelled");
  },
  "approve a call of a tool, on a phone, from the mail": async () => {
    const tools_config = { web_fetch: { enabled: true, permission_policy: "always_ask" } };
    const { id } = await person("POST", "/agents", {
      name: "Asker",
      model_id: "lab/small",
      run_prompt: "Go.",
      tools_config,
    });
    site.upstream.answer(fetching("https://example.com/berths"), completion("Done."));
    const run_id = await start(id, "requires_action");
    await page.goto(`${site.service.url}/agents/${id}/runs/${run_id}/decide`);
    await page.getByRole("button", { name: "Approve call" }).waitFor();
    await tabTo("Approve call");
    await press("Enter");
    await page.getByText("Nothing waits for your decision").waitFor();
    await person("DELETE", `/agents/${id}`);
  },
  "see why the balance fell": async () => {
    await start(harbour, "succeeded");
    await find("ledger", "Billing: ledger");
    await page
      .getByRole("row", { name: /Harbour/ })
      .first()
      .waitFor();
    await tabTo(/^Explain/);
    await press("Enter");
    await page.getByRole("dialog", { name: "Cost explained" }).getByText("Input").waitFor();
  },
  "talk with an agent": async () => {
    await find("harbour", "Conversations with Harbour");
    await tabTo("Your message");
    await type("Hello");
    await press("Enter");
    await page.getByRole("log").getByText("Hello.").waitFor();
  },
  "create a key that can only make completions": async () => {
    await find("api keys", "API keys");
    await page.getByRole("button", { name: "New key" }).first().waitFor();
    await tabTo("New key");
    await press("Enter");
    await page.getByRole("dialog").getByLabel("Name", { exact: true }).waitFor();
    await type("Website");
    await press("Enter");
    await page.getByRole("textbox", { name: "API key" }).waitFor();
  },
  "fix an agent that fails": async () => {
    const limits = { max_cost_tokens_per_run: 1 };
    const { id } = await person("POST", "/agents", {
      name: "Spender",
      model_id: "lab/small",
      run_prompt: "Go.",
      limits,
    });
    await start(id, "failed");
    await page.reload();
    await page.getByRole("link", { name: "See what to do" }).waitFor();
    await tabTo("See what to do");
    await press("Enter");
    await page.getByRole("link", { name: "Raise the token limit" }).waitFor();
    await tabTo("Raise the token limit");
    await press("Enter");
    await page.locator("[data-param='limits.max_cost_tokens_per_run'] :focus").waitFor();
    await press("Control+a");
    await type("100000");
    await press("Enter");
    await page.getByRole("heading", { name: "Spender", exact: true }).waitFor();
    expect((await person("GET", `/agents/${id}`)).limits.max_cost_tokens_per_run).toBe(100_000);
  },
};

it.each(Object.entries(TASKS))("by keyboard alone: %s", async (task, act) => {
  site.upstream.answer(completion("Hello."));
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
  await byKeyboard(page, task, act);
});
