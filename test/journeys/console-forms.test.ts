import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { sharedChromium, shows } from "../support/chromium.ts";
import { asPerson, becomeOperator, choose, PASSWORD, pick, signUp, unfoldAll } from "../support/console.ts";
import { startMailServer } from "../support/mail-server.ts";
import { type Service, startService } from "../support/service.ts";

// The two pages with the most fields: the agent editor, and the operator's page.

let browser: Browser;
let service: Service;
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  const env = { PURSER_TEST_CLOCK: "2026-03-01T09:00:00Z" };
  [browser, service] = await Promise.all([sharedChromium(), startService({ env })]);
});

afterAll(async () => {
  await service?.stop();
});

beforeEach(async () => {
  context = await browser.newContext({ timezoneId: "UTC", locale: "en-GB", reducedMotion: "reduce" });
  page = await context.newPage();
});

afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, service, method, path, body);
const secret = (name: string) => person("POST", "/secrets", { name, value: `value of ${name}` });

/** Each way to send a secret: the option, its field and value, and the stored setting. */
const WAYS = [
  ["bearer token", null, "", { type: "bearer" }],
  ["password (basic)", "User name", "ada", { type: "basic", username: "ada" }],
  ["header", "Header", "X-Api-Key", { type: "header", name: "X-Api-Key" }],
  ["query parameter", "Parameter", "api_key", { type: "query", name: "api_key" }],
  ["signature of the body (HMAC)", "Header of the signature", "X-Signature", { type: "hmac", header: "X-Signature" }],
] as const;

it("every setting of every tool can be set in the editor, and stays the same when the agent is saved again", async () => {
  await signUp(context, service, "tools@example.com");
  await Promise.all(["FIRST", "SECOND"].map(secret));
  await page.goto(`${service.url}/agents/new`);
  await unfoldAll(page);
  await page.getByLabel("Name", { exact: true }).fill("Well equipped");

  await page.getByRole("switch", { name: "Read the web" }).click();
  const web = page.getByRole("region", { name: "Read the web" });
  await web.getByLabel("Only these hosts").fill("example.com, *.example.org");
  await web.getByLabel("Methods", { exact: true }).fill("get, post");
  await web.getByLabel("Most calls per run").fill("7");
  await web.getByRole("switch", { name: "Strict safety" }).click();
  for (const [place, [way, label, name]] of WAYS.entries()) {
    await web.getByRole("button", { name: "Add secret" }).click();
    const use = web.getByRole("group").nth(place);
    await choose(use.getByLabel("Secret", { exact: true }), place % 2 === 0 ? "FIRST" : "SECOND");
    await choose(use.getByLabel("Sent as"), way);
    if (label !== null) await use.getByLabel(label, { exact: true }).fill(name);
    await use.getByLabel("Only to these hosts").fill("api.example.com:8443");
    await use.getByLabel("Paths").fill("/v1/*, /v2/*");
    await use.getByLabel("Only with these methods").fill("get, post");
  }

  await page.getByRole("switch", { name: "Send webhooks" }).click();
  const webhooks = page.getByRole("region", { name: "Send webhooks" });
  await webhooks.getByLabel("Addresses").fill("https://example.com/one\nhttps://example.com/two");
  await choose(webhooks.getByLabel("Signed with"), "SECOND");
  await webhooks.getByLabel("Most calls per run").fill("2");
  await webhooks.getByRole("switch", { name: "Strict safety for answers" }).click();

  await page.getByRole("switch", { name: "Use MCP servers" }).click();
  const mcp = page.getByRole("region", { name: "Use MCP servers" });
  await mcp.getByLabel("Name").fill("calendar");
  await mcp.getByLabel("Address").fill("https://mcp.example.com/mcp");
  await mcp.getByLabel("Only these tools").fill("list, find");
  await choose(mcp.getByLabel("Before a call"), "Never ask");
  await mcp.getByRole("button", { name: "Add exception for a tool" }).click();
  await mcp.getByLabel("Tool", { exact: true }).fill("add");
  await mcp.getByLabel("Seconds for one call").fill("120");
  await mcp.getByRole("button", { name: "Add secret" }).click();
  await choose(mcp.getByLabel("Secret", { exact: true }), "FIRST");
  await mcp.getByLabel("Most calls per run").fill("9");
  await page.getByRole("button", { name: "Create agent" }).click();
  await page.getByRole("heading", { name: "Well equipped", level: 1 }).waitFor();

  const {
    agents: [agent],
  } = await person("GET", "/agents");
  const bound = { hosts: ["api.example.com:8443"], paths: ["/v1/*", "/v2/*"], methods: ["GET", "POST"] };
  const wanted = {
    web_fetch: {
      enabled: true,
      hosts: ["example.com", "*.example.org"],
      methods: ["GET", "POST"],
      max_calls: 7,
      safety: "strict",
      auth: WAYS.map(([, , , inject], place) => ({ secret: place % 2 === 0 ? "FIRST" : "SECOND", ...bound, inject })),
    },
    send_webhook: {
      enabled: true,
      urls: ["https://example.com/one", "https://example.com/two"],
      secret: "SECOND",
      max_calls: 2,
      safety: "strict",
    },
    mcp: {
      enabled: true,
      max_calls: 9,
      servers: [
        {
          name: "calendar",
          url: "https://mcp.example.com/mcp",
          tools: ["list", "find"],
          permission_policy: "always_allow",
          tool_permission_policies: { add: "always_ask" },
          timeout_seconds: 120,
          auth: { secret: "FIRST", inject: { type: "bearer" } },
        },
      ],
    },
  };
  expect(agent.tools_config).toEqual(wanted);

  await page.getByRole("link", { name: "Edit" }).click();
  await unfoldAll(page);
  await page.getByLabel("Description").fill("changed");
  await page.getByRole("button", { name: "Save agent" }).click();
  await shows(page, "changed");
  await page.getByRole("link", { name: "Settings" }).click();
  await shows(page, "reads example.com, *.example.org");
  await shows(page, "uses list, find of calendar (never asks; add always asks)");
  const again = await person("GET", `/agents/${agent.id}`);
  expect(again).toMatchObject({ description: "changed", tools_config: wanted });
});

it("a field's error is shown at the field, which gets the focus", async () => {
  await signUp(context, service, "wrong-fields@example.com");
  const gone = await secret("GONE");
  const auth = [{ secret: "GONE", hosts: ["api.example.com"], inject: { type: "header", name: "X-Api-Key" } }];
  const { id } = await person("POST", "/agents", {
    name: "Reader",
    auto_route: true,
    tools_config: { web_fetch: { enabled: true, auth } },
  });
  await person("POST", "/secrets", { name: "STAYS", value: "a value" });
  await person("DELETE", `/secrets/${gone.id}`);
  await page.goto(`${service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  const use = page.getByRole("group", { name: "Secret" });
  await shows(page, "This secret does not exist");
  const save = page.getByRole("button", { name: "Save agent" });
  // A save sends, and checks, only what was changed.
  await use.getByLabel("Paths", { exact: true }).fill("/v1");
  /** Each field with a wrong value, its error, and a right value. */
  const mistakes = [
    ["Secret", null, /GONE/, "STAYS"],
    ["Header", "Host", /header/i, "X-Api-Key"],
    ["Only to these hosts", "api.example.com, https://x", /host/, "api.example.com"],
    ["Paths", "/v1, v2", /\//, "/v1"],
    ["Only with these methods", "GET, BREW", /GET/, "GET"],
  ] as const;
  for (const [label, given, said, right] of mistakes) {
    const field = use.getByLabel(label, { exact: true });
    if (given !== null) await field.fill(given);
    await save.click();
    await expect.poll(() => field.getAttribute("aria-invalid"), { message: label }).toBe("true");
    expect(await use.locator(`#${await field.getAttribute("id")}-error`).textContent(), label).toMatch(said);
    await expect
      .poll(() => field.evaluate((element) => element === document.activeElement), { message: label })
      .toBe(true);
    await (label === "Secret" ? choose(field, right) : field.fill(right));
  }
  await save.click();
  await page.getByRole("heading", { name: "Reader", level: 1 }).waitFor();
});

it("an agent's model settings can be set and cleared in the editor, and an error in one is shown at its field", async () => {
  await signUp(context, service, "model-settings@example.com");
  const kept = { temperature: 0.7, top_p: 0.9, reasoning_effort: "low", max_output_tokens: 500 };
  const { id } = await person("POST", "/agents", { name: "Tuned", auto_route: true, model_settings: kept });
  await page.goto(`${service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  const save = page.getByRole("button", { name: "Save agent" });
  expect(await page.getByLabel("Temperature").inputValue()).toBe("0.7");
  expect(await page.getByLabel("Reasoning effort").textContent()).toContain("low");
  const mistakes = [
    ["Temperature", "2.5", "1.5"],
    ["Top p", "1.5", ""],
    ["Most output tokens per call", "0.5", "4000"],
  ] as const;
  for (const [label, wrong, right] of mistakes) {
    const field = page.getByLabel(label);
    await field.fill(wrong);
    await save.click();
    await expect.poll(() => field.getAttribute("aria-invalid")).toBe("true");
    expect(await page.locator(`#${await field.getAttribute("id")}-error`).textContent()).not.toBe("");
    expect(await field.evaluate((element) => element === document.activeElement), `${label} has the focus`).toBe(true);
    await field.fill(right);
  }
  await choose(page.getByLabel("Reasoning effort"), "high");
  await save.click();
  await page.getByRole("heading", { name: "Tuned", exact: true, level: 1 }).waitFor();
  const set = { temperature: 1.5, top_p: null, reasoning_effort: "high", max_output_tokens: 4000 };
  expect((await person("GET", `/agents/${id}`)).model_settings).toEqual(set);
  await page.getByRole("link", { name: "Settings", exact: true }).click();
  await shows(page, "high reasoning effort, temperature 1.5, at most 4,000 output tokens a call");

  await page.goto(`${service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Temperature").fill("");
  await page.getByLabel("Most output tokens per call").fill("");
  await choose(page.getByLabel("Reasoning effort"), "The model's default");
  await save.click();
  await page.getByRole("heading", { name: "Tuned", exact: true, level: 1 }).waitFor();
  const none = { temperature: null, top_p: null, reasoning_effort: null, max_output_tokens: null };
  expect((await person("GET", `/agents/${id}`)).model_settings).toEqual(none);
});

it("the preview of a schedule explains the runs on days when the clocks change", async () => {
  await signUp(context, service, "clocks@example.com");
  await page.clock.setFixedTime("2026-03-27T12:00:00Z");
  const { id } = await person("POST", "/agents", { name: "Night", model_id: "purser/rehearsal" });
  await page.goto(`${service.url}/agents/${id}?tab=schedule`);
  await page.getByRole("button", { name: "Add schedule" }).click();
  await page.getByLabel("Time", { exact: true }).fill("02:30");
  await pick(page.getByLabel("Time zone"), "Europe/Berlin");
  const runs = page.getByRole("listitem").filter({ hasText: "in UTC" });
  expect(await runs.allTextContents()).toEqual([
    expect.stringMatching(/^Sat,? 28 Mar, 02:30.*28 Mar, 01:30 in UTC$/),
    expect.stringMatching(/^Sun,? 29 Mar, 03:30.*29 Mar, 01:30 in UTC.+/), // 02:30 does not exist that night, and a note says so
    expect.stringMatching(/^Mon,? 30 Mar, 02:30.*30 Mar, 00:30 in UTC$/),
    expect.stringMatching(/^Tue,? 31 Mar, 02:30/),
    expect.stringMatching(/^Wed,? 1 Apr, 02:30/),
  ]);
});

it("the operator can find, create, grant tokens to, suspend and erase users, move the test clock and run an audit", async () => {
  await service.newUser();
  await signUp(context, service, "operates@example.com");
  await becomeOperator(context, service);
  await page.goto(`${service.url}/operator/users`);

  await page.getByRole("button", { name: "New user" }).click();
  await page.getByLabel("E-mail").fill("grace@example.com");
  await page.getByRole("switch", { name: "With a trial" }).click();
  await page.getByRole("button", { name: "Create user" }).click();
  const key = await page.getByRole("textbox", { name: "First API key" }).inputValue();
  await page.getByRole("button", { name: "I have copied it" }).click();
  const grace = service.as(key);

  await page.getByRole("searchbox", { name: "Find users" }).fill("GRACE@");
  const users = page.getByRole("table");
  await users.getByRole("row", { name: /user1@example.com/ }).waitFor({ state: "detached" });
  const row = users.getByRole("row", { name: /grace@example.com/ });
  const act = async (act: string) => {
    await row.getByRole("button").click();
    await page.getByRole("menuitem", { name: act }).click();
  };
  const confirm = async (act: string) => {
    await page.getByRole("dialog").getByRole("button", { name: act, exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await act("Grant tokens");
  await page.getByLabel("Tokens", { exact: true }).fill("1000");
  await confirm("Grant tokens");
  await row.getByRole("cell", { name: "1,000", exact: true }).waitFor();
  await act("Give a plan");
  await choose(page.getByLabel("Plan", { exact: true }), "Pro · 55,000,000 per month");
  await confirm("Give plan");
  await row.getByRole("cell", { name: "55,001,000" }).waitFor();

  await act("Suspend user");
  await page.getByLabel("Reason").fill("Unpaid");
  await confirm("Suspend user");
  await row.getByText("suspended").waitFor();
  expect((await grace.get("/api/v1/users/me")).status).toBe(403);
  await act("Resume user");
  await confirm("Resume user");
  await row.getByText("suspended").waitFor({ state: "detached" });
  expect((await grace.get("/api/v1/users/me")).status).toBe(200);
  await page.getByRole("link", { name: "Acts" }).click();
  await page.getByRole("row", { name: /Suspended a user.*grace@example.com.*Unpaid/ }).waitFor();

  await page.getByRole("link", { name: "Settings" }).click();
  await shows(page, "2026-03-01T09:00:00");
  await page.getByRole("button", { name: "+1 day" }).click();
  // Time ends the confirmation: the page asks for the password, and goes on.
  const confirmPassword = async () => {
    await page.getByRole("dialog", { name: "Confirm your password" }).getByLabel("Password").fill(PASSWORD);
    await confirm("Confirm password");
  };
  await confirmPassword();
  await shows(page, "2026-03-02T09:00:00");
  await page.getByLabel("New time").fill("2026-04-02T10:30");
  await page.getByRole("button", { name: "Set clock" }).click();
  // The session has ended too.
  await page.getByLabel("E-mail").fill("operates@example.com");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await confirmPassword();
  await shows(page, "2026-04-02T10:30:00");
  await page.getByRole("link", { name: "Users" }).click();
  await page.getByRole("searchbox", { name: "Find users" }).fill("grace@");
  await page.waitForURL(/search=grace/); // the list of before has her row too, and the new one closes its dialog
  await row.getByRole("cell", { name: "110,001,000" }).waitFor(); // the plan was renewed meanwhile

  await act("Erase user");
  const erase = page.getByRole("dialog").getByRole("button", { name: "Erase user" });
  expect(await erase.isDisabled()).toBe(true);
  await page.getByLabel("To confirm, type the e-mail address").fill("grace@example.com");
  await confirm("Erase user");
  await shows(page, "No users match this search");
  expect((await grace.get("/api/v1/users/me")).status).toBe(401);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("button", { name: "Run audit" }).click();
  await shows(page, "All balances match the ledger.");
});

it("leaving an agent with unsaved changes asks before it discards them", async () => {
  await signUp(context, service, "unsaved@example.com");
  const { id } = await person("POST", "/agents", { name: "Reader", auto_route: true });
  await page.goto(`${service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByLabel("Description").fill("not saved yet");
  await page.getByRole("link", { name: "Home" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep editing" }).click();
  expect(await page.getByLabel("Description").inputValue()).toBe("not saved yet");
  await page.getByRole("link", { name: "Home" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard changes" }).click();
  await page.getByRole("heading", { name: "Home", level: 1 }).waitFor();
});

it("a downgrade shows its date and the new plan, and is cancelled by keeping the plan; a cancelled plan ends without a new one", async () => {
  await signUp(context, service, "downgrade@example.com");
  await person("POST", "/billing/subscription", { plan_id: "pro" });
  await person("POST", "/billing/subscription", { plan_id: "starter" });
  await page.goto(`${service.url}/billing?tab=plans`);
  await shows(page, "changes to Starter on");
  expect(await page.getByRole("button", { name: "Next plan: Starter" }).isDisabled()).toBe(true);
  await page.getByRole("button", { name: "Keep plan: Pro" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep plan" }).click();
  await shows(page, "renews on");
  expect((await person("GET", "/billing/subscription")).pending_plan_id).toBeNull();
  await person("POST", "/billing/subscription", { plan_id: "starter" });
  await person("DELETE", "/billing/subscription");
  await page.reload();
  await shows(page, "ends on");
  expect(await page.getByText("changes to Starter").count()).toBe(0);
});

it("the page says that payments are a sandbox before any purchase, and without payments it sells nothing", async () => {
  await signUp(context, service, "sandbox@example.com");
  await page.goto(service.url);
  await shows(page, "Purchases move no money.");
  await page.goto(`${service.url}/billing?tab=plans`);
  await page.getByRole("button", { name: "Subscribe: Starter" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Subscribe" }).click();
  await shows(page, "renews on");

  const cookies = await context.cookies(service.url);
  await service.restart({ PURSER_PAYMENTS: "none" });
  await context.addCookies(cookies.map(({ name, value }) => ({ name, value, url: service.url })));
  await page.goto(`${service.url}/billing?tab=plans`);
  await shows(page, "You cannot buy tokens here");
  expect(await page.getByRole("button", { name: "Buy tokens" }).isDisabled()).toBe(true);
  expect(await page.getByText("Purchases move no money.").count()).toBe(0);
});

it("a person signs up by a link and sets the password on its page; another spelling of the same mailbox gets no trial, and the page says so", async () => {
  await service.restart({ HOST: "0.0.0.0" });
  const signUpByLink = async (email: string) => {
    await context.clearCookies();
    await page.goto(`${service.url}/sign-up`);
    await page.getByText("You set your password on its page").waitFor();
    expect(await page.getByLabel("Password").count()).toBe(0);
    await page.getByLabel("E-mail").fill(email);
    await page.getByRole("button", { name: "Create account" }).click();
    await page.getByText("The operator finds your link in the service's log").waitFor();
    const { pathname, hash } = new URL(service.linkTo(email) ?? "");
    await page.goto(`${service.url}${pathname}${hash}`);
    await page.getByRole("heading", { name: "Set your password" }).waitFor();
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Set the password and enter" }).click();
  };
  await signUpByLink("linked@example.com");
  await page.getByRole("heading", { name: "Home" }).waitFor();
  await signUpByLink("linked+again@example.com");
  await page.getByRole("heading", { name: "Your account has no trial" }).waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
  expect((await asPerson(context, service, "GET", "/users/me")).token_balance).toBe(0);
  await service.restart();
});

it("a person with a confirmed address has their notices mailed", async () => {
  const mails = await startMailServer();
  await service.restart({ SMTP_URL: mails.url });
  await context.clearCookies();
  await page.goto(`${service.url}/sign-up`);
  await page.getByLabel("E-mail").fill("mailed@example.com");
  await page.getByRole("button", { name: "Create account" }).click();
  await expect.poll(() => mails.to("mailed@example.com").length).toBe(1);
  await page.goto(mails.received[0]?.link ?? "");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Set the password and enter" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
  await page.goto(`${service.url}/developers/webhooks`);
  await page.getByRole("button", { name: "New endpoint" }).first().click();
  await choose(page.getByLabel("Send to"), "My e-mail address (mailed@example.com)");
  await page.getByRole("button", { name: "Create endpoint" }).click();
  await page.getByRole("heading", { name: "mailed@example.com", exact: true }).waitFor();
  await service.restart();
  await mails.stop();
});
