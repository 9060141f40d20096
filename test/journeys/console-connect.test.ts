import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { sharedChromium } from "../support/chromium.ts";
import { asPerson, choose, signUp, unfoldAll } from "../support/console.ts";
import { answerAsMcp, mcpTool } from "../support/mcp-messages.ts";
import { type OAuthServer, startOAuthServer } from "../support/oauth-server.ts";
import { type Service, startService } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";

let browser: Browser;
let service: Service;
let oauth: OAuthServer;
/** An MCP server. */
let harbour: Site;
let context: BrowserContext;
let page: Page;

beforeAll(async () => {
  oauth = await startOAuthServer();
  const claims = [true, false].map((readOnlyHint) => ({ annotations: { readOnlyHint } }));
  const tools = [mcpTool("berths", claims[0]), mcpTool("moor", claims[1])];
  harbour = await startSite({
    "/mcp": (_request, response) =>
      answerAsMcp(response, harbour.requests.at(-1)?.body ?? "", { tools, onCall: () => {} }),
  });
  const env = { PURSER_EGRESS_ALLOW: `${oauth.site.host},${harbour.host}` };
  [browser, service] = await Promise.all([sharedChromium(), startService({ env })]);
});
afterAll(async () => {
  await service?.stop();
  await oauth?.site.close();
  await harbour?.close();
});
beforeEach(async () => {
  context = await browser.newContext({
    permissions: ["clipboard-read", "clipboard-write"],
    reducedMotion: "reduce",
  });
  page = await context.newPage();
});
afterEach(() => context.close());

const person = (method: string, path: string, body?: unknown) => asPerson(context, service, method, path, body);

const PROGRAMS = [
  ...["curl", "TypeScript", "Python", "Codex", "Claude Code", "opencode", "LangChain", "n8n"],
  ...["Anthropic SDK", "AI SDK"],
];
const openProgram = (name: string) =>
  page.getByRole("navigation", { name: "Programs" }).getByRole("link", { name, exact: true }).click();
const blocks = async () => (await page.locator("main pre").allTextContents()).join("\n");

/** Creates a key on the keys page and returns it. The dialog stays open. */
async function createKey(): Promise<string> {
  await page.getByRole("link", { name: "Developers" }).click();
  await page.getByRole("button", { name: "New key" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("Laptop");
  await page.getByRole("button", { name: "Create API key" }).click();
  return page.getByLabel("API key", { exact: true }).inputValue();
}

it("the API reference shows the endpoints that have all words of a search, and its page allows its own script only", async () => {
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  await page.goto(`${service.url}/docs`);
  const shown = page.locator("article:visible");
  const all = await shown.count();
  await page.getByRole("searchbox").fill("schedules pause");
  expect(await shown.count()).toBeLessThan(all / 4);
  await page.getByText("/agents/{id}/schedules/{schedule_id}/pause").last().waitFor();
  await page.getByRole("searchbox").fill("");
  expect([await shown.count(), complaints]).toEqual([all, []]);
});

it("a new key is in the snippets of every program, and the copied command works", async () => {
  await signUp(context, service, "connect@example.com");
  await page.goto(`${service.url}/developers/keys`);
  const key = await createKey();
  await page.getByRole("button", { name: "Connect a program" }).click();
  await page.getByRole("heading", { name: "Connect", level: 1 }).waitFor();
  for (const name of PROGRAMS) {
    await openProgram(name);
    await page.getByRole("heading", { name, level: 2 }).waitFor();
    expect(await blocks(), name).toContain(key);
    expect(await blocks(), name).toContain(`${service.url}/api`);
  }
  await openProgram("curl");
  await page.getByRole("button", { name: "Copy Shell" }).click();
  await page.getByText("Shell copied.").waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  const { stdout } = await promisify(execFile)("bash", ["-c", command]);
  expect(JSON.parse(stdout).choices[0].message.content).toBe("hello");
});

it("the key of the snippets is stored nowhere, and is gone after a reload, on another page and after signing out", async () => {
  await signUp(context, service, "forgotten@example.com");
  await page.goto(`${service.url}/developers/keys`);
  const connect = async () => {
    const key = await createKey();
    await page.getByRole("button", { name: "Connect a program" }).click();
    await page.getByText("The snippets contain your new key.").waitFor();
    expect(await blocks()).toContain(key);
    return key;
  };
  const expectForgotten = async (key: string) => {
    await page.getByText("Replace YOUR_API_KEY with an API key.").waitFor();
    expect(await blocks()).toContain("YOUR_API_KEY");
    expect(await page.content()).not.toContain(key);
  };
  const key = await connect();
  const stored = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href, document.cookie]),
  );
  expect(stored).not.toContain(key);
  await page.reload();
  await expectForgotten(key);

  await page.getByRole("button", { name: "Create a key here" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Here");
  await page.getByRole("button", { name: "Create API key" }).click();
  await page.getByText("The snippets contain your new key.").waitFor();
  const [second = ""] = /purser_live_\w+/.exec(await blocks()) ?? [];
  expect(second).not.toBe("");
  await page.getByRole("link", { name: "Notices" }).first().click();
  await page.getByRole("heading", { name: "Notices", level: 1 }).waitFor();
  await page.goBack();
  await expectForgotten(second);

  const third = await connect();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Purser" }).waitFor();
  await page.goBack();
  expect(await page.content()).not.toContain(third);
});

it("a chosen model or agent is in the snippets and in the page's address", async () => {
  await signUp(context, service, "models@example.com");
  const agent = await person("POST", "/agents", { name: "Scout", model_id: "purser/rehearsal" });
  await page.goto(`${service.url}/developers/connect`);
  await openProgram("Codex");
  await choose(page.getByLabel("Model", { exact: true }), `Scout (agent/${agent.id})`);
  await page.getByText(`model = "agent/${agent.id}"`).waitFor();
  await page.reload();
  await page.getByText(`model = "agent/${agent.id}"`).waitFor();
  await page.getByRole("heading", { name: "Codex", level: 2 }).waitFor();
});

it("a person connects an MCP server's secret at its authorization server, and sees that it is connected", async () => {
  await signUp(context, service, "oauth@example.com");
  await page.goto(`${service.url}/vault`);
  await page.getByRole("button", { name: "New sign-in" }).click();
  await page.getByLabel("Name", { exact: true }).fill("BERTHS");
  await page.getByLabel("Address of the MCP server").fill(oauth.mcp);
  await page.getByRole("button", { name: "Save sign-in" }).click();
  await page.getByText("no token yet").last().waitFor();
  await page.getByRole("button", { name: "Connect", exact: true }).click();
  await page.getByText("BERTHS is connected.").waitFor();
  await page.getByRole("button", { name: "Connect again" }).waitFor();
  expect(await page.content()).not.toContain(oauth.tokens()[0]);
});

it("the owner sees what an MCP server claims about its tools, and chooses the tools that only read", async () => {
  await signUp(context, service, "harbour@example.com");
  const server = { name: "harbour", url: `${harbour.url}/mcp` };
  const tools_config = { mcp: { enabled: true, servers: [server] } };
  const { id } = await person("POST", "/agents", { name: "Pilot", model_id: "purser/rehearsal", tools_config });
  await page.goto(`${service.url}/agents/${id}/edit`);
  await unfoldAll(page);
  await page.getByRole("button", { name: "Show tools" }).click();
  const berths = page.getByRole("listitem").filter({ hasText: "berths" });
  await berths.getByText("The server says: only reads").waitFor();
  await page.getByRole("listitem").filter({ hasText: "moor" }).getByText("The server says: has effects").waitFor();
  await choose(page.getByLabel("berths"), "Never ask");
  await page.getByRole("button", { name: "Save agent" }).click();
  await page.getByRole("heading", { name: "Pilot", exact: true, level: 1 }).waitFor();
  const [saved] = (await person("GET", `/agents/${id}`)).tools_config.mcp.servers;
  expect(saved).toEqual({ ...server, tool_permission_policies: { berths: "always_allow" } });
});
