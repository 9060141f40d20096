import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { BrowserContext, Page } from "playwright-core";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { asPerson, pick, signUp, useConsole, violations } from "../support/console.ts";
import { countClicks, inClicks } from "../support/console-tasks.ts";
import { type Received, type Receiver, startReceiver } from "../support/receiver.ts";
import { json } from "../support/upstream.ts";

// The tasks of people with programs in docs/guides/console-tasks.md, each within its clicks.

let receiver: Receiver;
const site = useConsole(async () => {
  receiver = await startReceiver();
  return { PURSER_EGRESS_ALLOW: receiver.host };
});
afterAll(() => receiver.close());
let context: BrowserContext;
let page: Page;
let people = 0;

beforeEach(async () => {
  ({ context, page } = await site.open({
    bypassCSP: true,
    permissions: ["clipboard-read", "clipboard-write"],
    viewport: { width: 1280, height: 850 },
  }));
  await countClicks(context);
  people += 1;
  await signUp(context, site.service, `developer-${people}@example.com`);
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
});
afterEach(() => context.close());

const developers = () =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Developers" }).click();
const part = (name: string) =>
  page.getByRole("navigation", { name: "Parts of the developers' pages" }).getByRole("link", { name }).click();

async function looksRight(name: string): Promise<void> {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 850 });
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}-${width}.png`, fullPage: true });
  }
}

it("the page of models shows the price of each in dollars, and leads to the playground", async () => {
  await inClicks(page, "see the price of a model", async () => {
    await developers();
    await part("Models");
    await page
      .getByRole("row", { name: /lab\/small/ })
      .getByText("$")
      .first()
      .waitFor();
  });
  await looksRight("models");
  await page.getByLabel("Search by name").fill("no such model");
  await page.getByText("No models match this name.").waitFor();
  await page.getByLabel("Search by name").fill("small");
  await page.getByRole("link", { name: "Try lab/small" }).click();
  await page.waitForURL(/playground\?model=lab%2Fsmall/);
});

it("a message is sent to a model, and the copied call sends the same message", async () => {
  const message = `It's "quoted" \\n, $HOME and ünïcode`;
  await page.goto(`${site.service.url}/developers/playground`);
  await pick(page.getByLabel("Model", { exact: true }), "lab/small");
  await page.waitForURL(/model=lab%2Fsmall/);
  await page.getByLabel("Instructions").fill("Don't\nshout.");
  await page.getByLabel("Message").fill(message);
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("Hello.", { exact: true }).waitFor();
  await looksRight("playground");
  const sent = () => site.upstream.requests.at(-1)?.body.messages;
  const by_page = sent();
  expect(by_page.map(({ content }: { content: string }) => content)).toEqual(["Don't\nshout.", message]);

  const { key } = await asPerson(context, site.service, "POST", "/api-keys", { name: "Copy", scopes: ["chat:write"] });
  await page.getByRole("button", { name: "Copy curl" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const { stdout } = await promisify(execFile)("sh", ["-c", copied.replace("YOUR_API_KEY", key)]);
  expect(JSON.parse(stdout).choices[0].message.content).toBe("Hello.");
  expect(sent()).toEqual(by_page);
});

it("a model is tried and the call is copied within four clicks", async () => {
  await inClicks(page, "try a model, and copy the call", async () => {
    await developers();
    await part("Playground");
    await page.getByRole("button", { name: "Send message" }).click();
    await page.getByText(/^hello\.?$/i).waitFor();
    await page.getByRole("button", { name: "Copy curl" }).click();
    await page.getByText("curl copied.").waitFor();
  });
});

it("one API request is found by its id, with what it cost or why it failed", async () => {
  const ask = (model: string, id: string) =>
    context.request.post(`${site.service.url}/api/v1/chat/completions`, {
      data: { model, user: "ada", messages: [{ role: "user", content: "Say: hello" }] },
      headers: { Origin: site.service.url, "X-Request-Id": id },
    });
  for (let each = 0; each < 8; each += 1) await ask("lab/small", `good-${each}`);
  expect((await ask("lab/none", "bad-1")).status()).toBe(404);
  await inClicks(page, "find one API request", async () => {
    await developers();
    await part("Requests");
    await page.getByLabel("Request id").fill("good-7");
    await page.waitForURL(/request_id=good-7/);
    await page.getByRole("link", { name: /^lab\/small ?, request of/ }).click();
    await page.getByRole("complementary", { name: "Request" }).getByRole("cell", { name: "Billed" }).first().waitFor();
  });
  await looksRight("request");
  await page.setViewportSize({ width: 1280, height: 850 });
  await page.goto(`${site.service.url}/developers/requests?status=rejected&user=ada`);
  await page.getByRole("link", { name: /^lab\/none ?, request of/ }).click();
  const panel = page.getByRole("complementary", { name: "Request" });
  await panel.getByText('The model "lab/none" does not exist.').waitFor();
  await panel.getByRole("link", { name: "Models" }).waitFor();
  await page.goto(`${site.service.url}/developers/requests`);
  await page
    .getByRole("link", { name: / ?, request of/ })
    .first()
    .waitFor();
  await looksRight("requests");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download CSV" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("purser-requests.csv");
});

it("a webhook endpoint is tested, changed, given a new secret, paused and asked for a delivery again", async () => {
  receiver.treat((response) => void response.writeHead(200).end("thanks"));
  await asPerson(context, site.service, "POST", "/webhook-endpoints", {
    url: `${receiver.url}/hook`,
    events: ["run.failed"],
  });
  await inClicks(page, "send a test event to a webhook endpoint", async () => {
    await developers();
    await part("Webhooks");
    await page.getByRole("button", { name: "Send test event" }).click();
    await page.getByText("Test event delivered").waitFor();
  });
  await page.getByText("thanks", { exact: true }).waitFor();
  expect(JSON.parse(receiver.received[0]?.body ?? "").type).toBe("webhook.test");
  await page.getByRole("button", { name: "Replace secret" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Replace secret" }).click();
  const secret = await page.getByRole("dialog").getByLabel("Secret", { exact: true }).inputValue();
  await page.getByRole("button", { name: "I have copied it" }).click();
  await page.getByText(/ A former secret signs too until /).waitFor();
  await page.getByRole("button", { name: "Send test event" }).click();
  await receiver.until(2);
  const { headers = {}, body = "" }: Partial<Received> = receiver.received[1] ?? {};
  new Webhook(secret).verify(body, headers);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByLabel("The balance is low").check();
  await page.getByRole("button", { name: "Save endpoint" }).click();
  await page
    .getByText("The balance is low, A run failed")
    .or(page.getByText("A run failed, The balance is low"))
    .waitFor();
  site.upstream.answer(json({ error: { message: "no" } }, 400));
  const agent = { name: "Herald", model_id: "lab/small", run_prompt: "Go." };
  const { id } = await asPerson(context, site.service, "POST", "/agents", agent);
  await asPerson(context, site.service, "POST", `/agents/${id}/runs`);
  await receiver.until(3);
  await page.getByText("Deliveries", { exact: true }).click();
  await page.getByRole("button", { name: /^Resend A run failed/ }).click();
  await receiver.until(4);
  const [, , first, again] = receiver.received.map(({ headers }) => headers["webhook-id"]);
  expect(again).toBe(first);
  await looksRight("webhooks");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("Paused", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Resume" }).waitFor();
});
