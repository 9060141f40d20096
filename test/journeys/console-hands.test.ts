import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { shows, startChromium } from "../support/chromium.ts";
import { asPerson, buildConsole, PASSWORD, signUp } from "../support/console.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";
import { completion, delta, event, startUpstream, type Upstream } from "../support/upstream.ts";

// How a person uses the pages: double clicks, the keyboard, a phone, scrolling, typed addresses.

let browser: Browser;
let upstream: Upstream;
let service: Service;
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  buildConsole();
  [browser, upstream] = await Promise.all([startChromium(), startUpstream()]);
  const rates = { input_rate: 1, output_rate: 2, context_window: 32_000, max_output_tokens: 1000 };
  const model = { id: "lab/small", provider: "lab", provider_model: "small", name: "Lab", trial_eligible: true };
  service = await startService({
    config: {
      providers: [{ name: "lab", kind: "openai-compatible", base_url: upstream.url }],
      models: [{ ...model, ...rates, supports: { tools: true, streaming: true } }],
      limits: { session_requests_per_minute: 1_000_000 },
    },
  });
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await upstream?.close();
});
async function open(options: BrowserContextOptions = {}) {
  await context?.close();
  context = await browser.newContext({ locale: "en-GB", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(30_000);
  page = await context.newPage();
}
beforeEach(async () => {
  upstream.answer(completion("Hello."));
  await open();
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, service, method, path, body);
const create = async (name: string): Promise<string> =>
  (await person("POST", "/agents", { name, model_id: "lab/small", run_prompt: "Say hello" })).id;
const focused = () =>
  page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.tagName);
const openOnPhone = () => open({ viewport: { width: 390, height: 700 } });

it("a double click creates one agent, one run and one endpoint", async () => {
  await signUp(context, service, "double@example.com");
  await page.goto(`${service.url}/agents/new`);
  await page.getByLabel("Name", { exact: true }).fill("Once");
  await page.getByLabel("Task of each run").fill("Say hello");
  await page.getByRole("button", { name: "Create agent" }).dblclick();
  await page.getByRole("heading", { name: "Once", level: 1 }).waitFor();
  await page.waitForLoadState("networkidle");
  const { agents } = await person("GET", "/agents");
  expect(agents).toHaveLength(1);
  await page.getByRole("button", { name: "Run now" }).dblclick();
  await page.getByRole("heading", { name: "Run of Once" }).waitFor();
  await page.waitForLoadState("networkidle");
  expect((await person("GET", `/agents/${agents[0].id}/runs`)).runs).toHaveLength(1);
  await page.goto(`${service.url}/notices`);
  await page.getByRole("button", { name: "New endpoint" }).click();
  await page.getByLabel("Address").fill("https://example.com/hook");
  await page.getByRole("button", { name: "Create endpoint" }).dblclick();
  await page.getByRole("textbox", { name: "Signing secret" }).waitFor();
  await page.waitForLoadState("networkidle");
  expect((await person("GET", "/webhook-endpoints")).webhook_endpoints).toHaveLength(1);
});
