import { answerAsMcp, mcpTool } from "./mcp-messages.ts";
import { type Site, startSite } from "./sites.ts";

/** Servers as they are in the world, each a row: how they write what others write otherwise. */

/** An MCP server that writes fields in its own way. Each message overrides the plain server's. */
interface McpHabit {
  habit: string;
  /** Fields of the message that answers `initialize`. */
  initialized?: object;
  /** Fields of the message that answers `tools/list`. */
  listed?: object;
  /** Fields of the message that answers `tools/call`. */
  called?: object;
  /** The text that the model gets. */
  reads: string;
  status?: "succeeded" | "failed";
}

const said = (text: string, more: object = {}) => ({ result: { content: [{ type: "text", text }], ...more } });
const listing = (tool: Record<string, unknown>, more: object = {}) => ({
  result: { tools: [mcpTool("act", tool)], ...more },
});

/** contract 7.5.1: null for a field that may be absent means absent. */
export const MCP_HABITS: readonly McpHabit[] = [
  { habit: "isError null", called: said("Berth 7", { isError: null }), reads: "Berth 7" },
  { habit: "_meta null", called: said("Berth 7", { _meta: null }), reads: "Berth 7" },
  { habit: "structuredContent null", called: said("Berth 7", { structuredContent: null }), reads: "Berth 7\n" },
  { habit: "error null beside the result", called: { ...said("Berth 7"), error: null }, reads: "Berth 7" },
  {
    habit: "result null beside the error",
    called: { error: { code: -32602, message: "berth is missing", data: null }, result: null },
    reads: "berth is missing",
    status: "failed",
  },
  {
    habit: "content null beside structured content",
    called: { result: { content: null, structuredContent: { berth: 7, note: null } } },
    reads: '"note": null',
  },
  {
    habit: "annotations and _meta of a part null",
    called: { result: { content: [{ type: "text", text: "Berth 7", annotations: null, _meta: null }] } },
    reads: "Berth 7",
  },
  {
    habit: "fields of annotations and of a resource null",
    called: {
      result: {
        content: [
          { type: "text", text: "Berth 7", annotations: { audience: null, priority: null } },
          { type: "resource", resource: { uri: "a:b", mimeType: null, text: "Quay 3", blob: null, _meta: null } },
          { type: "resource_link", uri: "a:c", name: "Plan", title: null, description: null, size: null },
        ],
      },
    },
    reads: "Berth 7\nQuay 3\n[a resource: Plan, a:c]",
  },
  {
    habit: "instructions, and fields of capabilities and serverInfo null",
    initialized: {
      result: {
        protocolVersion: "2025-06-18",
        capabilities: {
          tools: { listChanged: null },
          prompts: null,
          resources: null,
          logging: null,
          experimental: null,
        },
        serverInfo: { name: "test", version: "1", title: null, websiteUrl: null, icons: null, description: null },
        instructions: null,
        _meta: null,
      },
      error: null,
    },
    reads: "Berth 7",
  },
  { habit: "capabilities null", initialized: { result: { capabilities: null } }, reads: "Berth 7" },
  {
    habit: "nextCursor and _meta of the listing null",
    listed: listing({}, { nextCursor: null, _meta: null }),
    reads: "Berth 7",
  },
  {
    habit: "every optional field of a tool null",
    listed: listing({
      title: null,
      description: null,
      outputSchema: null,
      annotations: null,
      icons: null,
      execution: null,
      _meta: null,
    }),
    reads: "Berth 7",
  },
  {
    habit: "fields of a tool's annotations null",
    listed: listing({
      annotations: {
        title: null,
        readOnlyHint: null,
        destructiveHint: null,
        idempotentHint: null,
        openWorldHint: null,
      },
    }),
    reads: "Berth 7",
  },
  {
    habit: "keywords of a schema null",
    listed: listing({
      inputSchema: {
        type: "object",
        properties: {
          berth: { type: "number", description: null, enum: null, items: null, default: null, const: null },
        },
        required: null,
        $defs: null,
        additionalProperties: null,
      },
    }),
    reads: "Berth 7",
  },
  { habit: "a tool without a schema, which is null", listed: listing({ inputSchema: null }), reads: "Berth 7" },
];

/** A server with a habit. `streamed`: it answers with events. */
export async function startMcpHabit(habit: McpHabit, { streamed = false } = {}): Promise<Site> {
  const site = await startSite({
    "/mcp": (_request, response) => {
      const body = site.requests.at(-1)?.body ?? "";
      const { id, method } = JSON.parse(body || "{}");
      const { initialized, listed = listing({}), called = said("Berth 7") } = habit;
      const own = { initialize: initialized, "tools/list": listed, "tools/call": called }[method as string];
      if (own === undefined) return answerAsMcp(response, body, { tools: [], onCall: () => {} });
      const base = { protocolVersion: "2025-06-18", serverInfo: { name: "test", version: "1" } };
      const fields = own as { result?: object };
      const result = method === "initialize" ? { ...base, ...fields.result } : fields.result;
      const message = JSON.stringify({ jsonrpc: "2.0", id, ...own, ...("result" in own ? { result } : {}) });
      response.writeHead(200, { "content-type": streamed ? "text/event-stream" : "application/json" });
      response.end(streamed ? `event: message\nid: 1\ndata: ${message}\n\n` : message);
    },
  });
  return site;
}
