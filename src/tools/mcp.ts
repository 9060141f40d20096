import { z } from "@hono/zod-openapi";
import { mcp } from "../contract/tools/mcp.ts";
import type { McpServer, McpSettings } from "../contract/tools.ts";
import { errors } from "../errors.ts";
import { monotonicMs } from "../platform/clock.ts";
import { raceAbort } from "../platform/race-abort.ts";
import { leakIn } from "./credentials.ts";
import { isServersError } from "./mcp-failure.ts";
import { type ArgumentHeader, argumentHeaders, headersOf } from "./mcp-headers.ts";
import { effectsOf, isMcpName, mcpToolName, serverOf } from "./mcp-names.ts";
import { type CallAnswer, callAnswerSchema, resultOf } from "./mcp-result.ts";
import { type ListedTool, safeTool } from "./mcp-schema.ts";
import { createMcpSessions, type McpAccess } from "./mcp-session.ts";
import type { Asked } from "./mcp-traffic.ts";
import type { RunningTool, Tool, ToolDeps } from "./tool.ts";
import {
  failedCall,
  type RunRef,
  type ToolCall,
  type ToolDefinition,
  type ToolResult,
  type UnusableServer,
  unknownTool,
} from "./tools.types.ts";

/** How long one listing serves all runs of an agent. A failed listing is retried sooner. */
const LISTED_MS = 300_000;
const FAILED_MS = 30_000;
const LISTINGS_KEPT = 500;
const LISTING_MS = 10_000;
/** Limits of one server. */
const MAX_PAGES = 10;
const MAX_TOOLS = 100;
const CALL_SECONDS = 60;
/** Limits for all answers to one listing, or to one call. */
const LISTING_BYTES = 262_144;
const CALL_BYTES = 2_000_000;

const listSchema = z.object({
  tools: z
    .array(
      z.object({
        name: z.string().min(1).max(200),
        description: z.string().optional(),
        inputSchema: z.record(z.string(), z.unknown()),
        annotations: z.looseObject({ readOnlyHint: z.boolean().optional() }).optional().catch(undefined),
      }),
    )
    .max(1000),
  nextCursor: z.string().optional(),
});
/** The tools of the MCP servers that an agent's owner configured. */
export const mcpTools: Tool<McpSettings, Record<string, unknown>> = {
  contract: mcp,
  has_servers: true,
  owns: isMcpName,
  effect({ name }, settings) {
    if (!settings?.enabled) return "unknown";
    const server = serverOf(settings, name);
    return server !== undefined && effectsOf(server, name) === "none" ? "none" : "unknown";
  },
  create: createMcpTools,
};

/** A tool with its definition for the model and its name on the server. */
interface Known extends ListedTool {
  readonly definition: ToolDefinition;
  readonly headers: readonly ArgumentHeader[];
}
/** A server's tools. `failure` is the reason why the server could not be asked, and then there are no tools. */
interface Listing {
  readonly tools: readonly Known[];
  readonly failure: ToolResult | null;
}

/** Caches the listing of each server for some minutes. */
function createMcpTools(deps: ToolDeps): RunningTool<McpSettings, Record<string, unknown>> {
  const listings = new Map<string, { until_ms: number; listing: Promise<Listing> }>();
  const sessions = createMcpSessions(deps);

  function listingOf(server: McpServer, run: RunRef): Promise<Listing> {
    const key = `${run.user_id} ${JSON.stringify(server)}`;
    const kept = listings.get(key);
    if (kept !== undefined && kept.until_ms > monotonicMs()) return kept.listing;
    const listing = list(server, run, { ...deps, use: sessions.use });
    const entry = { until_ms: monotonicMs() + LISTED_MS, listing };
    listings.delete(key);
    listings.set(key, entry);
    for (const [oldest] of listings) {
      if (listings.size <= LISTINGS_KEPT) break;
      listings.delete(oldest);
    }
    listing.then(
      ({ tools, failure }) => {
        // The owner can mend a secret at once, and no server was asked.
        if (failure?.error?.code === "secret_refused") listings.delete(key);
        else if (tools.length === 0) entry.until_ms = monotonicMs() + FAILED_MS;
      },
      () => listings.delete(key),
    );
    return listing;
  }

  /** A stopped run does not wait for a server. The listing continues, because other runs may wait for it. */
  const awaitedListing = (server: McpServer, run: RunRef, signal: AbortSignal) =>
    raceAbort(listingOf(server, run), signal);

  return {
    /** The definitions for the model. A server that cannot be used has none. Throws 502 `secret_reflected`. */
    async define({ servers = [] }, run, signal) {
      const listed = await Promise.all(servers.map((server) => awaitedListing(server, run, signal)));
      return listed.flatMap(({ tools }) => tools.map(({ definition }) => definition));
    },

    /** The servers that have no tools now because they could not be asked, with the reason. */
    async unusableServers({ servers = [] }, run, signal) {
      const asked = servers.map(async (server): Promise<UnusableServer[]> => {
        const error = await awaitedListing(server, run, signal).then(
          ({ failure }) => failure?.error,
          (error: Error & { code?: string }) => {
            if (error.code === "secret_reflected") return { code: error.code, message: error.message } as const;
            throw error;
          },
        );
        return error === undefined ? [] : [{ name: server.name, error }];
      });
      return (await Promise.all(asked)).flat();
    },

    async call(given, call, settings) {
      const server = serverOf(settings, call.name);
      if (server === undefined) return unknownTool(call.name);
      if (call.taint.tainted && effectsOf(server, call.name) !== "none") {
        return failedCall(
          "egress_refused",
          `this run has read outside content, such as an earlier tool's answer, and that content could have asked for this call. So ${call.name} is blocked: its effects are "any". If it only reads data, its owner can set effects (or tool_effects for this tool) of the server ${server.name} to "none"`,
        );
      }
      const listing = await awaitedListing(server, call.run, call.signal).catch((error: Error) => {
        call.signal.throwIfAborted();
        return error.message;
      });
      if (typeof listing === "string") return failedCall("secret_reflected", listing);
      if (listing.failure !== null) return listing.failure;
      const tool = listing.tools.find(({ definition }) => definition.function.name === call.name);
      if (tool === undefined) return failedCall("unknown_tool", `${server.name} has no such tool now`);
      return await callTool(tool, given, { call, server, deps, use: sessions.use });
    },

    endRun: sessions.endRun,
  };
}

type Use = ReturnType<typeof createMcpSessions>["use"];

/** Calls the tool in the run's session. Progress that the server reports extends the timeout. */
async function callTool(
  tool: Known,
  given: Record<string, unknown>,
  { call, server, deps, use }: { call: ToolCall; server: McpServer; deps: ToolDeps; use: Use },
): Promise<ToolResult> {
  const { run, signal } = call;
  const timeout_ms = (server.timeout_seconds ?? CALL_SECONDS) * 1000;
  const asked: Asked = { run, signal, timeout_ms, max_bytes: CALL_BYTES };
  return await use(server, asked, async ({ client, credentials }) => {
    const options = {
      ...{ signal, timeout: timeout_ms, resetTimeoutOnProgress: true, onprogress: () => {} },
      headers: headersOf(tool.headers, given),
    };
    const params = { name: tool.name, arguments: given };
    const answer = await client
      .request({ method: "tools/call", params }, callAnswerSchema, options)
      .catch((error: Error): CallAnswer => {
        // The model can mend its call by the server's message.
        if (signal.aborted || !isServersError(error)) throw error;
        return { content: [{ type: "text", text: error.message }], isError: true };
      });
    return await resultOf(answer, { call, credentials, deps });
  });
}

/** The tools that the owner allows, with safe texts; none when the server cannot be used. Throws `secret_reflected`. */
async function list(server: McpServer, run: RunRef, deps: ToolDeps & { use: Use }): Promise<Listing> {
  // Other runs may wait for this listing: it does not end with the run that started it.
  const signal = AbortSignal.timeout(LISTING_MS);
  const given: Asked = { run, signal, timeout_ms: LISTING_MS, max_bytes: LISTING_BYTES };
  const asked = await deps
    .use(server, given, async (access) => ({
      listed: await pagesOf(access, signal),
      credentials: access.credentials,
    }))
    .catch(() => failedCall("mcp_failed", `the MCP server ${server.name} could not be used: it took too long`));
  if ("status" in asked) {
    const { error } = asked;
    if (error?.code === "secret_reflected") throw errors.secretReflected(error.message);
    // The run's step has the message. It names the server and its path, which may hold a key.
    deps.log.warn({ run_id: run.run_id, code: error?.code }, "an MCP server has no tools now");
    return { tools: [], failure: asked };
  }
  const { listed, credentials } = asked;
  const wanted = listed.filter(({ name }) => server.tools?.includes(name) ?? true);
  const { sanitize } = deps.sanitizer.of(run.user_id);
  const tools: Known[] = [];
  for (const tool of wanted.slice(0, MAX_TOOLS)) {
    const safe = await safeTool(tool, sanitize);
    // After the limit of a schema's size.
    const headers = safe === null ? null : argumentHeaders(tool.inputSchema);
    if (safe !== null && headers !== null) tools.push({ ...safe, headers, definition: definitionOf(server, safe) });
  }
  // The safety layer joins text that the server had split, so a secret may appear only now.
  const leak = await leakIn([JSON.stringify(tools)], { credentials, run }, deps);
  if (leak?.error?.code === "secret_reflected") throw errors.secretReflected(leak.error.message);
  return leak === null ? { tools, failure: null } : { tools: [], failure: leak };
}

async function pagesOf({ client }: McpAccess, signal: AbortSignal): Promise<ListedTool[]> {
  const tools: ListedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const listed = await client.request({ method: "tools/list", params }, listSchema, { signal });
    tools.push(...listed.tools.map((tool) => ({ ...tool, description: tool.description ?? "" })));
    cursor = listed.nextCursor;
    if (cursor === undefined) break;
  }
  return tools;
}

function definitionOf(server: McpServer, { name, description, inputSchema }: ListedTool): ToolDefinition {
  const definition = { name: mcpToolName(server.name, name), description, parameters: inputSchema };
  return { type: "function", function: definition };
}
