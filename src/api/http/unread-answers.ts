import type { Server } from "node:http";
import type { Socket } from "node:net";

export const UNREAD_LIMITS = {
  /** Bytes of all answers on this node that wait for their callers to read. */
  bytes: 256 * 1024 * 1024,
  /** An answer ends when its caller reads nothing for this time. */
  stalled_ms: 60_000,
  check_ms: 1_000,
};
/** Streams of events wait for their readers at a few KB. */
const LARGE_BYTES = 65_536;

/**
 * Cuts large answers whose callers do not read them, because they would fill the memory: stalled ones, and the oldest
 * ones when all together exceed the limit.
 */
export function cutUnreadAnswers(server: Server, { bytes: most, stalled_ms, check_ms }: typeof UNREAD_LIMITS): void {
  const sockets = new Set<Socket>();
  /** The sockets of large answers, the one that has waited longest first. */
  const waiting = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => {
      sockets.delete(socket);
      waiting.delete(socket);
    });
  });

  /** Node ends a socket at its timeout, unless the caller has read something meanwhile. */
  const begin = (socket: Socket) => {
    waiting.add(socket);
    socket.setTimeout(stalled_ms);
  };
  const end = (socket: Socket) => {
    // After an answer, the timeout is that of an idle connection.
    if (waiting.delete(socket) && socket.timeout === stalled_ms) socket.setTimeout(0);
  };
  const look = () => {
    let sum = 0;
    for (const socket of sockets) {
      sum += socket.writableLength;
      if (socket.writableLength < LARGE_BYTES) end(socket);
      else if (!waiting.has(socket)) begin(socket);
    }
    for (const socket of waiting) {
      if (sum <= most) return;
      sum -= socket.writableLength;
      socket.destroy();
    }
  };
  const timer = setInterval(look, check_ms).unref();
  server.on("close", () => clearInterval(timer));
}
