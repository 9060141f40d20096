import { mcp } from "../../api/contract/tool-mcp.ts";
import type { McpServer, McpSettings } from "../../api/contract/tools.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import { asksFirst } from "./destinations.ts";
import { toolErrors } from "./errors.ts";
import { isServersError } from "./mcp-failure.ts";
import { readHeaders } from "./mcp-headers.ts";
import { type KnownTool, type Listing, listTools, type Use } from "./mcp-listing.ts";
import { findServer, getEffects, getPolicy, isMcpName } from "./mcp-names.ts";
import { type CallAnswer, callAnswerSchema, toResult } from "./mcp-result.ts";
import type { LeftOutTool } from "./mcp-schema.ts";
import { createMcpSessions } from "./mcp-session.ts";
import type { OperationRequest } from "./mcp-traffic.ts";
import type { RunningTool, Tool, ToolDeps } from "./tool.ts";
import {
  failedCall,
  type LeftOutTools,
  type RunRef,
  type ToolCall,
  type ToolResult,
  type UnusableServer,
  unknownTool,
} from "./tools.types.ts";

/** How long one listing serves all runs of an agent. A failed listing is retried sooner. */
const LISTED_MS = 300_000;
const FAILED_MS = 30_000;
const LISTINGS_KEPT = 500;
/** The most tools that are named for one reason. */
const MAX_NAMED = 10;
const CALL_SECONDS = 60;
/** Limit for all answers to one call. */
const CALL_BYTES = 2_000_000;

/** The tools of the MCP servers that an agent's owner configured. */
export const mcpTools: Tool<McpSettings, Record<string, unknown>> = {
  contract: mcp,
  has_servers: true,
  owns: isMcpName,
  effect({ name }, settings) {
    if (!settings?.enabled) return "unknown";
    const server = findServer(settings, name);
    return server !== undefined && getEffects(server, name) === "none" ? "none" : "unknown";
  },
  needsApproval(name, settings, { tainted }) {
    const server = findServer(settings, name);
    return server !== undefined && asksFirst(getPolicy(server, name), tainted);
  },
  findFault: (_given, { name }, settings) => (findServer(settings, name) === undefined ? unknownTool(name) : null),
  describeDestination(_given, name, settings) {
    const server = findServer(settings, name);
    return server === undefined ? name : `${server.name} (${new URL(server.url).host})`;
  },
  create: createMcpTools,
};

/** Caches the listing of each server for some minutes. */
function createMcpTools(deps: ToolDeps): RunningTool<McpSettings, Record<string, unknown>> {
  /** `ended`: the listing once it has succeeded. */
  const listings = new Map<string, { until_ms: number; listing: Promise<Listing>; ended: Listing | null }>();
  const sessions = createMcpSessions(deps);

  const getKey = (server: McpServer, run: RunRef) => `${run.user_id} ${JSON.stringify(server)}`;

  function toListing(server: McpServer, run: RunRef): Promise<Listing> {
    const key = getKey(server, run);
    const kept = listings.get(key);
    if (kept !== undefined && kept.until_ms > monotonicMs()) return kept.listing;
    const listing = listTools(server, run, { ...deps, use: sessions.use });
    const entry = { until_ms: monotonicMs() + LISTED_MS, listing, ended: null as Listing | null };
    listings.delete(key);
    listings.set(key, entry);
    for (const [oldest] of listings) {
      if (listings.size <= LISTINGS_KEPT) break;
      listings.delete(oldest);
    }
    listing.then(
      (ended) => {
        const { tools, failure } = ended;
        entry.ended = ended;
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
    raceAbort(toListing(server, run), signal);

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

    /** The servers some of whose tools the model does not get, with the reasons. */
    async leftOutTools({ servers = [] }, run, signal) {
      const asked = servers.map(async (server): Promise<LeftOutTools[]> => {
        const { left_out } = await awaitedListing(server, run, signal).catch((error: Error & { code?: string }) => {
          if (error.code === "secret_reflected") return { left_out: [] };
          throw error;
        });
        return left_out.length === 0 ? [] : [{ name: server.name, text: textOfLeftOut(left_out) }];
      });
      return (await Promise.all(asked)).flat();
    },

    async call(given, call, settings) {
      const server = findServer(settings, call.name);
      if (server === undefined) return unknownTool(call.name);
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

    async serverTools({ servers = [] }, name, owner) {
      const server = servers.find((each) => each.name === name);
      if (server === undefined) return null;
      // Sessions of its own: no run shares a session with the owner's request.
      const own = createMcpSessions(deps);
      const run = { ...owner, run_id: null };
      const { tools, left_out, failure } = await listTools(server, run, { ...deps, use: own.use }).finally(
        () => void own.endRun(null),
      );
      if (failure?.error) throw toolErrors.serverUnusable(failure.error);
      const shown = tools.map(({ name, description, read_only_hint, definition }) => {
        const { name: called } = definition.function;
        const effects = getEffects(server, called);
        return { name, description, read_only_hint, effects, permission_policy: getPolicy(server, called) };
      });
      return { tools: shown, left_out: left_out.length };
    },
  };
}

/** Which tools are left out, and why. Tools with the same reason are named together. */
function textOfLeftOut(left_out: readonly LeftOutTool[]): string {
  const by_reason = [...Map.groupBy(left_out, ({ reason }) => reason)];
  return by_reason
    .map(([reason, tools]) => {
      const names = tools.flatMap(({ name }) => name ?? []).slice(0, MAX_NAMED);
      const others = tools.length - names.length;
      const unnamed = others === 0 ? [] : [names.length === 0 ? `${others} of its tools` : `${others} others`];
      return `${[...names, ...unnamed].join(", ")} (${reason})`;
    })
    .join("; ");
}

/** Calls the tool in the run's session. Progress that the server reports extends the timeout. */
async function callTool(
  tool: KnownTool,
  given: Record<string, unknown>,
  { call, server, deps, use }: { call: ToolCall; server: McpServer; deps: ToolDeps; use: Use },
): Promise<ToolResult> {
  const { run, signal } = call;
  const timeout_ms = (server.timeout_seconds ?? CALL_SECONDS) * 1000;
  const asked: OperationRequest = { run, signal, timeout_ms, max_bytes: CALL_BYTES };
  return await use(server, asked, async ({ client, credentials }) => {
    const options = {
      signal,
      timeout: timeout_ms,
      resetTimeoutOnProgress: true,
      onprogress: () => {},
      headers: readHeaders(tool.headers, given),
    };
    const params = { name: tool.name, arguments: given };
    const answer = await client
      .request({ method: "tools/call", params }, callAnswerSchema, options)
      .catch((error: Error): CallAnswer => {
        // The model can mend its call by the server's message.
        if (signal.aborted || !isServersError(error)) throw error;
        return { content: [{ type: "text", text: error.message }], isError: true };
      });
    return await toResult(answer, { call, credentials, deps });
  });
}
