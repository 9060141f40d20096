import { createRoute, z } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import { failures } from "./common.ts";

/** Purser as an MCP server: contract 6.13. The protocol defines the messages. */

const messageSchema = z.record(z.string(), z.unknown()).openapi("McpMessage");

export const mcpEndpoint = createRoute({
  method: "post",
  path: "/api/v1/mcp",
  operationId: "mcp",
  tags: ["Agents as MCP tools"],
  summary: "Your agents as tools for MCP clients",
  description:
    "The Model Context Protocol over streamable HTTP, versions 2024-10-07 to 2026-07-28. Each active agent is a tool " +
    "`run_{slug of its name}` (`agents:write`; with `input` a turn of chat, `chat:write`); `get_run` and `list_runs` " +
    "read (`agents:read`). Runs are billed as always.",
  ...needs(),
  request: {
    body: { content: { "application/json": { schema: z.unknown().openapi({ description: "one JSON-RPC message" }) } } },
  },
  responses: {
    200: {
      description: "the answer, or a stream with the run's progress and the answer",
      content: { "application/json": { schema: messageSchema }, "text/event-stream": { schema: z.string() } },
    },
    202: { description: "a notification was accepted" },
    ...failures(400, 402, 403, 404, 409),
  },
});
