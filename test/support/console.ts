import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { BrowserContext, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { sharedChromium } from "./chromium.ts";
import { type Service, startService } from "./service.ts";
import { completion, startUpstream, type Upstream } from "./upstream.ts";

export const PASSWORD = "a long enough password";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A service with the model `lab/small` and a browser. */
export interface ConsoleSite {
  service: Service;
  upstream: Upstream;
  /** Opens an empty page in a new context, while the model answers "Hello.". */
  open(options: BrowserContextOptions): Promise<{ context: BrowserContext; page: Page }>;
}

/** A site for the tests of a file. `prepare` starts what the service needs, and resolves to its environment. */
export function useConsole(prepare: () => Promise<Record<string, string>> = async () => ({})): ConsoleSite {
  const site = {} as ConsoleSite;
  beforeAll(async () => {
    const [chromium, upstream] = await Promise.all([sharedChromium(), startUpstream()]);
    const rates = { input_rate: 1, output_rate: 2, context_window: 32_000, max_output_tokens: 1000 };
    const model = { id: "lab/small", provider: "lab", provider_model: "small", name: "Lab", trial_eligible: true };
    const service = await startService({
      env: await prepare(),
      config: {
        providers: [{ name: "lab", kind: "openai-compatible", base_url: upstream.url }],
        models: [{ ...model, ...rates, supports: { tools: true, streaming: true } }],
        limits: { session_requests_per_minute: 1_000_000 },
      },
    });
    const open = async (options: BrowserContextOptions) => {
      upstream.answer(completion("Hello."));
      const context = await chromium.newContext({ reducedMotion: "reduce", ...options });
      return { context, page: await context.newPage() };
    };
    Object.assign(site, { service, upstream, open });
  });
  afterAll(async () => {
    await site.service?.stop();
    await site.upstream?.close();
  });
  return site;
}

/** Signs up by the API, because most journeys do not test the sign-up page. The context keeps the session's cookie. */
export async function signUp(context: BrowserContext, service: Service, email: string): Promise<void> {
  const made = await context.request.post(`${service.url}/api/v1/auth/sign-up/email`, {
    data: { email, password: PASSWORD },
    headers: { Origin: service.url },
  });
  if (made.status() !== 201) throw new Error(`no account: ${made.status()} ${await made.text()}`);
}

/** Makes the person who is signed in an operator, whose password is confirmed for half an hour. */
export async function becomeOperator(context: BrowserContext, service: Service): Promise<void> {
  const { id } = await asPerson(context, service, "GET", "/users/me");
  await service.admin.request("PATCH", `/api/v1/admin/users/${id}`, { operator_role: "admin" });
  await asPerson(context, service, "POST", "/auth/confirm-password", { password: PASSWORD });
}

/** Signs up on the page like a person. Resolves on Home. */
export async function signUpOnPage(page: Page, service: Service, email: string): Promise<void> {
  await page.goto(`${service.url}/sign-up`);
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Create account" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
}

/** Opens a select by its label and chooses the option with this text, in upper or lower case. */
export async function choose(field: Locator, option: string): Promise<void> {
  await field.click();
  await field
    .page()
    .getByRole("option", { name: new RegExp(`^${RegExp.escape(option)}$`, "i") })
    .click();
}

/** Opens a picker by its label and chooses the first option with this text. */
export async function pick(field: Locator, text: string): Promise<void> {
  await field.click();
  await field.page().getByRole("option").filter({ hasText: text }).first().click();
}

/** Opens all folded parts of the editor. */
export async function unfoldAll(page: Page): Promise<void> {
  await page.locator("details").first().waitFor();
  await page.evaluate(() => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
}

/** The session's cookie, for requests outside the page. */
export async function sessionHeaders(context: BrowserContext, service: Service): Promise<Record<string, string>> {
  const cookies = await context.cookies(service.url);
  return { Cookie: cookies.map(({ name, value }) => `${name}=${value}`).join("; "), Origin: service.url };
}

/** Calls the API as the person who is signed in. */
export async function asPerson(
  context: BrowserContext,
  service: Service,
  method: string,
  path: string,
  body?: unknown,
) {
  const headers = { ...(await sessionHeaders(context, service)), "Content-Type": "application/json" };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${service.url}/api/v1${path}`, { method, headers, ...sent });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: tests read any JSON
  return (text === "" ? null : JSON.parse(text)) as any;
}

/** Reads the milliseconds of processor time that the page's main thread has used. */
export async function taskClock(page: Page): Promise<() => Promise<number>> {
  const cdp = await page.context().newCDPSession(page);
  // Of the thread's own time: other programs take turns with the browser.
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN) * 1000;
  };
}

/** Contrast takes as long as all the other rules together. */
export type Rules = "all" | "contrast" | "all but contrast";

/** The violations that axe-core finds on the page, one per line. */
export async function violations(page: Page, rules: Rules = "all"): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  return page.evaluate(async (rules) => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<{ violations: Violation[] }> } };
    interface Violation {
      id: string;
      nodes: { html: string }[];
    }
    // Only violations are reported, because passes take time and no test reads them.
    const contrast =
      rules === "contrast"
        ? { runOnly: { type: "rule", values: ["color-contrast"] } }
        : { rules: { "color-contrast": { enabled: rules === "all" } } };
    const found = await axe.run({ resultTypes: ["violations"], ...contrast });
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  }, rules);
}
