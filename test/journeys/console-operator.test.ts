import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { buildConsole, signUp } from "../support/console.ts";
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

it("the operator can create and revoke an operator key, and can close a bucket and export the data on a user's page", async () => {
  const user = await service.newUser();
  await page.goto(`${service.url}/operator?user=${user.user_id}`);
  await page.getByLabel("Operator key").fill(ADMIN_KEY);
  await page.getByRole("button", { name: "Enter" }).click();
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

  await page.getByRole("link", { name: "All users" }).click();
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

it("every page of a drill, the operator's too, says above all else that it is one", async () => {
  const drill = await startService({ env: { PURSER_MODE: "drill" } });
  try {
    for (const path of ["/sign-in", "/operator"]) {
      const fresh = await browser.newPage();
      await fresh.goto(`${drill.url}${path}`);
      if (path === "/operator") {
        await fresh.getByLabel("Operator key").fill(ADMIN_KEY);
        await fresh.getByRole("button", { name: "Enter" }).click();
      }
      await fresh.getByText("This is a drill, not the real service.").waitFor();
      await fresh.close();
    }
  } finally {
    await drill.stop();
  }
});
