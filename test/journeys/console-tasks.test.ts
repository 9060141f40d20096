import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { asPerson, choose, PASSWORD, signUp, useConsole, violations } from "../support/console.ts";
import { countClicks, inClicks, insertRuns } from "../support/console-tasks.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { completion, delta, fetching, hanging, json } from "../support/upstream.ts";

// The tasks of docs/guides/console-tasks.md, each within its clicks, among 2,000 runs.

const RUNS = 2002;
const EMAIL = "tasks@example.com";

let receiver: Receiver;
const site = useConsole(async () => {
  receiver = await startReceiver();
  return { PURSER_EGRESS_ALLOW: receiver.host };
});
afterAll(() => receiver.close());
let context: BrowserContext;
let page: Page;
let agents: string[];

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);

beforeAll(async () => {
  ({ context } = await site.open({}));
  await signUp(context, site.service, EMAIL);
  const create = async (name: string) =>
    (await person("POST", "/agents", { name, model_id: "lab/small", run_prompt: "Read the berths." })).id;
  agents = [await create("Harbour"), await create("Lighthouse"), await create("Ferry desk")];
  const { id: user_id } = await person("GET", "/users/me");
  await context.close();
  await site.service.changeDatabase((db) => insertRuns(db, { user_id, agent_ids: agents, runs: RUNS }));
});

beforeEach(async () => {
  ({ context, page } = await site.open({ timezoneId: "UTC", bypassCSP: true, viewport: { width: 1280, height: 850 } }));
  await countClicks(context);
  const signed = await context.request.post(`${site.service.url}/api/v1/auth/sign-in/email`, {
    data: { email: EMAIL, password: PASSWORD },
    headers: { Origin: site.service.url },
  });
  expect(signed.status()).toBe(200);
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
});
afterEach(() => context.close());

const runsLink = () => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs", exact: true });
const table = () => page.getByRole("table", { name: "Runs" });
const rowsOf = () => table().locator("tbody tr");
const panel = () => page.getByRole("complementary", { name: /^Run of/ });

it("a run of last Tuesday is found by its text among 2,000", async () => {
  const days_ago = (new Date().getUTCDay() + 5) % 7 || 7;
  await inClicks(page, "find a run of last Tuesday by its text, among 2,000", async () => {
    await runsLink().click();
    await page.getByRole("navigation", { name: "Days" }).getByRole("link", { name: "7 days" }).click();
    await page.keyboard.press("/");
    await page.keyboard.type("albatross");
    await expect.poll(() => rowsOf().count()).toBe(8);
    await page.waitForURL(/q=albatross/);
    const day = new Date(Date.now() - days_ago * 86_400_000 - 60_000);
    const shown = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric" }).format(day);
    await rowsOf().filter({ hasText: shown }).click();
    await panel().getByText(`The Albatross left on day ${days_ago}.`).waitFor();
  });
  await panel().getByRole("link", { name: "Open run" }).click();
  await page.getByText(/^The run had \d+ steps?, which (is|are) no longer kept\.$/).waitFor();
});

it("the list of runs shows errors and instructions from outside, and its address keeps every filter", async () => {
  await page.goto(`${site.service.url}/runs`);
  await rowsOf().filter({ hasText: "with instructions from outside" }).first().waitFor();
  await rowsOf().filter({ hasText: "The model answered with an error." }).first().waitFor();
  await choose(page.getByLabel("Status"), "any error");
  await page.waitForURL(/status=any_error/);
  await page.getByLabel("Model").press("Enter");
  await page.keyboard.type("sma");
  await page.keyboard.press("Enter");
  await page.waitForURL(/model_id=lab%2Fsmall/);
  await page.reload();
  await rowsOf().first().waitFor();
  const texts = await rowsOf().allTextContents();
  expect(texts.length).toBeGreaterThan(10);
  for (const text of texts) expect(text).toMatch(/^(failed|succeeded with errors)/);
});

it("selected runs are downloaded as CSV, and run again in one act", async () => {
  await page.goto(`${site.service.url}/runs?q=albatross`);
  await expect.poll(() => rowsOf().count()).toBe(14);
  for (const place of [0, 1]) await rowsOf().nth(place).getByRole("checkbox").check();
  const bar = page.getByRole("region", { name: "Selected runs" });
  await bar.getByText("2 runs selected").waitFor();
  const download = page.waitForEvent("download");
  await bar.getByRole("button", { name: "Download selected as CSV" }).click();
  const stream = await (await download).createReadStream();
  const lines = Buffer.concat(await Array.fromAsync(stream))
    .toString()
    .trim()
    .split("\r\n");
  expect(lines).toHaveLength(3);
  expect(lines[1]).toContain("Albatross");
  await bar.getByRole("button", { name: "Run 2 runs again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
  await expect
    .poll(async () => (await person("GET", "/runs?trigger=manual&limit=2")).runs[1].first_line)
    .toBe("Hello.");
  await bar.waitFor({ state: "detached" });
});

it("the runs of last week are downloaded as CSV", async () => {
  await inClicks(page, "download the runs of last week as CSV", async () => {
    await runsLink().click();
    await page.getByRole("navigation", { name: "Days" }).getByRole("link", { name: "Last week" }).click();
    await page.waitForURL(/from=/);
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download CSV" }).click();
    expect((await download).suggestedFilename()).toMatch(/^purser-runs-[\d-]+-to-[\d-]+\.csv$/);
  });
});

it("an agent runs again with the same input from the list of runs", async () => {
  await inClicks(page, "run an agent again with the same input", async () => {
    await runsLink().click();
    await rowsOf().filter({ hasText: "Harbour" }).first().click();
    await panel().getByRole("button", { name: "Run again" }).click();
    await panel().getByText("Hello.").waitFor();
  });
});

it("the list of runs is used by keyboard alone: search, rows by the arrow keys, the panel and back", async () => {
  await page.goto(`${site.service.url}/runs`);
  await rowsOf().first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("albatross");
  await page.waitForURL(/q=albatross/);
  await expect.poll(() => rowsOf().count()).toBe(14);
  await rowsOf().first().getByRole("link").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await panel().getByText("The Albatross left on day 2.").waitFor();
  await panel().getByRole("button", { name: "Close" }).focus();
  await page.keyboard.press("Escape");
  await panel().waitFor({ state: "detached" });
  await expect.poll(() => page.evaluate(() => document.activeElement?.closest("tr")?.dataset.index)).toBe("2");
});

it("pages, agents, conversations and runs are found from everywhere by keyboard, and a run by its id", async () => {
  const dialog = page.getByRole("dialog", { name: "Find" });
  const find = async (text: string, option: string | RegExp) => {
    await page.keyboard.press("Control+k");
    await dialog.getByRole("combobox").waitFor();
    await page.keyboard.type(text);
    await dialog.getByRole("option", { name: option }).first().waitFor();
  };
  await find("light", "Lighthouse");
  expect(await violations(page)).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/find.png` });
  await page.keyboard.type("zzz");
  await dialog.getByText("Nothing has this text.").waitFor();
  expect(await violations(page)).toEqual([]);
  for (let typed = 0; typed < 3; typed += 1) await page.keyboard.press("Backspace");
  await dialog.getByRole("listbox").getByRole("option", { name: "Lighthouse" }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Lighthouse", level: 1 }).waitFor();

  await find("ledger", "Billing: ledger");
  await page.keyboard.press("Enter");
  await page.waitForURL(/billing\?tab=ledger/);

  await find("ferry", "Conversations with Ferry desk");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(/chat/);

  const messages = [{ role: "user", content: "Where is the lantern of the pier?" }];
  await person("POST", `/agents/${agents[2]}/chat`, { messages, thread_id: "pier" });
  await find("lantern", /lantern of the pier.*Ferry desk/);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/find-conversation.png` });
  await page.keyboard.press("Enter");
  await page.waitForURL(/chat\?thread=pier/);
  await page.getByRole("button", { name: "Rename conversation" }).click();
  expect(await violations(page)).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/rename.png` });
  await page.keyboard.type("Lost lantern");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: /^Lost lantern/ }).waitFor();
  await find("lost", /^Lost lantern/);
  await page.keyboard.press("Escape");

  await find("albatross", /The Albatross left on day 3/);
  await page.keyboard.press("Enter");
  await page.waitForURL(/runs\?q=albatross&run=/);
  const id = new URL(page.url()).searchParams.get("run") ?? "";
  await find(id, /^Run of/);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Run of/ }).waitFor();
});

it("Home begins with what needs you, and a failing agent is fixed at the field that its run names", async () => {
  const limits = { max_cost_tokens_per_run: 1 };
  const due = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "07:30" };
  const fields = { name: "Spender", model_id: "lab/small", run_prompt: "Go.", limits, ...due };
  const { id } = await person("POST", "/agents", fields);
  const { id: run_id } = await person("POST", `/agents/${id}/runs`);
  await expect.poll(async () => (await person("GET", `/agents/${id}/runs/${run_id}`)).status).toBe("failed");
  await page.goto(site.service.url);
  const need = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "Spender" }) });
  await inClicks(page, "see what needs you", async () => {
    await need.getByText("failed").waitFor();
    await need.getByText(/“Tokens per run”/).waitFor();
  });
  expect(await violations(page)).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/home.png`, fullPage: true });
  await inClicks(page, "fix an agent that fails", async () => {
    await need.getByRole("link", { name: "See what to do" }).click();
    await page.getByRole("link", { name: "Raise the token limit" }).click();
    await page.getByLabel("Tokens per run").waitFor();
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.closest("[data-param]")?.getAttribute("data-param")))
      .toBe("limits.max_cost_tokens_per_run");
    await page.keyboard.press("Control+a");
    await page.keyboard.type("100000");
    await page.getByRole("button", { name: "Save agent" }).click();
    await page.getByRole("heading", { name: "Spender", exact: true }).waitFor();
  });
  expect((await person("GET", `/agents/${id}`)).limits.max_cost_tokens_per_run).toBe(100_000);
  // A chat does not show that the schedule works again.
  await person("POST", `/agents/${id}/chat`, { messages: [{ role: "user", content: "Hello." }] });
  await page.goto(site.service.url);
  await need.getByText(/“Tokens per run”/).waitFor();
  await person("DELETE", `/agents/${id}`);
});

it("a failed run of a schedule runs again with the schedule's task, and its agent needs nobody any more", async () => {
  const { id } = await person("POST", "/agents", { name: "Gulls", model_id: "lab/small", run_prompt: "Go." });
  const evenings = { name: "evenings", interval: "daily", times: ["18:00"], run_prompt: "Count the gulls." };
  const { id: schedule_id } = await person("POST", `/agents/${id}/schedules`, evenings);
  site.upstream.answer(json({ error: { message: "no" } }, 400));
  const { id: run_id } = await person("POST", `/agents/${id}/schedules/${schedule_id}/run`);
  await expect.poll(async () => (await person("GET", `/runs/${run_id}`)).status).toBe("failed");
  site.upstream.answer(completion("Nine."));
  await page.goto(site.service.url);
  const need = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "Gulls" }) });
  await need.getByRole("link", { name: "See what to do" }).click();
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByText("Nine.").first().waitFor();
  expect(site.upstream.requests.at(-1)?.body.messages.at(-1).content).toContain("Count the gulls.");
  await page.goto(site.service.url);
  await page.getByRole("heading", { name: "Next runs" }).waitFor();
  await page.getByRole("status", { name: "Loading" }).first().waitFor({ state: "detached" });
  expect(await need.count()).toBe(0);
  await person("DELETE", `/agents/${id}`);
});

it("a run is repeated on another model, and both are shown side by side", async () => {
  await inClicks(page, "compare two models for one agent", async () => {
    await runsLink().click();
    await rowsOf().filter({ hasText: "Lighthouse" }).first().click();
    await panel().getByRole("button", { name: "Run on another model" }).click();
    await page.getByRole("dialog").getByRole("option", { name: "purser/rehearsal" }).click();
    await panel().getByRole("region", { name: "This run" }).getByText("purser/rehearsal").waitFor();
    await panel().getByRole("region", { name: "The run before" }).getByText(/^\$/).waitFor();
  });
  await page.getByRole("link", { name: "Open run" }).click();
  await page.getByRole("heading", { name: "Side by side" }).waitFor();
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  await page.getByRole("link", { name: /^run of / }).waitFor();
  expect(await page.getByText("replay_of").count()).toBe(0);
  expect(await violations(page)).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/compare.png`, fullPage: true });
  const [{ metadata, model_id }] = (await person("GET", "/runs?limit=1")).runs;
  expect([Object.keys(metadata), model_id]).toEqual([["replay_of"], "purser/rehearsal"]);
  // Again is on the chosen model, which is not the agent's.
  const repeated = page.waitForRequest((request) => request.method() === "POST" && /\/runs$/.test(request.url()));
  await page.getByRole("button", { name: "Run again" }).click();
  expect((await repeated).postDataJSON()).toMatchObject({ model_id: "purser/rehearsal" });
});

it("a run's page shows what the model was sent, and its steps as a timeline", async () => {
  const { id: run_id } = await person("POST", `/agents/${agents[0]}/runs`);
  await expect.poll(async () => (await person("GET", `/runs/${run_id}`)).status).toBe("succeeded");
  await inClicks(page, "see what the model was sent", async () => {
    await runsLink().click();
    await rowsOf().first().click();
    await panel().getByRole("link", { name: "Open run" }).click();
    await page.getByText("Read the berths.", { exact: true }).waitFor();
  });
  await page.getByRole("link", { name: /^1\. lab\/small/ }).click();
  await page.waitForURL(/step=1$/);
  await page.getByText("Raw JSON").click();
  await page.getByRole("region", { name: "Step 1 as JSON" }).getByText('"finish_reason"').waitFor();
  await page.getByRole("link", { name: "1, what it changed" }).click();
  await page.waitForURL(/tab=versions#version-1/);
});

it("a run is stopped from the list of runs", async () => {
  site.upstream.answer(hanging(delta("Be")));
  const { id: run_id } = await person("POST", `/agents/${agents[0]}/runs`);
  await inClicks(page, "stop a run", async () => {
    await runsLink().click();
    await rowsOf().filter({ hasText: "running" }).first().click();
    await panel().getByRole("button", { name: "Cancel run" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel run" }).click();
    await expect.poll(async () => (await person("GET", `/runs/${run_id}`)).status).toBe("cancelled");
  });
});

it("Home names the agent that spends more than usual, and since which version", async () => {
  await person("PUT", `/agents/${agents[2]}`, { description: "Sells tickets." });
  await context.route(/users\/me\/usage\?days=(2|9)$/, async (route) => {
    const answer = await (await route.fetch()).json();
    const cost_tokens = route.request().url().endsWith("2") ? 600_000 : 1_300_000;
    const counts = { cost_tokens, tokens: 1, requests: 1, total_tokens_used: 1 };
    const row = { agent_id: agents[2], agent_name: "Ferry desk", agent_deleted: false, ...counts };
    await route.fulfill({ json: { ...answer, agent_breakdown: [row] } });
  });
  await page.reload();
  // No run of the new version has cost anything.
  await page.getByText(/^3× usual: Ferry desk$/).waitFor();
  await context.route(/agents\/[\w-]+\/runs\?limit=100$/, async (route) => {
    const answer = await (await route.fetch()).json();
    const [newest] = answer.runs;
    const dear = { ...newest, agent_version: 2, usage: { ...newest.usage, cost_tokens: 600_000 } };
    await route.fulfill({ json: { ...answer, runs: [dear, ...answer.runs] } });
  });
  await page.reload();
  await inClicks(page, "see which agent spends more than usual, and since which version", async () => {
    await page.getByText("3× usual: Ferry desk since version 2").waitFor();
  });
});

const main = (name: string) => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name, exact: true });
const openAgent = async (name: string) => {
  await main("Agents").click();
  // Home names agents too.
  await page.getByRole("heading", { name: "Agents", level: 1 }).waitFor();
  await page.getByRole("main").getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { name, level: 1, exact: true }).waitFor();
};

it("the ledger says why the balance fell, down to the price of a request", async () => {
  const { id: run_id } = await person("POST", `/agents/${agents[0]}/runs`);
  await expect.poll(async () => (await person("GET", `/runs/${run_id}`)).status).toBe("succeeded");
  await inClicks(page, "see why the balance fell", async () => {
    await main("Billing").click();
    await page.getByRole("link", { name: "Ledger" }).click();
    await page
      .getByRole("row")
      .getByRole("link", { name: /explain/i })
      .first()
      .click();
    await page.getByRole("dialog").getByText("Input").first().waitFor();
  });
});

it("the versions of an agent say what changed, and an earlier one is restored", async () => {
  const fields = { name: "Pilot", model_id: "lab/small", run_prompt: "Read the tides." };
  const { id } = await person("POST", "/agents", fields);
  await person("PUT", `/agents/${id}`, { run_prompt: "Read the winds." });
  await page.reload();
  await inClicks(page, "see what changed in an agent, and undo it", async () => {
    await openAgent("Pilot");
    await page.getByRole("link", { name: "Versions" }).click();
    await page.getByRole("button", { name: "Restore version 1" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Restore version" }).click();
    await expect.poll(async () => (await person("GET", `/agents/${id}`)).run_prompt).toBe("Read the tides.");
  });
});

it("an agent is created from a template", async () => {
  await inClicks(page, "create an agent from a template", async () => {
    await main("Agents").click();
    await page.getByRole("main").getByRole("link", { name: "New agent" }).first().click();
    await page.getByRole("button", { name: "Use Price check" }).click();
    await page.getByLabel("Shop host").fill("shop.example.com");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Create agent" }).click();
    await page.getByRole("heading", { name: "Price check", level: 1 }).waitFor();
  });
});

it("an agent runs at another time", async () => {
  const due = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "07:30" };
  await person("POST", "/agents", { name: "Tide table", model_id: "lab/small", run_prompt: "Read the tides.", ...due });
  await inClicks(page, "change when an agent runs", async () => {
    await openAgent("Tide table");
    await page.getByRole("link", { name: "Schedules" }).click();
    await page.getByRole("button", { name: "Edit default" }).click();
    await page.getByRole("dialog").getByLabel("Time", { exact: true }).fill("06:15");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText("Every day at 06:15, UTC").waitFor();
  });
});

it("a secret that a site returned is replaced", async () => {
  await person("POST", "/secrets", { name: "BERTHS", value: "a value that comes back" });
  receiver.treat((response, { headers }) => {
    response.writeHead(200, { "Content-Type": "text/plain" }).end(headers.authorization);
  });
  const auth = [{ secret: "BERTHS", hosts: [receiver.host], inject: { type: "bearer" } }];
  const { id } = await person("POST", "/agents", {
    name: "Berth reader",
    model_id: "lab/small",
    run_prompt: "Read the berths.",
    tools_config: { web_fetch: { enabled: true, hosts: [receiver.host], auth } },
  });
  site.upstream.answer(fetching(receiver.url));
  const run = await person("POST", `/agents/${id}/runs`);
  await expect
    .poll(async () => (await person("GET", `/agents/${id}/runs/${run.id}`)).error?.code)
    .toBe("secret_reflected");
  await page.goto(site.service.url);
  await inClicks(page, "replace a secret that a site returned", async () => {
    await page.getByRole("link", { name: "Replace secret" }).click();
    await page.getByRole("button", { name: "Edit BERTHS" }).click();
    await page.getByLabel("New value").fill("another value");
    await page.getByRole("button", { name: "Save secret" }).click();
    await page.getByText("returned by a site").waitFor({ state: "detached" });
  });
  await person("DELETE", `/agents/${id}`);
});

it("a person talks with an agent", async () => {
  await inClicks(page, "talk with an agent", async () => {
    await openAgent("Harbour");
    await page.getByRole("link", { name: "Chat" }).click();
    await page.getByLabel("Your message").click();
    await page.keyboard.type("Hello");
    await page.keyboard.press("Enter");
    await page.getByText("Hello.").first().waitFor();
  });
});

it("a key that can only make completions is created, and a program is connected", async () => {
  await inClicks(page, "create a key that can only make completions", async () => {
    await main("Developers").click();
    await page.getByRole("button", { name: "New key" }).first().click();
    await page.getByLabel("Name", { exact: true }).waitFor();
    await page.keyboard.type("Website");
    await page.getByRole("button", { name: "Create API key" }).click();
    await page.getByRole("textbox", { name: "API key" }).waitFor();
  });
  const [{ scopes }] = (await person("GET", "/api-keys")).api_keys;
  expect(scopes).toEqual(["chat:read", "chat:write"]);
  await page.goto(site.service.url);
  await inClicks(page, "connect a program", async () => {
    await main("Developers").click();
    await page.getByRole("link", { name: "Connect", exact: true }).first().click();
    await page.getByRole("navigation", { name: "Programs" }).getByRole("link", { name: "Codex" }).click();
    await page.waitForURL(/program=codex/);
  });
});
