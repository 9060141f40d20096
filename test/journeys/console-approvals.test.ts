import type { BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { asPerson, choose, PASSWORD, signUp, unfoldAll, useConsole, violations } from "../support/console.ts";
import { CRM_MAIL, type Crm, startCrm } from "../support/crm.ts";
import { type MailServer, startMailServer } from "../support/mail-server.ts";
import { tokenOf } from "../support/sign-up.ts";
import { calling, completion, json, USAGE } from "../support/upstream.ts";

// An agent reads mail and asks before it adds a contact: the mail, the page on a phone, the inbox, the run's page.

let crm: Crm;
const site = useConsole(async () => {
  crm = await startCrm();
  return { PURSER_EGRESS_ALLOW: crm.host };
});
afterAll(() => crm.close());

let context: BrowserContext;
let page: Page;
const PHONE = { viewport: { width: 390, height: 844 } };
// The console's content security policy would reject axe, which is added to the page as a script.
async function open(options: BrowserContextOptions = PHONE) {
  await context?.close();
  ({ context, page } = await site.open({ locale: "en-GB", bypassCSP: true, ...options }));
  await context.addInitScript(() => {
    addEventListener("click", ({ detail }) => {
      // The Enter key clicks without a pointer.
      if (detail > 0) sessionStorage.setItem("clicks", String(Number(sessionStorage.getItem("clicks")) + 1));
    });
  });
}
const clicks = () => page.evaluate(() => Number(sessionStorage.getItem("clicks")));
beforeEach(async () => {
  await open();
  crm.contacts.length = 0;
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, site.service, method, path, body);
const ADA = { name: "Ada Lovelace", phone: "0123 456" };

const servers = (policy?: string) => [
  { name: "mail", url: crm.mail_url, permission_policy: "always_allow" },
  { name: "crm", url: crm.crm_url, ...(policy !== undefined && { permission_policy: policy }) },
];
async function create(name = "Contact keeper", policy?: string): Promise<string> {
  const tools_config = { mcp: { enabled: true, servers: servers(policy) } };
  const agent = { name, model_id: "lab/small", run_prompt: "Read the mail and add the senders.", tools_config };
  return (await person("POST", "/agents", agent)).id;
}
/** A run that will ask before it adds a contact, and the address of its page. Its model answers after `opened`. */
async function started(agent: string, contact: object, opened?: Promise<void>) {
  const read = calling("mail__list_mail", {});
  site.upstream.answer(
    async (response, request) => {
      await opened;
      return read(response, request);
    },
    calling("crm__create_contact", contact),
    completion("The sender is in the CRM."),
  );
  const { id } = await person("POST", `/agents/${agent}/runs`);
  const path = `/agents/${agent}/runs/${id}`;
  return { path, get: () => person("GET", path) };
}
type Run = Awaited<ReturnType<typeof started>>;
/** The same, once it waits. */
async function waiting(agent: string, contact: object = ADA): Promise<Run> {
  const run = await started(agent, contact);
  await expect.poll(async () => (await run.get()).status).toBe("requires_action");
  return run;
}
const decidePage = async ({ path }: Run) => {
  await page.goto(`${site.service.url}${path}/decide`);
  await page.getByRole("heading", { name: "Contact keeper asks you" }).waitFor();
};
const button = (name: string) => page.getByRole("button", { name, exact: true });
/** The run goes on, and the CRM has exactly these contacts. */
async function added(run: Run, contacts: object[]) {
  await expect.poll(async () => (await run.get()).status).toBe("succeeded");
  expect(crm.contacts).toEqual(contacts);
}
/** Nothing is cut off at the sides of the page, and axe finds nothing. */
async function looksRight() {
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  expect(await violations(page)).toEqual([]);
}

it("the page of a call on a phone shows the call, why it asks, what the agent had read, what it spent and until when, and one click approves it", async () => {
  await signUp(context, site.service, "phone@example.com");
  const run = await waiting(await create());
  await decidePage(run);
  const card = page.getByRole("article", { name: "Call crm__create_contact" });
  const shown = card.locator("dl");
  for (const text of Object.values(ADA)) await shown.getByText(text, { exact: true }).waitFor();
  await card.getByText(/can change something, and this run has read content from outside: mail__list_mail/).waitFor();
  await card.getByText(/^Spent so far: \d+ tokens, worth .* · expires tomorrow|in 24 hours$/).waitFor();
  const read = card.getByRole("figure").filter({ hasText: "Text from outside, from mail__list_mail (step 2)" });
  expect(await read.getByRole("blockquote").innerText()).toBe(CRM_MAIL);
  expect(await read.locator("mark").allTextContents()).toEqual([ADA.name, ADA.phone]);
  await looksRight();
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(() => violations(page, "contrast")).toEqual([]);
  // Opening the page has decided nothing.
  expect((await run.get()).status).toBe("requires_action");
  await button("Approve call").click();
  await page.getByText("Nothing waits for your decision").waitFor();
  await page
    .getByRole("list", { name: "Decisions" })
    .getByText(/approved/)
    .waitFor();
  expect(await clicks()).toBe(1);
  await added(run, [ADA]);
  await looksRight();
});

it("an edited call is sent exactly as it was edited, by fields or as JSON, and JSON that is none is not sent", async () => {
  await signUp(context, site.service, "edit@example.com");
  const agent = await create();
  const run = await waiting(agent);
  await decidePage(run);
  await button("Edit call").click();
  await page.getByLabel("phone").fill("0123\n457");
  await looksRight();
  await button("Approve edited call").click();
  await page.getByText("Nothing waits for your decision").waitFor();
  await added(run, [{ ...ADA, phone: "0123\n457" }]);

  const next = await waiting(agent);
  await decidePage(next);
  await button("Edit call").click();
  await button("Write the arguments as JSON").click();
  const json = page.getByRole("textbox", { name: "Arguments as JSON" });
  await json.fill('{"name": "Ada"');
  await button("Approve edited call").click();
  expect(await json.evaluate((area: HTMLTextAreaElement) => area.validationMessage)).toContain("not JSON");
  await json.fill('{"name": 7}');
  await button("Approve edited call").click();
  await page.getByRole("dialog").getByText("Arguments as JSON: name must be string.").first().waitFor();
  await json.fill('{"name": "Ada"}');
  await button("Approve edited call").click();
  await page.getByText("Nothing waits for your decision").waitFor();
  await added(next, [{ ...ADA, phone: "0123\n457" }, { name: "Ada" }]);
  await page.getByText("approved with changes").waitFor();
});

it("a double click approves the call that it was meant for, and not the next one, which moves to its place", async () => {
  await open({ viewport: { width: 390, height: 2000 } });
  await signUp(context, site.service, "double@example.com");
  const call = (name: string) => ({
    id: name,
    type: "function",
    function: { name: "crm__create_contact", arguments: JSON.stringify({ name }) },
  });
  const asks = { role: "assistant", content: null, tool_calls: [call("Ada"), call("Grace")] };
  const choices = [{ index: 0, message: asks, finish_reason: "tool_calls" }];
  const agent = await create("Contact keeper", "always_ask");
  site.upstream.answer(
    json({ id: "c", object: "chat.completion", created: 1, model: "small", choices, usage: USAGE }),
    completion("Both are in the CRM."),
  );
  const { id } = await person("POST", `/agents/${agent}/runs`);
  const path = `/agents/${agent}/runs/${id}`;
  const run = { path, get: () => person("GET", path) };
  await expect.poll(async () => (await run.get()).required_actions.length).toBe(2);
  await decidePage(run);
  const first = page.getByRole("button", { name: "Approve call" }).first();
  const { x = 0, y = 0 } = (await first.boundingBox()) ?? {};
  await page.mouse.click(x + 80, y + 16);
  await page.getByRole("article").nth(1).waitFor({ state: "detached" });
  const beneath = await page.evaluate(
    ([x = 0, y = 0]) => document.elementFromPoint(x, y)?.textContent,
    [x + 80, y + 16],
  );
  expect(beneath).toBe("Approve call");
  await page.mouse.click(x + 80, y + 16);
  await expect.poll(() => button("Approve call").isEnabled()).toBe(true);
  expect(await run.get()).toMatchObject({ status: "requires_action", decisions: [{ arguments: { name: "Ada" } }] });
  await button("Approve call").click();
  await added(run, [{ name: "Ada" }, { name: "Grace" }]);
});

it("the model reads why a call was rejected, and the call is not made", async () => {
  await signUp(context, site.service, "reject@example.com");
  const run = await waiting(await create());
  await decidePage(run);
  await button("Reject call").click();
  await page.getByLabel("Reason (optional)").fill("She is in the CRM already.");
  await looksRight();
  await page.getByRole("dialog").getByRole("button", { name: "Reject call" }).click();
  await page.getByText("Nothing waits for your decision").waitFor();
  await page.getByText("rejected", { exact: true }).waitFor();
  await added(run, []);
  expect(JSON.stringify(site.upstream.requests.at(-1)?.body.messages)).toContain("She is in the CRM already.");
});

it("a call that was decided elsewhere is answered in words, and the page shows what holds", async () => {
  await signUp(context, site.service, "late@example.com");
  const run = await waiting(await create());
  await decidePage(run);
  const [{ id }] = (await run.get()).required_actions;
  await person("POST", `${run.path}/actions/${id}`, { decision: "reject" });
  await button("Approve call").click();
  await page.getByRole("alert").getByText("This was decided before, or its time is over.").waitFor();
  await page.getByText("Nothing waits for your decision").waitFor();
  await added(run, []);
});

it("Home begins with what waits, by agent and newest first, and the keyboard alone decides it", async () => {
  await open({ viewport: { width: 1280, height: 850 } });
  await signUp(context, site.service, "inbox@example.com");
  const [one, other] = [await create("First"), await create("Second")];
  const oldest = await waiting(one);
  const middle = await waiting(other, { name: "Grace Hopper" });
  const newest = await waiting(one, { name: "Mary Somerville" });
  await page.goto(site.service.url);
  const inbox = page.getByRole("region", { name: "Decisions" });
  await inbox.getByRole("heading", { name: "3 runs wait for your decision" }).waitFor();
  expect(await inbox.getByRole("heading", { level: 3 }).allTextContents()).toEqual(["First", "Second"]);
  const names = await inbox
    .getByRole("article")
    .getByText(/Ada|Grace|Mary/)
    .allTextContents();
  expect(names).toEqual(["Mary Somerville", ADA.name, "Grace Hopper"]);
  await looksRight();

  const press = async (name: string, key: string) => {
    for (let tabs = 0; tabs < 80; tabs += 1) {
      await page.keyboard.press("Tab");
      if ((await page.evaluate(() => document.activeElement?.textContent)) === name) return page.keyboard.press(key);
    }
    throw new Error(`Tab does not reach ${name}`);
  };
  await press("Approve call", "Enter");
  await inbox.getByRole("heading", { name: "2 runs wait for your decision" }).waitFor();
  await added(newest, [{ name: "Mary Somerville" }]);
  await page.reload();
  await inbox.getByRole("heading", { name: "2 runs wait for your decision" }).waitFor();
  await press("Reject call", "Enter");
  await page.keyboard.type("Not her.");
  await press("Reject call", "Enter");
  await inbox.getByRole("heading", { name: "1 run waits for your decision" }).waitFor();
  await expect.poll(async () => (await middle.get()).decisions[0]?.reason_given).toBe("Not her.");
  expect((await oldest.get()).status).toBe("requires_action");
  expect(await clicks()).toBe(0);
});

it("the page of a run begins to show what it asks by itself, beside the text that the agent had read, and then who decided it and when", async () => {
  await open({ viewport: { width: 1280, height: 850 } });
  await signUp(context, site.service, "run@example.com");
  const agent = await create();
  const opened = Promise.withResolvers<void>();
  const run = await started(agent, ADA, opened.promise);
  await page.goto(site.service.url + run.path);
  await page.getByText("running", { exact: true }).first().waitFor();
  opened.resolve();
  const card = page.getByRole("article", { name: "Call crm__create_contact" });
  const [call, read] = await Promise.all([card.locator("dl").boundingBox(), card.getByRole("figure").boundingBox()]);
  expect(read?.x).toBeGreaterThan((call?.x ?? 0) + (call?.width ?? 0));
  await looksRight();
  await page.goto(`${site.service.url}/runs?status=requires_action`);
  await page.getByRole("main").getByText("waits for you", { exact: true }).first().waitFor();
  await page.goBack();
  await button("Approve call").click();
  const steps = page.getByRole("region", { name: "Steps" });
  await steps.getByText(/by run@example\.com$/).waitFor();
  await expect
    .poll(() => steps.getByRole("heading", { level: 3 }).allTextContents())
    .toEqual([
      "Step 1, lab/small",
      "Step 2, mail__list_mail",
      "Step 3, lab/small",
      "Step 4, crm__create_contact",
      "Step 5, lab/small",
    ]);
  const order = await steps.getByRole("listitem").allInnerTexts();
  expect(order.findIndex((text) => text.startsWith("Call crm__create_contact"))).toBe(3);
  await looksRight();
});

it("a chat shows the call that it waits for, also after a reload, and its answer after the approval", async () => {
  await signUp(context, site.service, "chat@example.com");
  const agent = await create();
  site.upstream.answer(
    calling("mail__list_mail", {}),
    calling("crm__create_contact", ADA),
    completion("The sender is in the CRM."),
  );
  await page.goto(`${site.service.url}/agents/${agent}/chat`);
  await page.getByLabel("Your message").fill("Add whoever wrote.");
  await button("Send").click();
  await page.getByRole("article", { name: "Call crm__create_contact" }).waitFor();
  await looksRight();
  await page.reload();
  await page.getByRole("log").getByText("Add whoever wrote.").waitFor();
  const link = page.getByRole("link", { name: "See what the agent had read before" });
  expect(await link.getAttribute("href")).toMatch(/\/decide$/);
  expect(crm.contacts).toEqual([]);
  await button("Approve call").click();
  await page.getByText("The sender is in the CRM.").waitFor();
  await link.waitFor({ state: "detached" });
  expect(crm.contacts).toEqual([ADA]);
});

it("a run without tokens says what it needs, goes on with more for this run or a raised limit, and can be stopped", async () => {
  await signUp(context, site.service, "budget@example.com");
  site.upstream.answer(completion("Done."));
  const limits = { max_cost_tokens_per_run: 200 };
  const made = { name: "Contact keeper", model_id: "lab/small", run_prompt: "Go.", on_budget: "ask", limits };
  const agent = (await person("POST", "/agents", made)).id;
  const start = async () => {
    const { id } = await person("POST", `/agents/${agent}/runs`);
    const path = `/agents/${agent}/runs/${id}`;
    const get = () => person("GET", path);
    await expect.poll(async () => (await get()).status).toBe("requires_action");
    await decidePage({ path, get });
    return { path, get };
  };
  const ends = (run: Run, status: string) => expect.poll(async () => (await run.get()).status).toBe(status);

  const more = await start();
  await page.getByText(/of its limit of 200 tokens, and its next model call needs [\d,]+ tokens/).waitFor();
  await looksRight();
  await button("Allow 200 more tokens").click();
  await page.getByRole("list", { name: "Decisions" }).getByText("approved").waitFor();
  await ends(more, "succeeded");

  const raised = await start();
  await page.getByRole("link", { name: "Raise the limit" }).click();
  await page.getByLabel("Tokens per run").fill("100000");
  await button("Save agent").click();
  await ends(raised, "succeeded");

  await person("PUT", `/agents/${agent}`, { limits });
  const stopped = await start();
  await button("Stop run").click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop run" }).click();
  await page.getByText("Nothing waits for your decision").waitFor();
  await ends(stopped, "failed");
});

it("the editor of an agent sets which tools ask and for how long, and a key that decides has its own right", async () => {
  await open({ viewport: { width: 1280, height: 850 } });
  await signUp(context, site.service, "editor@example.com");
  const agent = await create();
  await page.goto(`${site.service.url}/agents/${agent}/edit`);
  await unfoldAll(page);
  const server = page.getByRole("group", { name: "Server 2" });
  await choose(server.getByLabel("Before a call"), "Always ask");
  await server.getByRole("button", { name: "Show tools" }).click();
  await choose(server.getByLabel("find_contact"), "Never ask");
  await page.getByLabel("Hours to decide").fill("2");
  await choose(page.getByLabel("When a run has no tokens left"), "It waits and asks you");
  await looksRight();
  await button("Save agent").click();
  await page.getByRole("heading", { name: "Contact keeper", exact: true, level: 1 }).waitFor();
  const { approval_hours, on_budget, tools_config } = await person("GET", `/agents/${agent}`);
  expect({ approval_hours, on_budget }).toEqual({ approval_hours: 2, on_budget: "ask" });
  expect(tools_config.mcp.servers).toEqual([
    servers()[0],
    { ...servers()[1], permission_policy: "always_ask", tool_permission_policies: { find_contact: "always_allow" } },
  ]);

  await page.goto(`${site.service.url}/developers/keys`);
  await button("New key").first().click();
  await page.getByLabel("Name", { exact: true }).fill("Phone app");
  await page.getByLabel("Decides for you").click();
  await button("Create API key").click();
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  const { api_keys } = await person("GET", "/api-keys");
  expect(api_keys[0].scopes).toEqual(["chat:read", "chat:write", "agents:approve"]);
});

it("a mail about a call leads a person who is signed out to its page, and back to it after the sign-in: three clicks with the approval", async () => {
  const mails: MailServer = await startMailServer();
  await site.service.restart({ SMTP_URL: mails.url, PURSER_EGRESS_ALLOW: crm.host });
  const email = "mailed@example.com";
  const headers = { Origin: site.service.url };
  const auth = `${site.service.url}/api/v1/auth`;
  await context.request.post(`${auth}/sign-up/email`, { data: { email }, headers });
  await expect.poll(() => mails.to(email).length).toBe(1);
  const token = tokenOf(mails.to(email)[0]?.link);
  await context.request.post(`${auth}/verify-email`, { data: { token, password: PASSWORD }, headers });
  await person("POST", "/webhook-endpoints", { url: `mailto:${email}`, events: ["run.requires_action"] });
  const run = await waiting(await create());
  await expect.poll(() => mails.to(email).length).toBe(2);
  const link = mails.to(email)[1]?.link ?? "";
  expect(link).toBe(`${site.service.url}${run.path}/decide`);

  const { get } = run;
  const signed_in = await context.cookies();
  await context.clearCookies();
  await page.goto(link);
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(PASSWORD);
  await button("Sign in").click();
  await button("Approve call").click();
  await page.getByText("Nothing waits for your decision").waitFor();
  expect(await clicks()).toBeLessThanOrEqual(3);
  await context.addCookies(signed_in);
  await added({ ...run, get }, [ADA]);
  await mails.stop();
});
