import { errorSchema, json } from "./common.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Purser as an MCP server: contract 6.13. The protocol defines the messages. */

const messageSchema = z.record(z.string(), z.unknown()).openapi("McpMessage");

/** The protocol's own error, for JSON that is no message. */
const protocolErrorSchema = z
  .object({
    jsonrpc: z.literal("2.0"),
    error: z.object({ code: z.number().int(), message: z.string() }),
    id: z.union([z.string(), z.number(), z.null()]),
  })
  .openapi("McpError");

export const mcpEndpoint = routesOf("Agents as MCP tools").post("/api/v1/mcp", {
  operationId: "mcp",
  summary: "Your agents as tools for MCP clients",
  description:
    "The Model Context Protocol over streamable HTTP, versions 2024-10-07 to 2026-07-28. A request is one JSON-RPC " +
    "message, no batch. Each active agent is a tool " +
    "`run_{slug of its name}` (`agents:write`; with `input` a turn of chat, `chat:write`); `get_run` and `list_runs` " +
    "read (`agents:read`). Runs are billed as always.",
  scope: "any",
  // No batch: a hundred calls in one request would evade the rate limit.
  body: messageSchema,
  answers: {
    200: {
      description: "the answer, or a stream with the run's progress and the answer",
      content: { "application/json": { schema: messageSchema }, "text/event-stream": { schema: z.string() } },
    },
    202: { description: "a notification was accepted" },
    400: json(z.union([errorSchema, protocolErrorSchema]), "the request or the message is not valid"),
  },
  fails: [402, 403, 404, 409],
});
