import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startChromium } from "../support/chromium.ts";
import { asPerson, buildConsole, signUp, violations } from "../support/console.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

const FIRST_LOAD_BYTES = 200 * 1024;
const FIRST_LOAD_REQUESTS = 24;

let browser: Browser;
let service: Service;
let signed_in: Awaited<ReturnType<BrowserContext["storageState"]>>;
let agent_id: string;
let run_id: string;
let secret_id: string;

beforeAll(async () => {
  buildConsole();
  [browser, service] = await Promise.all([startChromium(), startService()]);
  const context = await browser.newContext();
  await signUp(context, service, "pages@example.com");
  const call = (method: string, path: string, body?: unknown) => asPerson(context, service, method, path, body);
  const agent = await call("POST", "/agents", {
    name: "Reader",
    description: "Reads",
    model_id: "purser/rehearsal",
    run_prompt: "Say hello",
    tools_config: { web_fetch: { enabled: true } },
    schedule_enabled: true,
    schedule_interval: "daily",
    schedule_time: "09:00",
    schedule_timezone: "Asia/Kolkata",
  });
  agent_id = agent.id;
  run_id = (await call("POST", `/agents/${agent_id}/runs`)).id;
  const run = () => call("GET", `/agents/${agent_id}/runs/${run_id}`);
  await vi.waitFor(async () => expect((await run()).status).toBe("succeeded"), { timeout: 60_000 });
  await call("POST", `/agents/${agent_id}/chat`, {
    messages: [{ role: "user", content: "Say hello" }],
    thread_id: "one",
  });
  await call("POST", "/api-keys", { name: "Website", budget_tokens: 1000 });
  const secret = await call("POST", "/secrets", { name: "STRIPE_KEY", value: "sk_live_4eC39HqLyjWDarjtT1zdp7dc" });
  secret_id = secret.id;
  await call("POST", "/billing/subscription", { plan_id: "starter" });
  await call("POST", "/billing/purchase", { amount_cents: 500 });
  await call("POST", "/webhook-endpoints", { url: "https://example.com/hook", events: ["run.failed"] });
  signed_in = await context.storageState();
  await context.close();
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

const PAGES = [
  "/",
  "/usage?by=key&days=7",
  "/usage?by=user",
  "/agents",
  "/agents?name=reader",
  "/agents/new",
  "/agents/{agent}",
  "/agents/{agent}?tab=schedule",
  "/agents/{agent}?tab=triggers",
  "/agents/{agent}?tab=settings",
  "/agents/{agent}?tab=versions",
  "/runs",
  "/agents/{agent}/edit",
  "/agents/{agent}/runs/{run}",
  "/agents/{agent}/runs/{run}?why=all",
  "/agents/{agent}/runs/{run}/decide",
  "/agents/{agent}/chat",
  "/agents/{agent}/chat?thread=one",
  "/vault",
  "/vault?uses={secret}",
  "/billing",
  "/billing?closed=true",
  "/billing?tab=ledger",
  "/billing?tab=plans",
  "/billing?tab=overage",
  "/billing?tab=purchases",
  "/billing?tab=end_users",
  "/billing?top_up=true",
  "/developers/keys",
  "/developers/connect",
  "/developers/connect?program=codex&model=purser%2Frehearsal",
  "/developers/models",
  "/developers/playground",
  "/notices",
  "/account",
  "/sign-in",
  "/sign-up",
  "/forgot-password",
  "/reset-password#token=x",
  "/verify-email#token=x",
  "/operator",
  "/no/such/page",
] as const;

/** Pages with the button that opens a dialog. */
const DIALOGS = [
  ["/vault", "New secret"],
  ["/vault", "Edit STRIPE_KEY"],
  ["/developers/keys", "New key"],
  ["/developers/keys", "Edit Website"],
  ["/developers/keys", "Rotate Website"],
  ["/billing?tab=end_users", "Set budget"],
  ["/notices", "New endpoint"],
  ["/billing?tab=plans", "Upgrade now: Pro"],
  ["/agents/{agent}", "Delete agent"],
  ["/agents/{agent}", "Run with input"],
  ["/agents/{agent}?tab=schedule", "Add schedule"],
] as const;

/** In dark mode only the colours differ, on a phone only the layout. */
const LOOKS = [
  ["light", 1280, "all"],
  ["dark", 1280, "contrast"],
  ["light", 390, "all but contrast"],
] as const;

/** Free windows. A browser draws only the front tab of a window, so each page has a context of its own. */
const free: Page[] = [];
async function newWindow(): Promise<Page> {
  // The console's content security policy would reject axe, which is added to the page as a script.
  const context = await browser.newContext({ storageState: signed_in, bypassCSP: true });
  return context.newPage();
}

/** Opens the path in a free window, and calls `look` when the page is complete. */
async function inWindow(path: string, look: (page: Page) => Promise<void>): Promise<void> {
  const filled = path.replace("{agent}", agent_id).replace("{run}", run_id).replace("{secret}", secret_id);
  const page = free.pop() ?? (await newWindow());
  await page.setViewportSize({ width: 1280, height: 850 });
  await page.goto(service.url + filled, { waitUntil: "networkidle" });
  // On a busy machine the network may be idle before the page has begun to load.
  await page.getByRole("heading", { level: 1 }).first().waitFor();
  await page.getByRole("status", { name: "Loading" }).first().waitFor({ state: "detached" });
  await look(page);
  free.push(page);
}

/** Runs in the page: waits until the new style is drawn and every colour transition has ended. */
async function settled() {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const underWay = () => document.getAnimations().filter((animation) => animation instanceof CSSTransition);
  // The end of a colour transition starts the transitions of elements that inherit the colour.
  for (let still = 0; still < 2; still += 1) {
    await frame();
    const transitions = underWay();
    if (transitions.length > 0) still = -1;
    await Promise.allSettled(transitions.map(({ finished }) => finished));
  }
}

/** Checks the page in light mode, in dark mode and on a phone. */
async function lookAt(page: Page, what: string) {
  for (const [colorScheme, width, rules] of LOOKS) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height: 850 });
    await page.evaluate(settled);
    const look = `${what} in ${colorScheme}, ${width} pixels wide`;
    expect(await violations(page, rules), look).toEqual([]);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(overflow, `${look} scrolls sideways`).toBeLessThanOrEqual(0);
  }
}

// Several pages at a time, because each waits for an idle network.
describe.concurrent("in light, in dark and on a phone", () => {
  it.each(PAGES)("%s has no violations of axe-core's rules, and does not scroll sideways", (path) =>
    inWindow(path, async (page) => {
      expect(await page.getByRole("alert").allTextContents(), "nothing has gone wrong").toEqual([]);
      expect(await page.title()).toContain("Purser");
      await lookAt(page, path);
    }),
  );

  it.each(DIALOGS)("%s: the dialog of “%s” has no violations of axe-core's rules", (path, button) =>
    inWindow(path, async (page) => {
      await page.getByRole("button", { name: button, exact: true }).first().click();
      await page.getByRole("dialog").waitFor();
      await lookAt(page, button);
    }),
  );

  it("the operator's page has no violations of axe-core's rules", () =>
    inWindow("/operator", async (page) => {
      await page.getByLabel("Operator key").fill(ADMIN_KEY);
      await page.getByRole("button", { name: "Enter" }).click();
      await page.getByRole("row", { name: /pages@example.com/ }).waitFor();
      await page.getByRole("button", { name: "Run audit" }).click();
      await page.getByText("All balances match the ledger").waitFor();
      await lookAt(page, "the operator's page");
      await page.getByRole("link", { name: "pages@example.com" }).click();
      await page.getByRole("heading", { name: "Buckets" }).waitFor();
      await lookAt(page, "one user's page");
      await page.getByRole("button", { name: "Manage pages@example.com" }).click();
      expect(await violations(page)).toEqual([]);
    }));

  it("a missing page or record is reported within the console's frame, with the request's id", () =>
    inWindow("/agents/0198aaaa-0000-7000-8000-000000000000", async (page) => {
      await page.getByRole("heading", { name: "Not found" }).waitFor();
      await page.getByText("Request id").waitFor();
      await page.getByRole("navigation", { name: "Main" }).waitFor();
      await lookAt(page, "a page of nothing");
    }));
});

it.each([
  ["/secrets?connected=BERTHS", "/vault?connected=BERTHS", "Vault"],
  ["/keys", "/developers/keys", "API keys"],
  ["/developers", "/developers/keys", "API keys"],
  ["/connect?program=codex", "/developers/connect?program=codex", "Connect"],
  ["/?by=key&days=7", "/usage?by=key&days=7", "Usage"],
])("the earlier address %s opens %s", async (earlier, now, heading) => {
  await inWindow(earlier, async (page) => {
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
    await page.waitForURL(service.url + now);
  });
});

it(`the first load is at most ${FIRST_LOAD_BYTES / 1024} KB in ${FIRST_LOAD_REQUESTS} requests`, async () => {
  const fresh = await browser.newContext({ storageState: signed_in });
  const page = await fresh.newPage();
  const sizes: Promise<number>[] = [];
  page.on("requestfinished", (request) => {
    sizes.push(
      request.sizes().then(({ responseBodySize, responseHeadersSize }) => responseBodySize + responseHeadersSize),
    );
  });
  await page.goto(service.url);
  await page.getByText("Every day at 09:00").waitFor();
  const usable_ms = await page.evaluate(() => performance.now());
  await page.waitForLoadState("networkidle");
  const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  await fresh.close();
  console.log(
    `first load: ${Math.round(bytes / 1024)} KB, ${sizes.length} requests, usable after ${Math.round(usable_ms)} ms`,
  );
  expect(bytes).toBeLessThanOrEqual(FIRST_LOAD_BYTES);
  expect(sizes.length).toBeLessThanOrEqual(FIRST_LOAD_REQUESTS);
});
