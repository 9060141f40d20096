import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A delivery as the receiver read it. */
export interface Received {
  path: string;
  headers: Record<string, string>;
  body: string;
}

/** The receiver's reaction to a delivery: a status, or any other use of the socket. */
export type Treatment = number | ((response: ServerResponse, delivery: Received) => void);

/** A local receiver of webhooks. */
export interface Receiver {
  /** `http://127.0.0.1:PORT` */
  url: string;
  /** `127.0.0.1:PORT`, as PURSER_EGRESS_ALLOW takes it. */
  host: string;
  received: Received[];
  /** Sets the reactions to the next deliveries. The last one stays. */
  treat(...treatments: Treatment[]): void;
  /** Resolves after `count` deliveries in total. */
  until(count: number): Promise<void>;
  close(): Promise<void>;
}

/** Starts a receiver that answers 204 unless a test sets a reaction. */
export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  let treatments: Treatment[] = [204];
  let waiting: { count: number; resolve: () => void }[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const delivery = { path: request.url ?? "", headers: request.headers as Record<string, string>, body };
    received.push(delivery);
    const treatment = treatments.length > 1 ? treatments.shift() : treatments[0];
    if (typeof treatment === "function") treatment(response, delivery);
    else response.writeHead(treatment ?? 204).end();
    for (const { resolve } of waiting.filter(({ count }) => count <= received.length)) resolve();
    waiting = waiting.filter(({ count }) => count > received.length);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    received,
    treat: (...given) => {
      treatments = given;
    },
    until(count) {
      if (received.length >= count) return Promise.resolve();
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ count, resolve });
      return promise;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
