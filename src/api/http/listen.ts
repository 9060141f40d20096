import { createServer, get, type RequestListener, type Server } from "node:http";
import { type AddressInfo, createServer as createNetServer, type Server as NetServer } from "node:net";
import { SHUTDOWN_SECONDS } from "../../kernel/constants.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { CONNECTIONS_PER_ADDRESS, limitConnections } from "./connection-limit.ts";
import { createEarlyAnswers } from "./early-answers.ts";
import type { HttpApp } from "./fastify.ts";
import { commonHeaders } from "./security-headers.ts";
import { cutUnreadAnswers, UNREAD_LIMITS } from "./unread-answers.ts";

/** A listening server. `url` is `http://HOST:PORT` with the actual port. */
export interface Listening {
  url: string;
  /** The application that answers from now on. Before the first one, only health is answered. */
  serve(app: HttpApp): Promise<void>;
  /** Accepts the requests that were sent before, waits for running ones (`limit_ms` at most), then closes. */
  stop(limit_ms?: number): Promise<void>;
}

/** Idle connections stay open longer than in usual proxies, so that a proxy never uses a closed one. */
const KEEP_ALIVE_MS = 65_000;
const LIMITS = {
  /** From a connection's or a request's first byte to the end of its headers. */
  headers_ms: 10_000,
  /** To the end of its body. The answer may take longer. */
  request_ms: 60_000,
  /** The interval of the check of both times. */
  check_ms: 1_000,
  /** Open connections, with the streams. Further ones are closed at once. */
  connections: 10_000,
  connections_per_address: CONNECTIONS_PER_ADDRESS,
  unread: UNREAD_LIMITS,
};
/** Connections that wait to be accepted. */
const BACKLOG = 4096;
/** The longest wait of a shutdown for them. */
const ACCEPT_MS = 10_000;
/** An address of this machine, by the address of a server that listens on all. */
const LOOPBACK: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** Rejects with the system's error when `address` is not free. Called before anything is created. */
export async function checkAddress(address: { host: string; port: number }): Promise<void> {
  const server = createNetServer();
  await bind(server, address);
  await new Promise((resolve) => server.close(resolve));
}

async function bind(server: NetServer, { host, port }: { host: string; port: number }): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, BACKLOG, resolve);
  });
}

interface ListeningAddress {
  host: string;
  port: number;
  trusted_proxies?: readonly string[];
  public_url?: string | null;
  is_drill?: boolean;
}

/** Listens on `address`. Without an application, it answers that the service starts. Rejects when it cannot listen. */
export async function listen(
  first_app: HttpApp | null,
  address: ListeningAddress,
  limits: Partial<typeof LIMITS> = {},
): Promise<Listening> {
  const { trusted_proxies = [], public_url = null, is_drill = false } = address;
  const { headers_ms, request_ms, check_ms, connections, connections_per_address, unread } = { ...LIMITS, ...limits };
  const early = createEarlyAnswers(commonHeaders({ is_https: public_url?.startsWith("https:") === true, is_drill }));
  let answerRequest: RequestListener = early.starting;
  const answer: RequestListener = (incoming, outgoing) => {
    if (isExcess(incoming)) early.tooManyConnections(outgoing, connections_per_address);
    else answerRequest(incoming, outgoing);
  };
  const options = {
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: headers_ms,
    requestTimeout: request_ms,
    connectionsCheckingInterval: check_ms,
    // Otherwise Node itself answers a request without a host, with an empty body.
    requireHostHeader: false,
  };
  const server = createServer(options, answer);
  server.maxConnections = connections;
  const isExcess = limitConnections(server, { most: connections_per_address, trusted_proxies });
  cutUnreadAnswers(server, unread);
  server.on("checkExpectation", answer);
  server.on("clientError", early.refuse);
  const serve = async (app: HttpApp) => {
    await app.ready();
    answerRequest = app.routing;
  };
  if (first_app !== null) await serve(first_app);
  await bind(server, address);
  const { port } = server.address() as AddressInfo;
  const host = address.host.includes(":") ? `[${address.host}]` : address.host;
  const stop = (limit_ms = SHUTDOWN_SECONDS.drain * 1000) => drain(server, limit_ms);
  return { url: `http://${host}:${port}`, serve, stop };
}

/**
 * Resolves when the connections that wait to be accepted are accepted. Node accepts one per turn of its event loop, so
 * after a burst they wait for seconds, and a closing server resets them. They are accepted in order: a request of our
 * own comes last.
 */
function untilAccepted(server: Server, limit_ms: number): Promise<void> {
  const { address, port } = server.address() as AddressInfo;
  return new Promise((resolve) => {
    const own = get({ host: LOOPBACK[address] ?? address, port, path: "/livez", agent: false });
    const late = setTimeout(() => own.destroy(), limit_ms);
    own.once("response", () => own.destroy());
    own.once("error", () => {});
    own.once("close", () => {
      clearTimeout(late);
      resolve();
    });
  });
}

async function drain(server: Server, limit_ms: number): Promise<void> {
  const began_ms = monotonicMs();
  await untilAccepted(server, Math.min(ACCEPT_MS, limit_ms));
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // close() keeps a busy keep-alive connection after its request, so end each one when it becomes idle.
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  const late = setTimeout(() => server.closeAllConnections(), limit_ms - (monotonicMs() - began_ms));
  await closed;
  clearInterval(idle);
  clearTimeout(late);
}
