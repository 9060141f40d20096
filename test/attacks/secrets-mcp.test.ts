import type { RequestListener } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ToolsConfig } from "../../src/api/contract/tools.ts";
import { PLAIN } from "../support/disguises.ts";
import { leaksIn } from "../support/encodings.ts";
import { answerAsMcp, mcpTool } from "../support/mcp-messages.ts";
import { scoreOf } from "../support/score.ts";
import { type Site, startSite } from "../support/sites.ts";
import { aCall, toolsWith, UNSTOPPED } from "../support/tools.ts";

// An MCP server sends back a secret that it got, in any message of a session (Infisical/cli#397). Each attack is a list of
// tools and a call, as in a run. No part of the secret may be in their results.

const SECRET = "sk_live_9f/Zq+77=Kd&wE 3~x";
const score = scoreOf("secrets echoed by MCP servers", "leaks");

type Stage = (echo: string, method: string, ...http: Parameters<RequestListener>) => boolean;

let site: Site;
let stage: Stage = () => false;
let echo = "";
beforeAll(async () => {
  site = await startSite({
    "/mcp": (request, response) => {
      const body = site.requests.at(-1)?.body ?? "";
      const method = body === "" ? "" : JSON.parse(body).method;
      if (stage(echo, method, request, response)) return;
      const content = [{ type: "text", text: "Berth 7 is free." }];
      answerAsMcp(response, body, { tools: [mcpTool("berth")], onCall: (answer) => answer({ content }) });
    },
  });
});
afterAll(() => site.close());

/** Replaces the answer to messages of `method` by `result` of the echo, as JSON or as a stream. */
function inResult(method: string, result: (text: string) => unknown, type = "application/json"): Stage {
  return (text, asked, _request, response) => {
    if (asked !== method) return false;
    const { id } = JSON.parse(site.requests.at(-1)?.body ?? "{}");
    const message = JSON.stringify({ jsonrpc: "2.0", id, ...(result(text) as object) });
    const body = type === "application/json" ? message : `event: message\ndata: ${message}\n\n`;
    response.writeHead(200, { "content-type": type }).end(body);
    return true;
  };
}
const inCall = (content: (text: string) => unknown, type?: string) =>
  inResult("tools/call", (text) => ({ result: content(text) }), type);

const SESSION: Stage = (text, method, _request, response) => {
  if (method === "initialize") response.setHeader("mcp-session-id", encodeURIComponent(text));
  return false;
};
const PAGE: Stage = (text, method, _request, response) => {
  if (method !== "tools/call") return false;
  response.writeHead(401, { "content-type": "text/plain" }).end(`wrong key ${text}`);
  return true;
};

it.each<[string, Stage]>([
  ["the handshake", inResult("initialize", (text) => ({ result: { instructions: text } }))],
  ["the session's id", SESSION],
  ["the list of tools", inResult("tools/list", (text) => ({ result: { tools: [mcpTool("berth", { title: text })] } }))],
  ["a text", inCall((text) => ({ content: [{ type: "text", text }] }))],
  ["a text that comes as a stream", inCall((text) => ({ content: [{ type: "text", text }] }), "text/event-stream")],
  ["a resource", inCall((text) => ({ content: [{ type: "resource", resource: { uri: "a:b", text } }] }))],
  ["a link", inCall((text) => ({ content: [{ type: "resource_link", name: "a", uri: `https://a.example/${text}` }] }))],
  ["a picture", inCall((text) => ({ content: [{ type: "image", data: text, mimeType: "image/png" }] }))],
  ["structured content", inCall((text) => ({ content: [], structuredContent: { text } }))],
  ["what went wrong", inResult("tools/call", (text) => ({ error: { code: -32000, message: text } }))],
  ["a page instead of an answer", PAGE],
])("in %s, in every encoding, the run ends and the secret is disabled", async (where, wanted) => {
  // The search is the same for all messages. The texts are tested in every encoding, the other places in some.
  const disguises = PLAIN.filter((_, index) => where === "a text" || index % 5 === 0);
  for (const [name, encode] of disguises) {
    [stage, echo] = [wanted, encode(SECRET)];
    const { tools, reflected } = toolsWith({ allow: [site.host], secrets: { KEY: SECRET } });
    const auth = { secret: "KEY", inject: { type: "bearer" as const } };
    const servers = [{ name: "harbour", url: `${site.url}/mcp`, auth }];
    const tools_config: ToolsConfig = { mcp: { enabled: true, servers } };
    const call = aCall("harbour__berth", {}, { tools_config });
    const listed = await tools.definitions(tools_config, call.run, UNSTOPPED).catch((error: Error) => error);
    const result = await tools.call(call);
    score.tried();
    const leaks = leaksIn(Buffer.from(JSON.stringify([listed, String(listed), result])), [SECRET]);
    score.slipped(...leaks);
    expect(leaks, name).toEqual([]);
    const code = listed instanceof Error ? (listed as Error & { code?: string }).code : result.error?.code;
    expect([code, reflected.has("KEY")], name).toEqual(["secret_reflected", true]);
  }
});
