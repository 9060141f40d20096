import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { becomeOperator, buildConsole, PASSWORD, signUp } from "../support/console.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

let browser: Browser;
let service: Service;
let page: Page;

beforeAll(async () => {
  buildConsole();
  [browser, service] = await Promise.all([startChromium(), startService()]);
  page = await browser.newPage();
});
afterAll(async () => {
  await browser?.close();
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
