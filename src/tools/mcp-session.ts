import type { Client } from "@modelcontextprotocol/client";
import { mcp } from "../contract/tools/mcp.ts";
import type { McpServer } from "../contract/tools.ts";
import type { Outbound, OutboundResponse } from "../platform/outbound.ts";
import { OutboundError } from "../platform/outbound-errors.ts";
import {
  type Binding,
  type CredentialsDeps,
  type OpenedCredential,
  openCredentials,
  reflected,
} from "./credentials.ts";
import { oddityOf } from "./mcp-answer.ts";
import { failedCall, type RunRef, type ToolResult } from "./tools.types.ts";

/** Limits of one message and its answer. A server's stream is read to its end before any of it is used. */
const LIMITS = { timeout_ms: 60_000, max_redirects: 3 } as const;
const CLIENT = { name: "purser", version: "1" };
/**
 * Limit of one session, whose own work takes at most a dozen messages. Each request from the server, such as a ping,
 * costs one more message, and one answer of a server has room for a hundred thousand pings.
 */
const MAX_MESSAGES = 50;
/**
 * The methods that the protocol sends with. It also listens with GET; `send` skips that, as no code reads such events.
 */
const METHODS: NonNullable<Binding["methods"]> = ["POST", "DELETE"];
/** Answers without a body (Fetch standard, "null body status"), and 202, with which servers accept a notification. */
const BODILESS = new Set([202, 204, 205, 304]);

export interface McpDeps extends CredentialsDeps {
  outbound: Outbound;
}

export interface McpSession {
  readonly client: Client;
  readonly credentials: readonly OpenedCredential[];
}

/**
 * Opens a session with an MCP server over streamable HTTP, only for `work`. Outbound sends every message, only to the
 * server's own origin. Failures are returned as a failed step; only an abort of `signal` throws.
 * @param max_bytes limit for all answers of the session together.
 */
export async function withMcpServer<T>(
  server: McpServer,
  { run, signal, max_bytes }: { run: RunRef; signal: AbortSignal; max_bytes: number },
  deps: McpDeps,
  work: (session: McpSession) => Promise<T>,
): Promise<T | ToolResult> {
  const url = new URL(server.url);
  const bindings = server.auth === undefined ? [] : [bindingOf(server.auth, url)];
  const credentials = await openCredentials(bindings, { url, method: "POST", tool: mcp.name, run, signal }, deps);
  if (!Array.isArray(credentials)) return credentials;
  let failure: unknown = null;
  let messages = 0;
  let left_bytes = max_bytes;
  const guarded = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    try {
      messages += 1;
      if (messages > MAX_MESSAGES) throw askedTooMuch();
      const answer = await send(deps.outbound, { url, input, init, credentials, signal, max_bytes: left_bytes });
      left_bytes -= answer?.body.length ?? 0;
      return answer === null ? new Response(null, { status: 405 }) : asResponse(answer);
    } catch (error) {
      // A later failure must not hide a reflected secret.
      if (!isReflection(failure)) failure = isTooLarge(error) ? answeredTooMuch(max_bytes) : error;
      // Without the close, pending requests would wait until their timeout.
      if (messages > MAX_MESSAGES) client.close().catch(() => {});
      throw error;
    }
  };
  // Loaded on first use: it costs 36 MB and a tenth of a second, and not every node has agents that use MCP.
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(CLIENT, { capabilities: {} });
  const transport = new StreamableHTTPClientTransport(url, { fetch: guarded, redirectPolicy: "follow" });
  try {
    await client.connect(transport, { timeout: LIMITS.timeout_ms, signal });
    const result = await work({ client, credentials });
    await transport.terminateSession().catch(() => {});
    return isReflection(failure) ? await failed(failure, { server, credentials, run }, deps) : result;
  } catch (error) {
    signal.throwIfAborted();
    return await failed(failure ?? error, { server, credentials, run }, deps);
  } finally {
    await client.close().catch(() => {});
  }
}

/** The failed step of a session that broke off. It does not repeat the server's own error text. */
async function failed(
  error: unknown,
  { server, credentials, run }: { server: McpServer; credentials: readonly OpenedCredential[]; run: RunRef },
  deps: McpDeps,
): Promise<ToolResult> {
  if (isReflection(error)) return await reflected(error.secrets, { credentials, run }, deps);
  const why = error instanceof OutboundError ? error.message : "it does not answer as an MCP server does";
  const is_refused = error instanceof OutboundError && error.code === "egress_refused";
  return failedCall(
    is_refused ? "egress_refused" : "mcp_failed",
    `the MCP server ${server.name} could not be used: ${why}`,
  );
}

function askedTooMuch(): OutboundError {
  return new OutboundError(
    "bad_response",
    `it asks back so much that a session takes more than ${MAX_MESSAGES} messages`,
  );
}

function answeredTooMuch(max_bytes: number): OutboundError {
  return new OutboundError("too_large", `its answers are larger than ${max_bytes} bytes`);
}

function isTooLarge(error: unknown): boolean {
  return error instanceof OutboundError && error.code === "too_large";
}

function isReflection(error: unknown): error is OutboundError {
  return error instanceof OutboundError && error.code === "secret_reflected";
}

function bindingOf(auth: NonNullable<McpServer["auth"]>, url: URL): Binding {
  return { ...auth, hosts: auth.hosts ?? [url.host], methods: auth.methods ?? METHODS };
}

/** The server's answer to one message, checked but not parsed; null for a GET, which is not sent. */
async function send(
  outbound: Outbound,
  message: {
    url: URL;
    input: string | URL;
    init: RequestInit;
    credentials: readonly OpenedCredential[];
    signal: AbortSignal;
    max_bytes: number;
  },
): Promise<OutboundResponse | null> {
  const { url, input, init, credentials, signal, max_bytes } = message;
  const method = init.method ?? "GET";
  if (method === "GET") return null;
  const answer = await outbound.request({
    url: String(input),
    method,
    headers: Object.fromEntries(new Headers(init.headers)),
    body: typeof init.body === "string" ? init.body : undefined,
    permits: (to) => to.origin === url.origin,
    credentials,
    signal: init.signal == null ? signal : AbortSignal.any([signal, init.signal]),
    max_bytes,
    ...LIMITS,
  });
  const oddity = await oddityOf(answer.body, answer.content_type);
  if (oddity !== null) throw new OutboundError("bad_response", oddity);
  return answer;
}

function asResponse({ status, headers, content_type, body }: OutboundResponse): Response {
  const shown = new Headers({ "content-type": content_type });
  const session = headers["mcp-session-id"];
  if (session !== undefined) shown.set("mcp-session-id", session);
  return new Response(BODILESS.has(status) ? null : new Uint8Array(body), { status, headers: shown });
}
