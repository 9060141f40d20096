import { z } from "@hono/zod-openapi";
import { mcp } from "../contract/tools/mcp.ts";
import type { McpServer, McpSettings } from "../contract/tools.ts";
import { errors } from "../errors.ts";
import { monotonicMs } from "../platform/clock.ts";
import { raceAbort } from "../platform/race-abort.ts";
import { BUSY } from "../safety/sanitizer.ts";
import { leakIn } from "./credentials.ts";
import { textKind } from "./fetched-text.ts";
import { isMcpName, mcpToolName, serverOf } from "./mcp-names.ts";
import { type ListedTool, safeTool } from "./mcp-schema.ts";
import { type McpSession, withMcpServer } from "./mcp-session.ts";
import { MAX_TEXT_CHARS, SAFETY_BUSY, textsOf } from "./safe-answer.ts";
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
const CALL_MS = 60_000;
/** Limits for all answers of one session, which lists tools or calls one. */
const LISTING_BYTES = 262_144;
const CALL_BYTES = 2_000_000;

const listSchema = z.object({
  tools: z
    .array(
      z.object({
        name: z.string().min(1).max(200),
        description: z.string().optional(),
        inputSchema: z.record(z.string(), z.unknown()),
      }),
    )
    .max(1000),
  nextCursor: z.string().optional(),
});
const resultSchema = z.object({
  content: z.array(z.looseObject({ type: z.string() })).default([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
});

/** The tools of the MCP servers that an agent's owner configured. */
export const mcpTools: Tool<McpSettings, Record<string, unknown>> = {
  contract: mcp,
  has_servers: true,
  owns: isMcpName,
  effect({ name }, settings) {
    if (!settings?.enabled) return "unknown";
    return serverOf(settings, name)?.effects === "none" ? "none" : "unknown";
  },
  create: createMcpTools,
};

/** A tool with its definition for the model and its name on the server. */
interface Known extends ListedTool {
  readonly definition: ToolDefinition;
}
/** A server's tools. `failure` is the reason why the server could not be asked, and then there are no tools. */
interface Listing {
  readonly tools: readonly Known[];
  readonly failure: ToolResult | null;
}

/** Caches the listing of each server for some minutes. */
function createMcpTools(deps: ToolDeps): RunningTool<McpSettings, Record<string, unknown>> {
  const listings = new Map<string, { until_ms: number; listing: Promise<Listing> }>();

  function listingOf(server: McpServer, run: RunRef): Promise<Listing> {
    const key = `${run.user_id} ${JSON.stringify(server)}`;
    const kept = listings.get(key);
    if (kept !== undefined && kept.until_ms > monotonicMs()) return kept.listing;
    const listing = list(server, run, deps);
    const entry = { until_ms: monotonicMs() + LISTED_MS, listing };
    listings.delete(key);
    listings.set(key, entry);
    for (const [oldest] of listings) {
      if (listings.size <= LISTINGS_KEPT) break;
      listings.delete(oldest);
    }
    listing.then(
      ({ tools }) => {
        if (tools.length === 0) entry.until_ms = monotonicMs() + FAILED_MS;
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
      if (call.taint.tainted && server.effects !== "none") {
        return failedCall(
          "egress_refused",
          `after outside content was read, only servers that the owner says have no effects are called; ${server.name} is not one`,
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
      const params = { name: tool.name, arguments: given };
      const { run, signal } = call;
      return await withMcpServer(server, { run, signal, max_bytes: CALL_BYTES }, deps, async (session) => {
        const options = { signal, timeout: CALL_MS };
        const answer = await session.client.request({ method: "tools/call", params }, resultSchema, options);
        return await resultOf(answer, { call, session, deps });
      });
    },
  };
}

/** The tools that the owner allows, with safe texts; none when the server cannot be used. Throws `secret_reflected`. */
async function list(server: McpServer, run: RunRef, deps: ToolDeps): Promise<Listing> {
  // Other runs may wait for this listing: it does not end with the run that started it.
  const signal = AbortSignal.timeout(LISTING_MS);
  const asked = await withMcpServer(server, { run, signal, max_bytes: LISTING_BYTES }, deps, async (session) => ({
    listed: await pagesOf(session, signal),
    credentials: session.credentials,
  })).catch(() => failedCall("mcp_failed", `the MCP server ${server.name} could not be used: it took too long`));
  if ("status" in asked) {
    const { error } = asked;
    if (error?.code === "secret_reflected") throw errors.secretReflected(error.message);
    deps.log.warn({ run_id: run.run_id, server: server.name, error: error?.message }, "an MCP server has no tools now");
    return { tools: [], failure: asked };
  }
  const { listed, credentials } = asked;
  const wanted = listed.filter(({ name }) => server.tools?.includes(name) ?? true).slice(0, MAX_TOOLS);
  const { sanitize } = deps.sanitizer.of(run.user_id);
  const tools: Known[] = [];
  for (const tool of wanted) {
    const safe = await safeTool(tool, sanitize);
    if (safe !== null) tools.push({ ...safe, definition: definitionOf(server, safe) });
  }
  // The safety layer joins text that the server had split, so a secret may appear only now.
  const leak = await leakIn([JSON.stringify(tools)], { credentials, run }, deps);
  if (leak?.error?.code === "secret_reflected") throw errors.secretReflected(leak.error.message);
  return leak === null ? { tools, failure: null } : { tools: [], failure: leak };
}

async function pagesOf({ client }: McpSession, signal: AbortSignal): Promise<ListedTool[]> {
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

async function resultOf(
  answer: z.infer<typeof resultSchema>,
  { call, session, deps }: { call: ToolCall; session: McpSession; deps: ToolDeps },
): Promise<ToolResult> {
  const content = textOf(answer);
  const sanitized = await deps.sanitizer.of(call.run.user_id).sanitize({
    content,
    kind: textKind(content),
    level: "balanced",
    mark: call.mark,
    max_chars: MAX_TEXT_CHARS,
  });
  if (sanitized === BUSY) return failedCall("mcp_failed", SAFETY_BUSY);
  if (sanitized === null) return failedCall("unsupported_content", "the answer is too intricate to be made safe");
  const { text, verdict, removed } = sanitized;
  const safety = { verdict, removed };
  const { credentials } = session;
  const leak = await leakIn([content, ...textsOf({ text, safety, links: [] })], { credentials, run: call.run }, deps);
  if (leak !== null) return leak;
  if (!answer.isError) return { status: "succeeded", result: text, safety, links: [] };
  const error = { code: "mcp_failed" as const, message: "the tool says that it failed" };
  return { status: "failed", result: text, error, safety, links: [] };
}

/** The text of an answer; a placeholder for each part that is not text. */
function textOf({ content, structuredContent }: z.infer<typeof resultSchema>): string {
  if (content.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent);
  return content.map(partText).join("\n");
}

function partText(part: Record<string, unknown>): string {
  switch (part.type) {
    case "text":
      return String(part.text);
    case "resource": {
      const { uri, text } = (part.resource ?? {}) as { uri?: unknown; text?: unknown };
      return typeof text === "string" ? text : `[a resource that is no text: ${String(uri)}]`;
    }
    case "resource_link":
      return `[a resource: ${String(part.name)}, ${String(part.uri)}]`;
    case "image":
    case "audio":
      return `[${part.type}: cannot be read]`;
    default:
      return "[cannot be read]";
  }
}
