import type { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { mcp } from "../../api/contract/tool-mcp.ts";
import type { McpServer } from "../../api/contract/tools.ts";
import { raceAbort } from "../../platform/lib/race-abort.ts";
import { type Binding, type OpenedCredential, openCredentials } from "./credentials.ts";
import { failedOperation, isLate, isSessionLost, STREAM_ENDED } from "./mcp-failure.ts";
import { createTraffic, isReflection, type Operation, type OperationRequest } from "./mcp-traffic.ts";
import type { ToolDeps } from "./tool.ts";
import type { RunRef, ToolResult } from "./tools.types.ts";

const CLIENT = { name: "purser", version: "1" };
/** Time to end a session at its server, and to ask which version it speaks. */
const CLOSE_MS = 3_000;
const CLOSE_BYTES = 65_536;
/** Waits between two attempts to resume a stream. A server may ask for another wait. */
const RECONNECTION = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 5_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
};
/** The methods that the protocol sends with. GET resumes a stream that broke off. */
const METHODS: NonNullable<Binding["methods"]> = ["GET", "POST", "DELETE"];

/** What one listing or call works with. */
export interface McpAccess {
  readonly client: Client;
  readonly credentials: readonly OpenedCredential[];
}

/** A connection as the MCP project's client keeps it, with or without a session at the server. */
interface Connection {
  readonly traffic: ReturnType<typeof createTraffic>;
  client: Client;
  transport: StreamableHTTPClientTransport;
  is_open: boolean;
}

/** A run's use of one server. Operations take turns. */
interface Session {
  /** Ends with the latest operation. Never rejects. */
  turn: Promise<void>;
  connection: Connection | null;
  credentials: readonly OpenedCredential[];
}

/** The sessions with MCP servers over streamable HTTP: one for each run and server, closed at the run's end. */
export function createMcpSessions(deps: ToolDeps) {
  const sessions = new Map<string, Session>();

  /**
   * Does `work` in the run's session with the server. Failures are returned as a failed step, and end the session; only
   * an abort of `signal` throws.
   */
  async function use<T>(server: McpServer, asked: OperationRequest, work: Work<T>): Promise<T | ToolResult> {
    const key = `${asked.run.run_id} ${JSON.stringify(server)}`;
    const session = sessions.get(key) ?? { turn: Promise.resolve(), connection: null, credentials: [] };
    sessions.set(key, session);
    const before = session.turn;
    const { promise, resolve } = Promise.withResolvers<void>();
    session.turn = promise;
    try {
      await raceAbort(before, asked.signal);
      return await operate(session, { server, asked, work });
    } finally {
      resolve();
    }
  }

  async function operate<T>(session: Session, given: Given<T>): Promise<T | ToolResult> {
    const { server, asked, work, refused } = given;
    const { run, signal, max_bytes } = asked;
    const url = new URL(server.url);
    const bindings = server.auth === undefined ? [] : [toBinding(server.auth, url)];
    // Opened for each operation: a secret may have been changed or taken out of use meanwhile.
    const intended = { url, method: "POST", tool: mcp.name, run, signal, ...(refused && { refused }) };
    const credentials = await raceAbort(openCredentials(bindings, intended, deps), signal);
    if (!Array.isArray(credentials)) return credentials;
    session.credentials = credentials;
    session.connection ??= await newConnection(createTraffic(deps.outbound, url), url);
    const { connection } = session;
    const { is_open } = connection;
    const operation = connection.traffic.begin({ credentials, max_bytes });
    const done = async () => {
      if (!is_open) await open(connection, url, { asked, operation });
      return await work({ client: connection.client, credentials });
    };
    try {
      // The client does not watch the signal while it asks for the version.
      const result = await raceAbort(Promise.race([done(), operation.broken]), signal);
      if (!isReflection(operation.failure())) return result;
      throw operation.failure();
    } catch (error) {
      const again = refused === undefined && operation.isUnauthorized() ? expiredTokens(credentials) : null;
      // A session outlives its token.
      if (again === null || !is_open) drop(session);
      signal.throwIfAborted();
      if (again !== null) return await operate(session, { ...given, refused: again });
      // The server no longer knows the session, so it has not carried out the message.
      if (is_open && isSessionLost(error)) return await operate(session, given);
      return await failedOperation(error, { server, asked, credentials, operation }, deps);
    } finally {
      operation.end();
    }
  }

  /** Ends the session at its server. The next operation begins a new one. */
  function drop(session: Session): Promise<void> {
    const { connection, credentials } = session;
    session.connection = null;
    return connection === null ? Promise.resolve() : close(connection, credentials);
  }

  return {
    use,
    /** Ends the sessions of a run. Resolves when their servers know, or after some seconds. */
    async endRun(run_id: RunRef["run_id"]): Promise<void> {
      const ended = [...sessions].filter(([key]) => key.startsWith(`${run_id} `));
      for (const [key] of ended) sessions.delete(key);
      await Promise.all(ended.map(([, session]) => session.turn.then(() => drop(session))));
    },
  };
}

type Work<T> = (access: McpAccess) => Promise<T>;
interface Given<T> {
  readonly server: McpServer;
  readonly asked: OperationRequest;
  readonly work: Work<T>;
  /** The versions of tokens that the server did not accept, in the second attempt. */
  readonly refused?: ReadonlyMap<string, number>;
}

/** The tokens that may have expired in the middle of a run; null: another attempt would be the same. */
function expiredTokens(credentials: readonly OpenedCredential[]): ReadonlyMap<string, number> | null {
  const tokens = credentials.filter(({ secret }) => secret.is_token === true);
  return tokens.length === 0 ? null : new Map(tokens.map(({ name, secret }) => [name, secret.version]));
}

function toBinding(auth: NonNullable<McpServer["auth"]>, url: URL): Binding {
  return { ...auth, hosts: auth.hosts ?? [url.host], methods: auth.methods ?? METHODS };
}

/**
 * A client that asks the server for its version first, or with `legacy` begins as versions before 2026-07-28 do. It
 * declares no abilities: a run has no person to ask.
 */
async function newConnection(
  traffic: Connection["traffic"],
  url: URL,
  mode: "auto" | "legacy" = "auto",
): Promise<Connection> {
  // Loaded on first use: it costs 36 MB and a tenth of a second, and not every node has agents that use MCP.
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(CLIENT, { capabilities: {}, versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: traffic.fetch,
    redirectPolicy: "follow",
    reconnectionOptions: RECONNECTION,
  });
  answerEndedStreams(transport);
  return { traffic, client, transport, is_open: false };
}

/** Connects. Some older servers answer the question for their version with nonsense, so it is left out then. */
async function open(
  connection: Connection,
  url: URL,
  { asked, operation }: { asked: OperationRequest; operation: Operation },
): Promise<void> {
  const options = { timeout: asked.timeout_ms, signal: asked.signal };
  try {
    await connection.client.connect(connection.transport, options);
  } catch (error) {
    const status = operation.status();
    const is_nonsense = operation.failure() === null && (status === null || status >= 500);
    if (asked.signal.aborted || !is_nonsense || isLate(error)) throw error;
    const { client, transport } = await newConnection(connection.traffic, url, "legacy");
    Object.assign(connection, { client, transport });
    await client.connect(transport, options);
  }
  connection.is_open = true;
}

/** The client waits for its timeout when a stream ends without the answer. This gives it an error as the answer. */
function answerEndedStreams(transport: StreamableHTTPClientTransport): void {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    const id = !Array.isArray(message) && "method" in message && "id" in message ? message.id : undefined;
    if (id === undefined) return send(message, options);
    const onRequestStreamEnd = () => {
      options?.onRequestStreamEnd?.();
      transport.onmessage?.({ jsonrpc: "2.0", id, error: { code: STREAM_ENDED, message: "the stream ended" } });
    };
    return send(message, { ...options, onRequestStreamEnd });
  };
}

/** Ends the session at its server, after a cancellation that is still being sent. */
async function close(
  { client, transport, traffic }: Connection,
  credentials: readonly OpenedCredential[],
): Promise<void> {
  await traffic.settled();
  if (transport.sessionId !== undefined) {
    const operation = traffic.begin({ credentials, max_bytes: CLOSE_BYTES });
    await Promise.race([transport.terminateSession(), operation.broken, timeout(CLOSE_MS)]).catch(() => {});
    operation.end();
  }
  await client.close().catch(() => {});
}

function timeout(after_ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, after_ms).unref());
}
