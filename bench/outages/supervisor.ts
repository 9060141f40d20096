import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import type { BenchService } from "../support/service.ts";
import type { Nodes } from "./phases.ts";

const RESTART_MS = 500;

/** A node that is started again whenever it ends, as systemd or Kubernetes does. */
export interface Supervised {
  /** kill -9. Resolves when the node has started again. */
  kill(): Promise<void>;
  /** Stops the node, and starts it in another way. */
  replace(start: () => Promise<BenchService>): Promise<void>;
  stop(): Promise<void>;
}

/** Keeps the node in `nodes` while it runs. Resolves after its first start, and rejects if that fails. */
export async function supervise(nodes: Nodes, name: string, first: () => Promise<BenchService>): Promise<Supervised> {
  let start = first;
  let is_wanted = true;
  let current = await start();
  let up = Promise.withResolvers<void>();

  const run = async () => {
    for (;;) {
      nodes.set(name, current);
      up.resolve();
      await current.exited;
      nodes.delete(name);
      up = Promise.withResolvers<void>();
      for (let has_started = false; !has_started; ) {
        if (!is_wanted) return;
        await setTimeout(RESTART_MS);
        has_started = await start().then(
          (service) => {
            current = service;
            return true;
          },
          () => false,
        );
      }
    }
  };
  const running = run();
  const restarted = async (end: () => Promise<void>) => {
    const before = current;
    await end();
    while (current === before) await setTimeout(RESTART_MS / 2);
  };
  return {
    async kill() {
      await up.promise;
      await restarted(() => current.kill());
    },
    async replace(next) {
      await up.promise;
      start = next;
      // A load balancer sends no more requests to a node that is about to stop.
      nodes.delete(name);
      await setTimeout(RESTART_MS);
      await restarted(() => current.stop());
    },
    async stop() {
      is_wanted = false;
      await current.stop();
      await running;
    },
  };
}

/** A port that forwards to the database, and can be closed. */
export interface Gate {
  port: number;
  /** Cuts all connections and rejects new ones. */
  close(): Promise<void>;
  open(): Promise<void>;
}

export async function openGate(to_port: number): Promise<Gate> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const database = connect(to_port, "127.0.0.1");
    for (const socket of [client, database]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        database.destroy();
      });
    }
    client.pipe(database).pipe(client);
  });
  const listen = async (port: number) => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as { port: number }).port;
  };
  const port = await listen(0);
  return {
    port,
    async close() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    async open() {
      await listen(port);
    },
  };
}
