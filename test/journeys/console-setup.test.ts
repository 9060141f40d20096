import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { becomeOperator, PASSWORD, signUp, useConsole, violations } from "../support/console.ts";
import { countClicks, inClicks } from "../support/console-tasks.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { ADMIN_KEY, startService } from "../support/service.ts";

// The tasks of an operator in docs/guides/console-tasks.md that concern the whole service, each within its clicks.

const site = useConsole();
let context: BrowserContext;
let page: Page;
let people = 0;

beforeEach(async () => {
  ({ context, page } = await site.open({ bypassCSP: true, viewport: { width: 1280, height: 850 } }));
  await countClicks(context);
  people += 1;
});
afterEach(() => context.close());

async function openHomeAsOperator(): Promise<void> {
  await signUp(context, site.service, `operator-${people}@example.com`);
  await becomeOperator(context, site.service);
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
}
const openOperator = () =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Operator" }).click();
const openPart = (name: string) =>
  page.getByRole("navigation", { name: "Parts of the operator's section" }).getByRole("link", { name }).click();

/** console-pages.test.ts looks at the pages in their other states. */
async function looksRight(name: string): Promise<void> {
  for (const [colorScheme, width] of [
    ["light", 1280],
    ["dark", 390],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 850 });
    // Colours change within a moment.
    await expect.poll(() => violations(page), { message: `${name} ${colorScheme}` }).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${width}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 850 });
}

it("an operator sees with one click whether the service is healthy, and what is not", async () => {
  await openHomeAsOperator();
  await inClicks(page, "see whether the service is healthy", async () => {
    await openOperator();
    await page.getByText("The service is healthy.").waitFor();
  });
  const user = await site.service.newUser({ tokens: 1_000_000 });
  const agent = { name: "Ship spotter", model_id: "lab/small", run_prompt: "Look." };
  const { id } = (await user.post("/api/v1/agents", agent)).body;
  site.upstream.answer((response) => void response.writeHead(500).end("{}"));
  await user.post(`/api/v1/agents/${id}/runs`, {}, { Prefer: "wait=20" });
  await page.reload();
  await page.getByText("2 things to look at").waitFor();
  await page.getByText("lab failed its last call.").waitFor();
  await page.getByRole("row", { name: /Ship spotter.*1 of 1/ }).waitFor();
  await page.getByRole("link", { name: "Failed runs" }).first().click();
  await page.waitForURL(/\/operator\/runs\?status=failed$/);
});

it("the price of a model is changed by the lines that the page shows, and a faulty file changes nothing", async () => {
  await openHomeAsOperator();
  const file = join(site.service.database.data_dir, "purser.json");
  const before = readFileSync(file, "utf8");
  const priceOf = async () => (await site.service.admin.get("/api/v1/admin/settings")).body.models.at(-1);
  await inClicks(page, "change the price of a model", async () => {
    await openOperator();
    await openPart("Settings");
    // The search has the focus.
    await page.getByLabel("Search the settings and the models").waitFor();
    await page.keyboard.type("lab/small");
    await page.getByLabel("Input, $ per million tokens").fill("3.20");
    await page.getByText("A rate is the price × 0.625: $3.20 becomes 2.").waitFor();
    const lines = await page.locator("pre").textContent();
    const config = JSON.parse(before);
    writeFileSync(file, JSON.stringify({ ...config, models: [JSON.parse(lines ?? "")] }, null, 2));
    await page.getByRole("button", { name: "Reload the file" }).click();
    await page.getByText("Changed: models.lab/small.").waitFor();
  });
  expect(await priceOf()).toMatchObject({
    model_id: "lab/small",
    input_usd_per_million: 3.2,
    output_usd_per_million: 3.2,
  });
  await looksRight("operator-settings-price");

  writeFileSync(file, before.replace('"lab/small"', '"auto"'));
  await page.getByRole("button", { name: "Reload the file" }).click();
  await page
    .getByRole("alert")
    .getByText(/purser\.json:\d+/)
    .waitFor();
  await page.getByText("The settings of before stay in force.").first().waitFor();
  expect((await priceOf()).input_usd_per_million).toBe(3.2);
  await page.getByLabel("Search the settings and the models").fill("");
  writeFileSync(file, before);
  await page.getByRole("button", { name: "Reload the file" }).click();
  await page.getByText("Changed: models.lab/small.").waitFor();
});

it("a fresh service leads its operator through the set-up", async () => {
  const mails: MailServer = await startMailServer();
  const fresh = await startService();
  try {
    await signUp(context, fresh, "owner@example.com");
    await page.goto(fresh.url);
    await inClicks(
      page,
      "set up a new service: a user, a provider's key, payments, mail, sign-up, backup",
      async () => {
        await page.getByRole("link", { name: "set it up" }).click();
        await page.getByLabel("Operator key").fill(ADMIN_KEY);
        await page.keyboard.press("Enter");
        await page.getByRole("dialog").getByLabel("Password").fill(PASSWORD);
        await page.keyboard.press("Enter");
        await page.getByText(/[12] of 6 steps are done/).waitFor();
        for (const name of ["Keys of providers", "Payments through Stripe", "Mail", "Sign-up"]) {
          await page.getByRole("button", { name: `Copy ${name}` }).click();
        }
        await looksRight("operator-setup-fresh");
        // The operator sets the variables and starts the service again, here at another port, which has its own count.
        const clicks = await page.evaluate(() => String(sessionStorage.clicks));
        await fresh.restart({
          PURSER_CONFIG: join(site.service.database.data_dir, "purser.json"),
          PURSER_PAYMENTS: "none",
          SMTP_URL: mails.url,
          PURSER_SIGNUP: "closed",
        });
        await page.goto(`${fresh.url}/operator/setup`);
        await page.evaluate((before) => sessionStorage.setItem("clicks", before), clicks);
        await page.getByText("5 of 6 steps are done.").waitFor();
        await page.getByRole("button", { name: "Test lab" }).click();
        await page.getByText(/lab\/small answered in \d+ ms/).waitFor();
        await page.getByRole("button", { name: "Send test mail" }).click();
        await page.getByText("The mail server took the mail.").waitFor();
        const saved = page.waitForEvent("download");
        await page.getByRole("button", { name: "Download backup" }).click();
        expect((await saved).suggestedFilename()).toMatch(/^purser-backup-.*\.gz$/);
        await page.getByText("The service is set up.").waitFor();
      },
    );
    expect(mails.to("owner@example.com").at(-1)?.subject).toBe("Test mail from Purser");
  } finally {
    await fresh.stop();
    await mails.stop();
  }
});
