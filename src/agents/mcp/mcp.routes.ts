import type { McpHttpHandler, McpRequestContext } from "@modelcontextprotocol/server";
import type { RequestFacts } from "../../api/contract/caller.ts";
import { createRouter, type RequestContext, type Router, webAnswer } from "../../api/contract/endpoint.ts";
import { mcpEndpoint } from "../../api/contract/mcp.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { newId } from "../../platform/lib/ids.ts";
import { withoutNulls } from "../../platform/lib/null-fields.ts";
import type { PublicAddress } from "../../platform/net/public-address.ts";
import { type Asker, createMcpTools, type McpServerDeps, serverFactory } from "./mcp-server.ts";

const SESSION = "mcp-session-id";
/** Headers of the protocol. */
const READ_HEADERS = [
  "accept",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  SESSION,
];
const SESSION_ID = /^[0-9a-f-]{36}$/;

/** POST /api/v1/mcp: the account's agents as MCP tools. No node keeps a session: contract 6.13. */
export function mcpRoutes(
  deps: McpServerDeps & { address: Pick<PublicAddress, "isOurs">; cors_origins: readonly string[] },
): Router {
  const tools = createMcpTools(deps);
  let handler: Promise<McpHttpHandler> | undefined;
  const router = createRouter();
  router.on(mcpEndpoint, async (request) => {
    const origin = request.header("origin");
    // The protocol demands it: a page must not reach the endpoint by a name that points to this machine.
    if (origin !== undefined && !deps.address.isOurs(origin) && !deps.cors_origins.includes(origin)) {
      throw httpErrors.originRefused();
    }
    const message = withoutNulls(request.body) as Message;
    const session = request.header(SESSION);
    request.keeping.only_reads = !startsRun(message);
    const asker = getAsker(request, message, session);
    if (message.method === "notifications/cancelled" && session !== undefined) {
      await tools.cancel(asker, callId(session, message.params?.requestId));
    }
    if (message.method === "tools/list") tools.precheckList(asker);
    if (message.method === "tools/call" && message.params?.requestState === undefined) {
      await tools.precheck(asker, toTool(message), message.params?.arguments);
    }
    if (typeof message.method === "string") tools.precheckTask(asker, message.method);
    // Loaded on first use: few nodes are MCP servers.
    handler ??= import("@modelcontextprotocol/server").then((library) =>
      library.createMcpHandler(serverFactory(tools, askerIn, library), {
        // The library's messages repeat what the caller sent.
        onerror: ({ name }) => deps.log.warn({ cause: name }, "an MCP message was not answered"),
      }),
    );
    const { caller, request_id } = asker;
    const { scopes } = caller;
    const authInfo = { token: "", clientId: caller.user_id, scopes: [...scopes], extra: { asker, request_id } };
    const answer = await (await handler).fetch(webRequest(request), { parsedBody: message, authInfo });
    if (message.method === "initialize" && answer.ok) answer.headers.set(SESSION, newId());
    return webAnswer(loggedAtEnd(request.facts, answer));
  });
  return router;
}

/** The request's log line is written at the end of a stream. */
function loggedAtEnd(facts: RequestFacts, answer: Response): Response {
  if (answer.body === null || answer.headers.get("content-type")?.startsWith("text/event-stream") !== true)
    return answer;
  const ended = Promise.withResolvers<void>();
  facts.ended = ended.promise;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  answer.body.pipeTo(writable).then(ended.resolve, () => ended.resolve());
  return new Response(readable, answer);
}

/** The request as the protocol's library reads it. Its body is passed beside it. */
function webRequest({ path, header, hungUp }: RequestContext): Request {
  const headers = new Headers();
  for (const name of READ_HEADERS) {
    const value = header(name);
    if (value !== undefined) headers.set(name, value);
  }
  return new Request(new URL(path, "http://localhost"), { method: "POST", headers, signal: hungUp() });
}

/** The part of a message that the route reads. The protocol's library checks the rest. */
interface Message {
  id?: unknown;
  method?: unknown;
  params?: {
    name?: unknown;
    arguments?: unknown;
    requestId?: unknown;
    requestState?: unknown;
    _meta?: Record<string, unknown>;
  };
}

/** The name of the tool that a message calls; empty if it is no text. */
function toTool({ params }: Message): string {
  return typeof params?.name === "string" ? params.name : "";
}

/** Whether the message calls an agent. The other tools read runs, and a call that names its state goes on with a run. */
function startsRun(message: Message): boolean {
  if (message.params?.requestState !== undefined) return false;
  return message.method === "tools/call" && toTool(message).startsWith("run_");
}

function getAsker(request: RequestContext, { id, params }: Message, session: string | undefined): Asker {
  const is_modern = params?._meta?.["io.modelcontextprotocol/protocolVersion"] !== undefined;
  return {
    caller: request.caller,
    live: request.watchCaller,
    // In older versions a client that disconnects may come back for the result; it cancels by a message.
    request_id: session === undefined || is_modern ? request.request_id : callId(session, id),
    hung_up: is_modern ? request.hungUp() : null,
  };
}

/** The id under which a session's call is found when it is cancelled, on whichever node. */
function callId(session: string, id: unknown): string {
  if (!SESSION_ID.test(session) || (typeof id !== "number" && typeof id !== "string")) return newId();
  return `mcp-${session}-${String(id)
    .slice(0, 64)
    .replaceAll(/[^A-Za-z0-9._-]/g, "_")}`;
}

function askerIn({ authInfo }: McpRequestContext): Asker {
  return authInfo?.extra?.asker as Asker;
}
