import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { McpServer, ToolsConfig } from "../../../src/api/contract/tools.ts";
import { answerAsMcp, mcpTool } from "../../support/mcp-messages.ts";
import { type Site, startSite } from "../../support/sites.ts";
import { aCall, toolsWith, UNSTOPPED } from "../../support/tools.ts";

// A server that is scripted message by message, to behave like servers that people run.

interface Message {
  id?: number;
  method: string;
  params: { _meta?: { progressToken?: number }; [key: string]: unknown };
}

let site: Site;
/** Requests in order: the HTTP method, or the message's method, with the session. */
let seen: string[] = [];
let posted: { id?: unknown; result?: unknown; error?: unknown }[] = [];
let sessions = 0;
/** The number of sessions before the test. A session of an earlier test may still be closing. */
let before = 0;
const session = (nth: number) => `s${before + nth}`;
let on_call: (message: Message, response: ServerResponse) => void = () => {};
let on_get: (last_event_id: string, response: ServerResponse) => void = () => {};

beforeAll(async () => {
  site = await startSite({
    "/mcp": (request, response) => {
      const body = site.requests.at(-1)?.body ?? "";
      const used = request.headers["mcp-session-id"];
      const message = JSON.parse(body || "{}");
      seen.push([message.method ?? (body === "" ? request.method : "answer"), used ?? []].flat().join(" "));
      posted.push(message);
      if (request.method === "GET") return on_get(String(request.headers["last-event-id"]), response);
      if (request.method === "DELETE") return response.writeHead(204).end();
      if (message.method === undefined) return response.writeHead(202).end();
      if (message.method === "initialize") response.setHeader("mcp-session-id", `s${++sessions}`);
      if (message.method === "tools/call") return on_call(message, response);
      answerAsMcp(response, body, { tools: [mcpTool("berth")], onCall: () => {} });
    },
  });
});
afterAll(() => site.close());
beforeEach(() => {
  [seen, posted, before] = [[], [], sessions];
});

const event = (message: object, id?: string) =>
  `${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`;
const resultOf = (id: unknown, text = "Berth 7 is free.") => ({ id, result: { content: [{ type: "text", text }] } });
const stream = (response: ServerResponse) => response.writeHead(200, { "content-type": "text/event-stream" });

function setUp(settings: Partial<McpServer> = {}) {
  const { tools } = toolsWith({ allow: [site.host] });
  const server: McpServer = { name: "h", url: `${site.url}/mcp`, ...settings };
  const tools_config: ToolsConfig = { mcp: { enabled: true, servers: [server] } };
  const { run } = aCall("", {});
  return {
    tools,
    run,
    call: (more = {}) => tools.call(aCall("h__berth", {}, { tools_config, run, ...more })),
    tools_config,
  };
}
const until = async (happened: () => boolean) => {
  while (!happened()) await delay(5);
};

describe("a stream of an MCP server", () => {
  it("is read at once: a ping in it is answered, an unknown request gets -32601, and the call ends at its result", async () => {
    on_call = async ({ id }, response) => {
      stream(response).write(event({ id: "p", method: "ping" }));
      response.write(event({ id: "r", method: "roots/list" }));
      response.write(event({ id: "s", method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } }));
      const answers = () => posted.filter((each) => "result" in each || "error" in each);
      await until(() => answers().length === 3);
      response.write(event(resultOf(id)));
      // The stream stays open.
    };
    const { call, tools, run } = setUp();
    const result = await call();
    expect(result).toMatchObject({ status: "succeeded", result: expect.stringContaining("Berth 7") });
    const answerTo = (id: string) => posted.find((each) => each.id === id && !("method" in each));
    expect(answerTo("p")).toMatchObject({ result: {} });
    expect(answerTo("r")).toMatchObject({ error: { code: -32601 } });
    expect(answerTo("s")).toMatchObject({ error: { code: -32601 } });
    await tools.endRun(run.run_id);
  });

  it("that is interrupted is resumed after its last event", async () => {
    on_call = (_message, response) => stream(response).end("id: e1\nretry: 10\ndata:\n\n");
    on_get = (last_event_id, response) => {
      const { id } = posted.findLast((each) => (each as unknown as Message).method === "tools/call") ?? {};
      stream(response).end(event(resultOf(id, `after ${last_event_id}`), "e2"));
    };
    const { call } = setUp();
    expect(await call()).toMatchObject({ status: "succeeded", result: expect.stringContaining("after e1") });
  });

  it("that ends without the answer fails the call at once", async () => {
    on_call = (_message, response) =>
      stream(response).end(event({ method: "notifications/message", params: { level: "info", data: "" } }));
    const { call } = setUp();
    expect((await call()).error).toMatchObject({ message: expect.stringContaining("ended without the answer") });
  });

  it("that is resumed endlessly fails the call after a limit of messages", async () => {
    on_call = (_message, response) => stream(response).end("id: e1\nretry: 0\ndata:\n\n");
    on_get = (_id, response) => stream(response).end("id: e1\nretry: 0\ndata:\n\n");
    const { call } = setUp();
    expect((await call()).error).toMatchObject({ message: expect.stringContaining("50 messages") });
    expect(seen.length).toBeLessThan(60);
  });
});

describe("the time of a call", () => {
  it("starts again with each progress that the server reports", async () => {
    on_call = async ({ id, params }, response) => {
      stream(response);
      for (let progress = 1; progress <= 4; progress += 1) {
        await delay(500);
        const given = { progressToken: params._meta?.progressToken, progress };
        response.write(event({ method: "notifications/progress", params: given }));
      }
      response.end(event(resultOf(id)));
    };
    const { call } = setUp({ timeout_seconds: 1 });
    expect(await call()).toMatchObject({ status: "succeeded" });
  });

  it("ends after timeout_seconds: the server is notified, and the message names the setting", async () => {
    on_call = (_message, response) => void stream(response).flushHeaders();
    const { call } = setUp({ timeout_seconds: 1 });
    const { error } = await call();
    expect(error).toMatchObject({ code: "mcp_failed", message: expect.stringContaining("timeout_seconds") });
    await until(() => seen.includes(`DELETE ${session(1)}`));
    expect(seen).toContain(`notifications/cancelled ${session(1)}`);
  });
});

describe("the session of a run", () => {
  const answer = ({ id }: Message, response: ServerResponse) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", ...resultOf(id) }));
  };

  it("is used for its listing and all its calls, and is closed at the run's end", async () => {
    on_call = answer;
    const { call, tools, run, tools_config } = setUp();
    await tools.definitions(tools_config, run, UNSTOPPED);
    for (let n = 0; n < 3; n += 1) expect((await call()).status).toBe("succeeded");
    expect(seen.filter((each) => each === "initialize")).toHaveLength(1);
    expect(seen.filter((each) => each === `tools/call ${session(1)}`)).toHaveLength(3);
    await tools.endRun(run.run_id);
    expect(seen.at(-1)).toBe(`DELETE ${session(1)}`);
    const other_run = { ...run, run_id: "other" };
    expect((await call({ run: other_run })).status).toBe("succeeded");
    expect(seen).toContain(`tools/call ${session(2)}`);
    await tools.endRun("other");
    expect(seen.at(-1)).toBe(`DELETE ${session(2)}`);
  });

  it("that the server has forgotten is opened again, and the call is executed once", async () => {
    let is_forgotten = false;
    on_call = (message, response) => {
      if (!is_forgotten) return answer(message, response);
      is_forgotten = false;
      response.writeHead(404).end();
    };
    const { call } = setUp();
    expect((await call()).status).toBe("succeeded");
    is_forgotten = true;
    expect((await call()).status).toBe("succeeded");
    expect(seen.filter((each) => each.startsWith("tools/call"))).toEqual([
      `tools/call ${session(1)}`,
      `tools/call ${session(1)}`,
      `tools/call ${session(2)}`,
    ]);
  });

  it("of a cancelled run cancels the call at its server, and is closed", async () => {
    const cancel = new AbortController();
    on_call = () => cancel.abort();
    const { call, tools, run } = setUp();
    await expect(call({ signal: cancel.signal })).rejects.toThrow();
    await tools.endRun(run.run_id);
    await until(() => seen.includes(`DELETE ${session(1)}`));
    const last = seen.filter((each) => /cancelled|DELETE/.test(each) && each.endsWith(session(1)));
    expect(last).toEqual([`notifications/cancelled ${session(1)}`, `DELETE ${session(1)}`]);
  });
});

it.each([
  ["a failure", 500, "{}"],
  ["a page", 200, "<p>Hello</p>"],
])(
  "an older server that answers the question for its version with %s can still be used",
  async (_name, status, body) => {
    const other = await startSite({
      "/mcp": (_request, response) => {
        const asked = other.requests.at(-1)?.body ?? "";
        if (asked.includes("server/discover"))
          return response.writeHead(status, { "content-type": "text/html" }).end(body);
        answerAsMcp(response, asked, { tools: [mcpTool("berth")], onCall: (answer) => answer({ content: [] }) });
      },
    });
    const { tools } = toolsWith({ allow: [other.host] });
    const tools_config: ToolsConfig = { mcp: { enabled: true, servers: [{ name: "h", url: `${other.url}/mcp` }] } };
    expect((await tools.call(aCall("h__berth", {}, { tools_config }))).status).toBe("succeeded");
    await other.close();
  },
);

describe("a server that cannot be used gives the reason", () => {
  it.each<[string, number, string, Partial<McpServer>, string]>([
    ["401 without auth", 401, "", {}, "store its token as a secret"],
    ["403", 403, "", {}, "denies access (403); set auth"],
    ["a wrong path", 404, "", {}, "no MCP endpoint at the path /other (404)"],
    ["the old transport", 405, "", {}, "HTTP+SSE"],
    ["too many requests", 429, "", {}, "(429)"],
    ["a broken server", 500, "", {}, "status 500"],
    ["a web page", 200, "<p>Welcome</p>", {}, "web page"],
  ])("%s", async (_name, status, body, settings, why) => {
    const other = await startSite({
      "/other": (_request, response) => response.writeHead(status, { "content-type": "text/html" }).end(body),
    });
    const { tools } = toolsWith({ allow: [other.host] });
    const servers: McpServer[] = [{ name: "h", url: `${other.url}/other`, ...settings }];
    const tools_config: ToolsConfig = { mcp: { enabled: true, servers } };
    const { error } = await tools.call(aCall("h__berth", {}, { tools_config }));
    expect(error).toMatchObject({ code: "mcp_failed", message: expect.stringContaining(why) });
    await other.close();
  });

  it("a version that Purser does not know", async () => {
    const other = await startSite({
      "/mcp": (_request, response) => {
        const { id, method } = JSON.parse(other.requests.at(-1)?.body || "{}");
        const serverInfo = { name: "a", version: "1" };
        const known = { id, result: { protocolVersion: "1999-01-01", capabilities: {}, serverInfo } };
        const answer = method === "initialize" ? known : { id, error: { code: -32601, message: "no" } };
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ jsonrpc: "2.0", ...answer }));
      },
    });
    const { tools } = toolsWith({ allow: [other.host] });
    const tools_config: ToolsConfig = { mcp: { enabled: true, servers: [{ name: "h", url: `${other.url}/mcp` }] } };
    const { error } = await tools.call(aCall("h__berth", {}, { tools_config }));
    expect(error?.message).toContain("no version of the protocol that Purser knows");
    await other.close();
  });
});

describe("the result of a call", () => {
  const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const calling = async (result: unknown) => {
    on_call = ({ id }, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    };
    return await setUp().call();
  };

  it("has its structured content and its text, and only one of them if they are equal", async () => {
    const structuredContent = { berth: 7 };
    const separate = await calling({ content: [{ type: "text", text: "Free." }], structuredContent });
    expect(separate.result).toMatch(/Free\.\n.*"berth":7/);
    const repeated = await calling({ content: [{ type: "text", text: '{ "berth": 7 }' }], structuredContent });
    expect(repeated.result.match(/"berth"/g)).toHaveLength(1);
  });

  it("passes on real pictures, and no other data that is declared as a picture", async () => {
    const image = (data: string) => ({ type: "image", mimeType: "image/png", data });
    const { pictures } = await calling({ content: [image(PIXEL), image(Buffer.from("<svg/>").toString("base64"))] });
    expect(pictures).toEqual([{ media_type: "image/png", data: PIXEL }]);
  });

  it("that is a protocol error reaches the model sanitized", async () => {
    on_call = ({ id }, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32602, message: "berth must be a number" } }));
    };
    const result = await setUp().call();
    expect(result).toMatchObject({ status: "failed", error: { code: "mcp_failed" }, safety: {} });
    expect(result.result).toContain("berth must be a number");
  });
});
