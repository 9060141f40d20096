import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newConfig } from "../../../src/agents/definitions/agent-config.ts";
import { computeTaint } from "../../../src/agents/runs/tool-step.ts";
import { isUrlKnown } from "../../../src/agents/tools/destinations.ts";
import type { ToolsConfig, WebFetchSettings } from "../../../src/api/contract/tools.ts";
import { type Site, startSite } from "../../support/sites.ts";
import { aCall, toolsWith } from "../../support/tools.ts";

// contract 7, "After untrusted content has entered a run": every case of the rule.

const OWNER = "Read https://own.example/daily?day=1, then (https://own.example/b).";
const LINK = "https://page.example/next?a=1&b=2";
const tainted = { tainted: true, owner_text: OWNER, links: new Set([LINK, "http://page.example/plain"]) };

describe("once tainted, an address", () => {
  it.each([
    ["that the owner wrote", "https://own.example/daily?day=1", true],
    ["that the owner wrote, in brackets at a sentence's end", "https://own.example/b", true],
    ["that the owner wrote, with a fragment of the model's", "https://own.example/b#x", true],
    ["that the owner wrote, with capitals in its scheme and host", "HTTPS://OWN.EXAMPLE/b", true],
    ["that the owner wrote, with the scheme's own port", "https://own.example:443/b", true],
    ["that a page links to", LINK, true],
    ["that a page links to, with more in its query", `${LINK}&c=data`, false],
    ["that a page links to, its query in another order", "https://page.example/next?b=2&a=1", false],
    ["that a page links to, over https instead of http", "https://page.example/plain", false],
    ["that a page links to, with another path", "http://page.example/plain/data", false],
    ["that a page links to, with a user name", "http://data@page.example/plain", false],
    ["that a page links to, at a subdomain", "http://data.page.example/plain", false],
    ["that a page links to, at another port", "http://page.example:8080/plain", false],
    ["that a page links to, cut short", "http://page.example/plai", false],
    ["at the owner's host, with another path", "https://own.example/other", false],
    ["at the owner's host, with another query", "https://own.example/daily?day=2", false],
    ["that nobody named", "https://evil.example/", false],
  ])("%s: %s → %s", async (_what, url, known) => {
    expect(isUrlKnown(new URL(url), tainted, [])).toBe(known);
    expect(isUrlKnown(new URL(url), { ...tainted, tainted: false }, [])).toBe(true);
  });

  it.each([
    ["先读http://h/one，再读http://h/two。", ["http://h/one", "http://h/two"]],
    ["请看 http://h/one；http://h/two、http://h/three！", ["http://h/one", "http://h/two", "http://h/three"]],
    ["http://h/one,http://h/two", ["http://h/one", "http://h/two"]],
    ["http://h/one;http://h/two|http://h/three", ["http://h/one", "http://h/two", "http://h/three"]],
    ["| Berths | http://h/one|http://h/two|", ["http://h/one", "http://h/two"]],
    ["Berths,http://h/one,7\nQuays,http://h/two;8", ["http://h/one", "http://h/two"]],
    ["Lies „http://h/one“, «http://h/two» und “http://h/three”.", ["http://h/one", "http://h/two", "http://h/three"]],
    ["Read http://h/one—then http://h/two… or ‹http://h/three›", ["http://h/one", "http://h/two", "http://h/three"]],
    ["http://h/one을 읽고 http://h/two에서 찾아라", ["http://h/one", "http://h/two"]],
    ["อ่านhttp://h/oneแล้วhttp://h/twoครับ", ["http://h/one", "http://h/two"]],
    ["اقرأ http://h/one، ثم http://h/two؛ و(http://h/three)؟", ["http://h/one", "http://h/two", "http://h/three"]],
    ["קראhttp://h/one־ואז", ["http://h/one"]],
    ["पढ़ें http://h/one। फिर http://h/two॥", ["http://h/one", "http://h/two"]],
    ["まずhttp://h/oneを読んで（http://h/two）「http://h/three」", ["http://h/one", "http://h/two", "http://h/three"]],
    ["**http://h/one** _http://h/two_ ~~http://h/three~~", ["http://h/one", "http://h/two", "http://h/three"]],
    ["[berths](http://h/one)and <http://h/two>", ["http://h/one", "http://h/two"]],
    ["(see http://h/Dam_(river)).", ["http://h/Dam_(river)"]],
    ["http://h/日本。次に http://h/Zürich,dann", ["http://h/%E6%97%A5%E6%9C%AC", "http://h/Z%C3%BCrich"]],
    ["http://h。http://例え.test/一，", ["http://h/", "http://xn--r8jz45g.test/%E4%B8%80"]],
    ["https://archive.test/web/http://h/one,http://h/two", ["https://archive.test/web/http://h/one", "http://h/two"]],
    [
      "http://h/one&http://h/two+http://h/three→http://h/four",
      ["http://h/one", "http://h/two", "http://h/three", "http://h/four"],
    ],
    ["http://h/a,b;c|d", ["http://h/a,b;c|d", "http://h/a,b;c", "http://h/a,b", "http://h/a"]],
    ["HTTP://H/one.", ["http://h/one"]],
  ])("is the owner's although other characters touch it: %s", async (owner_text, urls) => {
    for (const url of urls)
      expect([url, isUrlKnown(new URL(url), { ...tainted, owner_text }, [])]).toEqual([url, true]);
    const other = new URL("http://h/o");
    expect(isUrlKnown(other, { ...tainted, owner_text }, [])).toBe(false);
  });

  it.each([
    ["at a listed host", "https://api.example/any?x=1", ["api.example"], true],
    ["at a listed host's subdomain", "https://a.api.example/", ["api.example"], false],
    ["at one label before a listed host", "https://a.api.example/", ["*.api.example"], true],
    ["at two labels before a listed host", "https://b.a.api.example/", ["*.api.example"], false],
    ["at a listed host, another port", "https://api.example:8443/", ["api.example"], false],
    ["at a host that ends like a listed one", "https://evilapi.example/", ["api.example"], false],
    ["with a listed host in its user name", "https://api.example@evil.example/", ["api.example"], false],
  ])("%s: %s", async (_what, url, hosts, known) => expect(isUrlKnown(new URL(url), tainted, hosts)).toBe(known));
});

describe("a run is tainted", () => {
  const config = newConfig({ name: "A", model_id: "m", run_prompt: "Do it" });
  const input = (messages: unknown) => ({ messages }) as Parameters<typeof computeTaint>[1];
  const step = (more: object) => [{ type: "tool", name: "web_fetch", safety: null, internal: null, ...more }] as never;
  const read = { verdict: { injected: false, score: 0 }, removed: [] };
  it.each([
    ["by nothing, at its beginning", input(null), [], false],
    ["not by the user's own message", input([{ role: "user", content: "hi" }]), [], false],
    ["by an assistant's message before it", input([{ role: "assistant", content: "x" }]), [], true],
    ["by a tool's message before it", input([{ role: "tool", content: "x", tool_call_id: "1" }]), [], true],
    ["by a tool's result", input(null), step({ safety: read }), true],
    ["by a failed call's result", input(null), step({ safety: read, status: "failed" }), true],
    ["not by a call that was refused", input(null), step({ status: "failed" }), false],
  ])("%s", (_what, given, steps, expected) => expect(computeTaint(config, given, steps).tainted).toBe(expected));

  it("and has the links of all pages, and as its owner's text only the owner's", () => {
    const steps = [...step({ internal: { links: [LINK] } }), ...step({ internal: { links: ["https://b.example/"] } })];
    const messages = [
      { role: "user", content: "mine" },
      { role: "assistant", content: "its" },
    ];
    const { links, owner_text } = computeTaint(config, input(messages), steps as never);
    expect([...links]).toEqual([LINK, "https://b.example/"]);
    expect(owner_text).toContain("mine");
    expect(owner_text).not.toContain("its");
  });
});

describe("with MCP servers, whose descriptions are in the first prompt", () => {
  let site: Site;
  beforeAll(async () => {
    site = await startSite({ "/": { body: "fine" }, "/own": { body: "fine" } });
  });
  afterAll(() => site.close());

  const fetched = async (
    url: string,
    { method = "GET", hosts, auth, mcp = true }: Partial<WebFetchSettings> & { method?: string; mcp?: boolean } = {},
  ) => {
    const tools_config: ToolsConfig = {
      web_fetch: { enabled: true, methods: ["GET", "POST"], ...(hosts && { hosts }), ...(auth && { auth }) },
      mcp: { enabled: mcp, servers: [{ name: "s", url: `${site.url}/mcp` }] },
    };
    const config = newConfig({ name: "A", model_id: "m", run_prompt: `Read ${site.url}/own`, tools_config });
    const taint = computeTaint(config, { messages: null } as never, []);
    const { tools } = toolsWith({ allow: [site.host], secrets: { KEY: "sk_live_0123456789" } });
    const { status, error } = await tools.call(aCall("web_fetch", { url, method }, { tools_config, taint }));
    return error?.code ?? status;
  };

  it("web_fetch refuses composed addresses from the start, and sends nothing to them", async () => {
    expect(await fetched(`${site.url}/?q=the-task`)).toBe("egress_refused");
    expect(await fetched(`${site.url}/own`, { method: "POST" })).toBe("egress_refused");
    expect(site.requests).toEqual([]);
  });

  it("web_fetch can call the owner's addresses and listed hosts, and every host while MCP is disabled", async () => {
    expect(await fetched(`${site.url}/own`)).toBe("succeeded");
    expect(await fetched(`${site.url}/?q=the-task`, { hosts: [site.host] })).toBe("succeeded");
    expect(await fetched(`${site.url}/?q=the-task`, { mcp: false })).toBe("succeeded");
    const auth = [{ secret: "KEY", hosts: [site.host], inject: { type: "bearer" as const } }];
    expect(await fetched(`${site.url}/?q=the-task`, { auth })).toBe("succeeded");
  });

  it("a server's tool with effects can still be the first call", () => {
    const tools_config: ToolsConfig = { mcp: { enabled: true, servers: [{ name: "s", url: `${site.url}/mcp` }] } };
    const config = newConfig({ name: "A", model_id: "m", run_prompt: "Go", tools_config });
    expect(computeTaint(config, { messages: null } as never, [])).toMatchObject({ tainted: false, described: true });
  });
});

describe("once tainted, a call", () => {
  let site: Site;
  beforeAll(async () => {
    site = await startSite({
      "/": { body: "fine" },
      "/away": { status: 302, headers: { location: "http://evil.test/" } },
    });
  });
  afterAll(() => site.close());

  const effects: NonNullable<WebFetchSettings["methods"]> = ["POST", "PUT", "PATCH", "DELETE"];
  const outcome = async (name: string, args: unknown, tools_config: ToolsConfig, is_tainted = true) => {
    const { tools } = toolsWith({ allow: [site.host], resolve: async () => ["93.184.215.14"] });
    const taint = { tainted: is_tainted, owner_text: "", links: new Set([`${site.url}/`]) };
    const { status, error } = await tools.call(aCall(name, args, { tools_config, taint }));
    return error?.code ?? status;
  };

  it.each(effects)("web_fetch with %s can call only listed hosts, also if a page links to others", async (method) => {
    const fetched = (hosts?: string[], is_tainted = true) => {
      const web_fetch = { enabled: true, methods: [method], ...(hosts && { hosts }) };
      return outcome("web_fetch", { url: `${site.url}/`, method }, { web_fetch }, is_tainted);
    };
    expect(await fetched()).toBe("egress_refused");
    expect(await fetched([site.host])).toBe("succeeded");
    expect(await fetched(undefined, false)).toBe("succeeded");
  });

  it("web_fetch reaches no composed address at a host that is only trusted with a secret", async () => {
    const auth = [{ secret: "KEY", hosts: [site.host], inject: { type: "bearer" as const } }];
    const web_fetch = { enabled: true, auth };
    expect(await outcome("web_fetch", { url: `${site.url}/?q=the-page` }, { web_fetch })).toBe("egress_refused");
  });

  it("send_webhook can use only the owner's addresses, and MCP only with a person's approval", async () => {
    const send_webhook = { enabled: true, urls: [`${site.url}/`] };
    expect(await outcome("send_webhook", { url: `${site.url}/?x=1`, payload: 1 }, { send_webhook })).toBe(
      "egress_refused",
    );
    const server = { name: "s", url: `${site.url}/mcp` };
    const calling = outcome("s__act", {}, { mcp: { enabled: true, servers: [server] } });
    await expect(calling).rejects.toThrow("approval");
  });

  it("is not redirected from a listed host to another", async () => {
    const web_fetch = { enabled: true, hosts: [site.host] };
    expect(await outcome("web_fetch", { url: `${site.url}/away` }, { web_fetch })).toBe("egress_refused");
  });
});
