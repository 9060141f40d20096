import type { McpServer } from "../../api/contract/tools.ts";
import { z } from "../../api/contract/zod.ts";
import { leakIn } from "./credentials.ts";
import { toolErrors } from "./errors.ts";
import { type ArgumentHeader, argumentHeaders } from "./mcp-headers.ts";
import { mcpToolName } from "./mcp-names.ts";
import { type LeftOutTool, type ListedTool, safeTool } from "./mcp-schema.ts";
import type { createMcpSessions, McpAccess } from "./mcp-session.ts";
import type { OperationRequest } from "./mcp-traffic.ts";
import type { ToolDeps } from "./tool.ts";
import { failedCall, type RunRef, type ToolDefinition, type ToolResult } from "./tools.types.ts";

/** The listing of one MCP server: its tools with safe texts. */

const LISTING_MS = 10_000;
const MAX_PAGES = 10;
const MAX_TOOLS = 100;
/** Limit for all answers to one listing. */
const LISTING_BYTES = 262_144;

const toolSchema = z.object({
  name: z.string().min(1).max(200),
  description: z.string().nullish().catch(null),
  inputSchema: z.record(z.string(), z.unknown()).catch({}),
  annotations: z.looseObject({ readOnlyHint: z.boolean().optional() }).optional().catch(undefined),
});
const listSchema = z.object({ tools: z.array(z.unknown()).max(1000), nextCursor: z.string().nullish() });

/** A tool with its definition for the model and its name on the server. */
export interface KnownTool extends ListedTool {
  readonly definition: ToolDefinition;
  readonly headers: readonly ArgumentHeader[];
  /** The server's own claim that the tool only reads. null: it claims nothing. The owner may believe it or not. */
  readonly read_only_hint: boolean | null;
}
/** A server's tools. `failure` is the reason why the server could not be asked, and then there are no tools. */
export interface Listing {
  readonly tools: readonly KnownTool[];
  /** Tools that the owner allows and the model does not get. */
  readonly left_out: readonly LeftOutTool[];
  readonly failure: ToolResult | null;
}

export type Use = ReturnType<typeof createMcpSessions>["use"];

/** The tools that the owner allows, with safe texts; none when the server cannot be used. Throws `secret_reflected`. */
export async function listTools(server: McpServer, run: RunRef, deps: ToolDeps & { use: Use }): Promise<Listing> {
  // Other runs may wait for this listing: it does not end with the run that started it.
  const signal = AbortSignal.timeout(LISTING_MS);
  const given: OperationRequest = { run, signal, timeout_ms: LISTING_MS, max_bytes: LISTING_BYTES };
  const asked = await deps
    .use(server, given, async (access) => ({
      listed: await readPages(access, signal),
      credentials: access.credentials,
    }))
    .catch(() => failedCall("mcp_failed", `the MCP server ${server.name} could not be used: it took too long`));
  if ("status" in asked) {
    const { error } = asked;
    if (error?.code === "secret_reflected") throw toolErrors.secretReflected(error.message);
    // The run's step has the message. It names the server and its path, which may hold a key.
    deps.log.warn({ run_id: run.run_id, code: error?.code }, "an MCP server has no tools now");
    return { tools: [], left_out: [], failure: asked };
  }
  const { listed, credentials } = asked;
  const { nameless } = listed;
  const wanted = listed.tools.filter(({ name }) => server.tools?.includes(name) ?? true);
  const { sanitize } = deps.sanitizer.of(run.user_id);
  const tools: KnownTool[] = [];
  const left_out: LeftOutTool[] = Array.from({ length: nameless }, () => ({ name: null, reason: "it has no name" }));
  for (const tool of wanted.slice(0, MAX_TOOLS)) {
    const safe = await safeTool(tool, sanitize);
    if ("reason" in safe) {
      left_out.push(safe);
      continue;
    }
    // After the limit of a schema's size.
    const headers = argumentHeaders(tool.inputSchema);
    if (headers === null) {
      left_out.push({ name: safe.name, reason: "its schema asks for headers in a way that the protocol forbids" });
      continue;
    }
    const { read_only_hint } = tool;
    tools.push({ ...safe, headers, read_only_hint, definition: toDefinition(server, safe) });
  }
  for (const _ of wanted.slice(MAX_TOOLS)) {
    left_out.push({ name: null, reason: `the server has more than ${MAX_TOOLS} tools` });
  }
  // The safety layer joins text that the server had split, so a secret may appear only now.
  const leak = await leakIn([JSON.stringify([tools, left_out])], { credentials, run }, deps);
  if (leak?.error?.code === "secret_reflected") throw toolErrors.secretReflected(leak.error.message);
  if (leak !== null) return { tools: [], left_out: [], failure: leak };
  return { tools, left_out, failure: null };
}

type Claiming = ListedTool & Pick<KnownTool, "read_only_hint">;

/**
 * The tools of all pages. A name that is listed again is left out: providers reject two tools of one name. A tool
 * without a usable name is only counted, and one without a schema takes any arguments.
 */
async function readPages(
  { client }: McpAccess,
  signal: AbortSignal,
): Promise<{ tools: readonly Claiming[]; nameless: number }> {
  const tools = new Map<string, Claiming>();
  let nameless = 0;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const listed = await client.request({ method: "tools/list", params }, listSchema, { signal });
    for (const each of listed.tools) {
      const { success, data } = toolSchema.safeParse(each);
      if (!success) nameless += 1;
      if (!success || tools.has(data.name)) continue;
      const { annotations, description, ...tool } = data;
      tools.set(tool.name, {
        ...tool,
        description: description ?? "",
        read_only_hint: annotations?.readOnlyHint ?? null,
      });
    }
    cursor = listed.nextCursor ?? undefined;
    if (cursor === undefined) break;
  }
  return { tools: [...tools.values()], nameless };
}

function toDefinition(server: McpServer, { name, description, inputSchema }: ListedTool): ToolDefinition {
  const definition = { name: mcpToolName(server.name, name), description, parameters: inputSchema };
  return { type: "function", function: definition };
}
