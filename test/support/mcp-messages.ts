import type { ServerResponse } from "node:http";

/** The behaviour of a minimal MCP server after the handshake. */
export interface McpConduct {
  tools: readonly unknown[];
  /** A call of a tool. `answer` takes the result; without it the caller waits. */
  onCall: (answer: (result: unknown) => void) => void;
}

/** A tool as a server lists it. */
export const mcpTool = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  description: "Adds two numbers.",
  inputSchema: { type: "object", properties: {} },
  ...more,
});

/** Whether a posted message calls a tool. */
export const isMcpCall = (body: string) => body !== "" && JSON.parse(body).method === "tools/call";

/** Answers one message of an MCP client over streamable HTTP. */
export function answerAsMcp(response: ServerResponse, body: string, { tools, onCall }: McpConduct): void {
  const { id, method, params } = JSON.parse(body || "{}");
  const answer = (result: unknown) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  };
  // A request without a body ends a session, which this server does not support.
  if (body === "") response.writeHead(405).end();
  else if (id === undefined) response.writeHead(202).end();
  else if (method === "tools/list") answer({ tools });
  else if (method === "tools/call") onCall(answer);
  else if (method !== "initialize") {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } }));
  } else {
    const serverInfo = { name: "test", version: "1" };
    answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
  }
}
