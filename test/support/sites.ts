import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A request to a site. */
interface SeenRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** A local web site with scripted answers. It records its requests. */
export interface Site {
  /** `http://127.0.0.1:PORT` */
  url: string;
  /** `127.0.0.1:PORT`, as PURSER_EGRESS_ALLOW takes it. */
  host: string;
  port: number;
  requests: SeenRequest[];
  close(): Promise<void>;
}

/**
 * Starts a site on a free port of the loopback address.
 * @param pages by path: a whole answer, or a listener that writes one. Other paths answer 404.
 */
export async function startSite(
  pages: Record<
    string,
    RequestListener | { status?: number; headers?: Record<string, string>; body?: string | Buffer }
  >,
): Promise<Site> {
  const requests: SeenRequest[] = [];
  const server = createServer(async (request, response) => {
    const path = (request.url ?? "/").split("?")[0] ?? "/";
    const body = await text(request);
    requests.push({ method: request.method ?? "", path: request.url ?? "", headers: request.headers, body });
    const page = pages[path];
    if (typeof page === "function") return page(request, response);
    response.writeHead(page?.status ?? (page === undefined ? 404 : 200), {
      "content-type": "text/html",
      ...page?.headers,
    });
    response.end(page?.body ?? "");
  });
  const port = await listening(server);
  return { url: `http://127.0.0.1:${port}`, host: `127.0.0.1:${port}`, port, requests, close: () => closed(server) };
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
