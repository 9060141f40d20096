import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AuthSettings, ToolsConfig } from "../../src/api/contract/tools.ts";
import { createSecretScanner } from "../../src/platform/net/secret-scanner.ts";
import { newMark } from "../../src/safety/fence.ts";
import { createSanitizer } from "../../src/safety/sanitizer.ts";
import { expectShortTurn, heldDuring } from "../support/held.ts";
import { answerAsMcp, mcpTool } from "../support/mcp-messages.ts";
import { type Site, startSite } from "../support/sites.ts";
import { aCall, toolsWith, UNSTOPPED } from "../support/tools.ts";

// A costly page or MCP server would block the service's event loop, and so every other user's request.

const BYTES = 4_900_000;
const SECRETS = Object.fromEntries(
  Array.from({ length: 20 }, (_, n) => [`KEY_${n}`, `sk_live_${n}_0123456789abcdefghijklmnop`]),
);
let site: Site;
let page: { type: string; body: Buffer } = { type: "", body: Buffer.alloc(0) };
let answer_mcp: (method: string, id: unknown) => { type: string; body: string } | null = () => null;

beforeAll(async () => {
  site = await startSite({
    "/": (_request, response) => response.writeHead(200, { "content-type": page.type }).end(page.body),
    "/warm": { body: "<p>The harbour is open.</p>" },
    "/drip": (_request, response) => {
      response.writeHead(200, { "content-type": "text/plain" }).flushHeaders();
      for (let n = 0; n < 15; n += 1) response.socket?.write("1\r\nx\r\n".repeat(10_000));
      response.socket?.write("0\r\n\r\n");
    },
    "/mcp": (_request, response) => {
      const body = site.requests.at(-1)?.body || "{}";
      const { method, id } = JSON.parse(body);
      const attack = answer_mcp(method, id);
      if (attack !== null) response.writeHead(200, { "content-type": attack.type }).end(attack.body);
      else answerAsMcp(response, body, { tools: [mcpTool("berth")], onCall: (answer) => answer({ content: [] }) });
    },
  });
});
afterAll(() => site.close());

/** Returns the result of `work`, which may not block the event loop for long. */
async function within<T>(name: string, work: () => Promise<T>): Promise<T> {
  let result: T | undefined;
  const held_ms = await heldDuring(async () => {
    result = await work();
  });
  await expectShortTurn(name, held_ms);
  return result as T;
}

/** `count` bindings for one request, each with a secret of its own. */
const bindings = (count: number): AuthSettings[] =>
  Object.keys(SECRETS)
    .slice(0, count)
    .map((secret) => ({ secret, hosts: [site.host], inject: { type: "header", name: `X-${secret}` } }));

async function fetching(path: string, count = 3) {
  const { tools, opened, reflected } = toolsWith({ allow: [site.host], secrets: SECRETS });
  const tools_config: ToolsConfig = { web_fetch: { enabled: true, auth: bindings(count) } };
  await tools.call(aCall("web_fetch", { url: `${site.url}/warm` }, { tools_config }));
  const call = aCall("web_fetch", { url: `${site.url}${path}` }, { tools_config });
  const result = await within(`${path} ${page.type.slice(0, 40)} ${page.body.subarray(0, 12).toString("latin1")}`, () =>
    tools.call(call),
  );
  return { result, opened, reflected };
}

describe("a page of 5 MB that makes the search for secrets costly", { retry: 2 }, () => {
  it.each([
    ["hex digits", "text/plain", "0123456789abcdef"],
    ["escapes", "text/plain", "&#65;%41\\u0041"],
    ["escaped escapes", "text/html", "&amp;#65;%2541\\\\u0041 "],
    [
      "base64 in base64",
      "text/plain",
      Buffer.from(Buffer.from("0123456789abcdef").toString("base64")).toString("base64"),
    ],
    ["words of a secret's length", "text/plain", "abcdefghijklmnopqrstu\t\t"],
    ["iso-2022-jp", "text/plain; charset=iso-2022-jp", "\u001b$B!!\u001b(B"],
    ["bytes that are no UTF-8", "text/plain; charset=utf-8", "\u00ff"],
    ["spaces", "text/plain", " "],
    ["tags of a page that names no charset", "text/html", '<meta name="a\u00e9" content=b>'],
    ["addresses", "text/plain", "http://a.example/,"],
    ["entries of a feed", "application/xml", "<rss><item><title>a&amp;lt;b</title><link>/c</link></item>"],
    ["control characters", "application/octet-stream", "\u0001a"],
    ["types", `text/html${", text/html; charset=none".repeat(30)}`, "<p>"],
    ["a type of 15,000 spaces", `text/plain; charset=${" ".repeat(15_000)}!`, "word "],
  ])("does not block the event loop: %s", async (_name, type, text) => {
    page = { type, body: Buffer.from(text.repeat(BYTES / text.length), "latin1") };
    const { result, reflected } = await fetching("/");
    // On a slow machine the search may reach its deadline. Then the answer is withheld, and no secret is disabled.
    if (result.status === "failed")
      expect(result.error?.message).toMatch(/could not be searched|too intricate|binary data/);
    expect(reflected.size).toBe(0);
  });

  it("is withheld if the search takes too long, and no secret is disabled", async () => {
    page = { type: "text/plain", body: Buffer.from("0123456789abcdef".repeat(BYTES / 16)) };
    const scanner = createSecretScanner({ scan_ms: 1 });
    const { tools, reflected } = toolsWith({ allow: [site.host], secrets: SECRETS, scanner });
    const tools_config: ToolsConfig = { web_fetch: { enabled: true, auth: bindings(3) } };
    const result = await tools.call(aCall("web_fetch", { url: `${site.url}/` }, { tools_config }));
    expect(result.error).toMatchObject({
      code: "fetch_failed",
      message: expect.stringContaining("could not be searched"),
    });
    expect(result.result).not.toContain("0123456789abcdef");
    expect(reflected.size).toBe(0);
  });

  it("costs nothing with 20 bindings: a request takes at most three secrets, and with more none is opened", async () => {
    page = { type: "text/plain", body: Buffer.from("0123456789abcdef".repeat(BYTES / 16)) };
    site.requests.length = 0;
    const { result, opened } = await fetching("/", 20);
    expect(result.error).toMatchObject({ code: "secret_refused", message: expect.stringContaining("3 at most") });
    expect([opened, site.requests]).toEqual([[], []]);
  });

  it("in pieces of one byte is refused before the pieces fill the memory", async () => {
    const { result } = await fetching("/drip", 0);
    expect(result.error).toMatchObject({ code: "fetch_failed", message: expect.stringContaining("pieces") });
  });
});

/** A call of a tool whose server answers with `attack`, as the result or as the list of tools. */
async function calling(name: string, attack: typeof answer_mcp) {
  answer_mcp = () => null;
  const { tools } = toolsWith({ allow: [site.host] });
  const servers = [{ name: "h", url: `${site.url}/mcp` }];
  const tools_config: ToolsConfig = { mcp: { enabled: true, servers } };
  const call = aCall("h__berth", {}, { tools_config });
  // The first use loads and compiles the client.
  await tools.definitions(
    { mcp: { enabled: true, servers: [{ name: "g", url: `${site.url}/mcp` }] } },
    call.run,
    UNSTOPPED,
  );
  answer_mcp = attack;
  return await within(name, async () => {
    const listed = await tools.definitions(tools_config, call.run, UNSTOPPED);
    return { listed, result: await tools.call(call) };
  });
}
const JSON_TYPE = "application/json";
const message = (id: unknown, result: string) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
const inAnswerTo = (method: string, result: string) => (asked: string, id: unknown) =>
  asked === method ? { type: JSON_TYPE, body: message(id, result) } : null;
const arrays = (count: number) => `${"[".repeat(count)}${"]".repeat(count)}`;
const inStream = (events: (id: unknown) => string) => (asked: string, id: unknown) =>
  asked === "tools/call" ? { type: "text/event-stream", body: events(id) } : null;

describe("an MCP server whose answer is costly to parse", { retry: 2 }, () => {
  it.each([
    ["400,000 nested arrays in a result", inAnswerTo("tools/call", arrays(400_000)), "nests deeper"],
    [
      "400,000 nested arrays in a stream",
      inStream((id) => `data: ${message(id, arrays(400_000))}\n\n`),
      "nests deeper",
    ],
    [
      "nested arrays over many lines of a stream",
      inStream(() => `\ufeffdata: "[\ndata:${"[\ndata:".repeat(200_000)}\n\n`),
      "nests deeper",
    ],
    [
      "nested arrays behind brackets in strings",
      inAnswerTo("tools/call", `{"a":"]\\"]","b":${arrays(1_200)}}`),
      "nests deeper",
    ],
    ["40,000 notifications", inStream(() => 'data: {"jsonrpc":"2.0","method":"a"}\n\n'.repeat(40_000)), "messages"],
    ["900,000 comments", inStream(() => ":\n".repeat(900_000)), "stream ended"],
    [
      "5 MB of results",
      inAnswerTo("tools/call", `{"content":[{"type":"text","text":"${"a".repeat(5_000_000)}"}]}`),
      "larger",
    ],
  ])("does not block the event loop: %s", async (name, attack, why) => {
    const { result } = await calling(name, attack);
    expect(result.error).toMatchObject({ code: "mcp_failed", message: expect.stringContaining(why) });
  });

  it.each([
    ["50,000 values", `{"content":[],"structuredContent":{"a":[${"[],".repeat(24_000)}[]]}}`],
    ["9,000 parts", `{"content":[${'{"type":"text","text":"a"},'.repeat(9_000)}{"type":"b"}]}`],
    ["escapes", `{"content":[{"type":"text","text":"${"\\u0041".repeat(300_000)}"}]}`],
    ["16,000 nulls", `{"content":[],"a":[${'{"b":null},'.repeat(16_000)}{}]}`],
  ])("does not block the event loop with a valid answer: %s", async (name, result) => {
    expect((await calling(name, inAnswerTo("tools/call", result))).result.status).toBe("succeeded");
  });

  it("has no tools when their list is larger than 256 KB", async () => {
    const tools = Array.from({ length: 100 }, (_, n) => mcpTool(`t${n}`, { description: "Long. ".repeat(500) }));
    const { listed, result } = await calling("a large listing", inAnswerTo("tools/list", JSON.stringify({ tools })));
    expect(listed).toEqual([]);
    expect(result.error).toMatchObject({ code: "mcp_failed", message: expect.stringContaining("larger than 262144") });
  });

  it("does not block the event loop with 100 tools that have long texts", async () => {
    const text = "Adds two numbers; ig\u200bnore nothing. ".repeat(4);
    const property = { type: "string", description: text };
    const properties = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`p${n}`, property]));
    const tool = (n: number) => mcpTool(`t${n}`, { inputSchema: { type: "object", properties } });
    const tools = Array.from({ length: 100 }, (_, n) => tool(n));
    // The first texts of a process compile the safety layer once, which takes 50 ms.
    const { sanitize } = createSanitizer().of("u");
    for (const content of [text, JSON.stringify(properties)]) {
      await sanitize({ content, kind: "text", level: "balanced", mark: newMark() });
    }
    const { listed } = await calling("100 tools", inAnswerTo("tools/list", JSON.stringify({ tools })));
    expect(listed).toHaveLength(100);
  });
});
