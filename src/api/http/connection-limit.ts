import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import { createPeerAddress } from "./client-address.ts";

/** contract 2.12.4: open connections of one address. A whole office, or a busy program with its streams, needs fewer. */
export const CONNECTIONS_PER_ADDRESS = 2_000;
/** Further connections whose first request is answered 429. Those beyond are closed at once. */
const ANSWERED = 100;
/** The longest time that such a connection may wait with its request. */
const REQUEST_MS = 5_000;

/**
 * Counts the connections of each address, so that one address cannot take all that a node accepts. Connections of trusted
 * proxies are not counted: they carry the requests of many callers. Returns whether a request came beyond the limit.
 */
export function limitConnections(
  server: Server,
  { most, trusted_proxies }: { most: number; trusted_proxies: readonly string[] },
): (request: IncomingMessage) => boolean {
  const addressOf = createPeerAddress(trusted_proxies);
  const open = new Map<string, number>();
  const excess = new WeakSet<Socket>();
  server.on("connection", (socket: Socket) => {
    const address = addressOf(socket.remoteAddress ?? "");
    if (address === null) return;
    const count = (open.get(address) ?? 0) + 1;
    if (count > most + ANSWERED) {
      socket.destroy();
      return;
    }
    open.set(address, count);
    socket.once("close", () => {
      const left = (open.get(address) ?? 1) - 1;
      if (left > 0) open.set(address, left);
      else open.delete(address);
    });
    if (count <= most) return;
    excess.add(socket);
    const late = setTimeout(() => socket.destroy(), REQUEST_MS).unref();
    socket.once("close", () => clearTimeout(late));
  });
  return ({ socket }) => excess.has(socket);
}
