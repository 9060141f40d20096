import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sharedChromium } from "../support/chromium.ts";
import { becomeOperator, PASSWORD, signUp } from "../support/console.ts";
import { countClicks, inClicks } from "../support/console-tasks.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

let browser: Browser;
let service: Service;
let page: Page;

beforeAll(async () => {
  [browser, service] = await Promise.all([sharedChromium(), startService()]);
  page = await browser.newPage();
});
afterAll(async () => {
  await page?.close();
  await service?.stop();
});

it("a person makes their account an operator by the key, and the section asks for the password, also in the middle of an act", async () => {
  await signUp(page.context(), service, "first@example.com");
  await page.goto(`${service.url}/operator`);
  const nav = page.getByRole("navigation", { name: "Main" });
  await page.getByLabel("Operator key").fill("not the key");
  await page.getByRole("button", { name: "Make my account an operator" }).click();
  await page.getByRole("alert").getByText("Request id").waitFor();
  expect(await nav.getByRole("link", { name: "Operator" }).count()).toBe(0);
  await page.getByLabel("Operator key").fill(ADMIN_KEY);
  await page.getByRole("button", { name: "Make my account an operator" }).click();
  await nav.getByRole("link", { name: "Operator" }).waitFor();

  const dialog = page.getByRole("dialog", { name: "Confirm your password" });
  await dialog.getByLabel("Password").fill("not my password");
  await dialog.getByRole("button", { name: "Confirm password" }).click();
  await dialog.getByText("This is not your present password.").first().waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Confirm your password first.").waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await dialog.getByLabel("Password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Confirm password" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("link", { name: "Users" }).click();
  await page.getByRole("row", { name: /first@example.com/ }).waitFor();

  // The confirmation ends while a form is open: its request goes on after the password.
  await page.getByRole("button", { name: "New user" }).click();
  await page.getByLabel("E-mail").fill("made@example.com");
  const over = { code: "password_confirmation_required", message: "Confirm your password first." };
  await page.route("**/api/v1/admin/users", (route) => route.fulfill({ status: 403, json: { error: over } }), {
    times: 1,
  });
  await page.getByRole("button", { name: "Create user" }).click();
  await dialog.getByLabel("Password").fill(PASSWORD);
  await dialog.getByRole("button", { name: "Confirm password" }).click();
  await page.getByRole("button", { name: "I have copied it" }).click();
  await page.getByRole("row", { name: /made@example.com/ }).waitFor();
});

it("the operator can create and revoke an operator key, and can close a bucket and export the data on a user's page", async () => {
  const user = await service.newUser();
  await signUp(page.context(), service, "second@example.com");
  await becomeOperator(page.context(), service);
  // The address of an earlier version.
  await page.goto(`${service.url}/operator?user=${user.user_id}`);
  await page.waitForURL(`${service.url}/operator/users/${user.user_id}`);
  const because = async (act: string) => {
    await page.getByLabel("Reason").fill("a test");
    await page.getByRole("dialog").getByRole("button", { name: act, exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await page.getByRole("button", { name: "Close the bucket of 625,000 tokens" }).click();
  expect(await page.getByLabel("What will change").locator("dd").allTextContents()).toEqual([
    "625,000",
    "0",
    "625,000",
    "0",
  ]);
  await because("Close bucket");
  await page.getByText("No open bucket.").waitFor();
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export data" }).click();
  expect((await saved).suggestedFilename()).toBe(`purser-user-${user.user_id}.zip`);

  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("button", { name: "New operator key" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Ada");
  await page.getByRole("button", { name: "Create operator key" }).click();
  const key = await page.getByRole("textbox", { name: "Operator key" }).inputValue();
  await page.getByRole("button", { name: "I have copied it" }).click();
  const statusOf = async () => (await service.as(key).get("/api/v1/admin/users")).status;
  expect(await statusOf()).toBe(200);
  await page.getByRole("button", { name: "Revoke operator key Ada" }).click();
  await because("Revoke operator key");
  expect(await statusOf()).toBe(401);
});

it("the operator sees whose runs fail and why, opens a run's figures, and gives a user tokens, each within its clicks", async () => {
  const user = await service.newUser();
  const { email } = (await user.get("/api/v1/users/me")).body;
  const limits = { max_cost_tokens_per_run: 1 };
  const agent = { name: "Spender", model_id: "purser/rehearsal", run_prompt: "A private task", limits };
  const { id } = (await user.post("/api/v1/agents", agent)).body;
  await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=20" });
  const context = await browser.newContext();
  await countClicks(context);
  const tasks = await context.newPage();
  await signUp(context, service, "tasks@example.com");
  await becomeOperator(context, service);
  const home = async () => {
    await tasks.goto(service.url);
    await tasks.getByRole("heading", { name: "Home", level: 1 }).waitFor();
  };
  const operator = () =>
    tasks.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Operator" }).click();
  const part = (name: string) =>
    tasks.getByRole("navigation", { name: "Parts of the operator's section" }).getByRole("link", { name }).click();

  await home();
  await inClicks(tasks, "see whose runs fail, and why", async () => {
    await operator();
    await part("Runs");
    const group = tasks.getByRole("region", { name: "Whose runs fail" }).getByRole("row", { name: email });
    await group.getByRole("link", { name: "It reached its token limit" }).click();
    await tasks.waitForURL(/error_code=budget_exceeded/);
  });
  await tasks.getByRole("table", { name: "Runs" }).getByRole("link", { name: "Spender" }).click();
  const opened = tasks.getByRole("dialog", { name: "Run of Spender" });
  await opened.getByText("Run failed: it reached its token limit").waitFor();
  await opened.getByText("Operators see figures and errors.").waitFor();
  expect(await opened.textContent()).not.toContain("A private task");

  await tasks.route(/admin\/overview/, async (route) => {
    const overview = await (await route.fetch()).json();
    const paid = { revenue_micro_usd: 1_000_000, revenue_in_other_currencies: { eur: 3_200_000, jpy: 1_500_000_000 } };
    Object.assign(overview.money.today, paid, { margin_micro_usd: null });
    await route.fulfill({ json: overview });
  });
  await home();
  await operator();
  const today = tasks.getByRole("region", { name: "Money" }).getByRole("row", { name: /^Today/ });
  await today.getByText("Different currencies").waitFor();
  expect(await today.textContent()).toContain("$1.00+ €3.20 EUR+ ¥1,500 JPY");
  await tasks.unrouteAll({ behavior: "wait" });

  await home();
  await inClicks(tasks, "give a user tokens", async () => {
    await operator();
    await part("Users");
    await tasks.getByRole("searchbox", { name: "Find users" }).fill(email);
    await tasks.getByRole("table").getByRole("link", { name: email }).click();
    await tasks.getByRole("button", { name: "Grant tokens" }).click();
    await tasks.getByRole("dialog").getByLabel("Tokens").fill("1000");
    await tasks.getByRole("dialog").getByRole("button", { name: "Grant tokens" }).click();
    await tasks.getByText("Tokens granted").waitFor();
  });

  // What a correction will change is shown before it is confirmed: bonuses are taken first.
  await tasks.getByRole("button", { name: `Manage ${email}` }).click();
  await tasks.getByRole("menuitem", { name: "Adjust balance" }).click();
  await tasks.getByRole("dialog").getByLabel("Tokens").fill("-1500");
  const change = tasks.getByLabel("What will change");
  await expect.poll(() => change.locator("dd").allTextContents()).toContain("−1,500");
  const [now = "", after = ""] = (await change.locator("dd").allTextContents()).slice(-2);
  const tokens = (text: string) => Number(text.replaceAll(",", ""));
  expect(tokens(now) - tokens(after)).toBe(1500);
  await context.close();
});

it("a person can download the data of their account", async () => {
  await signUp(page.context(), service, "export@example.com");
  await page.goto(`${service.url}/account`);
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download your data" }).click();
  expect((await saved).suggestedFilename()).toBe("purser-export.zip");
});

it("every page of a drill says above all else that it is one", async () => {
  const drill = await startService({ env: { PURSER_MODE: "drill" } });
  try {
    const fresh = await browser.newPage();
    await fresh.goto(`${drill.url}/sign-in`);
    await fresh.getByText("This is a drill, not the real service.").waitFor();
    await fresh.close();
  } finally {
    await drill.stop();
  }
});
