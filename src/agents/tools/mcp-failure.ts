import type { McpServer } from "../../api/contract/tools.ts";
import { OutboundError } from "../../platform/net/outbound-errors.ts";
import { type OpenedCredential, reflected } from "./credentials.ts";
import type { Operation, OperationRequest } from "./mcp-traffic.ts";
import { wordsOfAnswer } from "./outside-words.ts";
import type { ToolDeps } from "./tool.ts";
import { failedCall, type ToolResult } from "./tools.types.ts";

/** Why an MCP server could not be used, in a sentence that tells its owner what to do. */

/** The code of the error that answers a request whose stream ended. No protocol uses it. */
export const STREAM_ENDED = -31_999;

/** The errors of the MCP project's client, which is loaded on first use: they are known by their fields. */
interface ClientError extends Error {
  readonly code?: unknown;
  readonly status?: unknown;
}

/** Whether the server has forgotten its session (MCP, "Session Management"). */
export function isSessionLost(error: unknown): boolean {
  return (error as ClientError).status === 404;
}

/** Whether the server did not answer in time. */
export function isLate(error: unknown): boolean {
  return (error as ClientError).code === "REQUEST_TIMEOUT";
}

/** Whether the server answered with an error of its own. Then the error's message is the server's text. */
export function isServersError(error: unknown): error is Error & { code: number } {
  const { code } = error as ClientError;
  return typeof code === "number" && code !== STREAM_ENDED;
}

/** The failed step of an operation that broke off. Its message repeats no text of the server. */
export async function failedOperation(
  error: unknown,
  given: {
    server: McpServer;
    asked: OperationRequest;
    credentials: readonly OpenedCredential[];
    operation: Operation;
  },
  deps: ToolDeps,
): Promise<ToolResult> {
  const { server, asked, credentials, operation } = given;
  const cause = operation.failure() ?? error;
  if (cause instanceof OutboundError && cause.code === "secret_reflected") {
    return await reflected(cause.secrets, { credentials, run: asked.run }, deps);
  }
  const is_refused = cause instanceof OutboundError && cause.code === "egress_refused";
  const why = cause instanceof OutboundError ? cause.message : explainReason(error as ClientError, given);
  const refusal = cause instanceof OutboundError ? null : operation.refusal();
  const words = refusal === null ? undefined : await wordsOfAnswer(refusal, { credentials, run: asked.run }, deps);
  if (words !== undefined && "result" in words) return words;
  return failedCall(
    is_refused ? "egress_refused" : "mcp_failed",
    `the MCP server ${server.name} could not be used: ${why}`,
    words,
  );
}

function explainReason(
  error: ClientError,
  {
    server,
    asked,
    operation,
    credentials,
  }: { server: McpServer; asked: OperationRequest; operation: Operation; credentials: readonly OpenedCredential[] },
): string {
  const status = operation.status();
  if (status === 401) return unauthorized(server, credentials);
  if (status === 403)
    return `it denies access (403)${server.auth === undefined ? "; set auth for it" : "; its secret may not be used for this"}`;
  if (status === 404 || status === 405 || status === 410) {
    return `it has no MCP endpoint at the path ${new URL(server.url).pathname} (${status}); check the path of its url. Servers that only speak the old HTTP+SSE transport are not supported`;
  }
  if (status === 429) return "it takes no more requests for now (429); try again later";
  if (error.code === STREAM_ENDED) return "its stream ended without the answer";
  if (isLate(error)) return late(asked.timeout_ms);
  if (/protocol version/i.test(error.message) || error.code === -32_022) {
    return "it speaks no version of the protocol that Purser knows (2024-10-07 to 2026-07-28)";
  }
  if (status === null && operation.isPage()) {
    return "it answers with something other than JSON or an event stream; its url may be that of a web page";
  }
  if (status !== null) return `it answers with the status ${status}`;
  return "it does not answer as an MCP server does";
}

function unauthorized({ auth }: McpServer, credentials: readonly OpenedCredential[]): string {
  if (auth === undefined) {
    return "it wants a sign-in (401); store its token as a secret, or a secret of type oauth for it, and name it in the server's auth";
  }
  if (credentials.some(({ secret }) => secret.is_token === true)) {
    return `it does not accept the token of the secret ${auth.secret} (401), also not a new one; its owner has to connect again`;
  }
  return `it does not accept the secret ${auth.secret} (401); change the secret's value, or auth.inject if the server wants it in another place`;
}

function late(timeout_ms: number): string {
  return `it did not answer within ${timeout_ms / 1000} s; a larger timeout_seconds (600 at most) gives it more time`;
}
